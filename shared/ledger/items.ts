import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { marshall, unmarshall } from "@aws-sdk/util-dynamodb";
import { type AnalysisRunSnapshot, addCounts, type MeasurementCounts } from "../domain/analysis-run.ts";
import type { FreightReference } from "../domain/freight.ts";
import { type Cause, deriveAnalysisRunName, formatStageKey, parseStageKey } from "../domain/identity.ts";
import { isTerminal, type Phase } from "../domain/phase.ts";
import type { TemplateState } from "../domain/template-drift.ts";
import type {
  AbortRecord,
  LatestVerification,
  Reason,
  RequestKind,
  RequestOutcome,
  RequestRecord,
  StageRecord,
  Verification,
  WaitingRequest,
} from "../domain/verification.ts";

/**
 * Items and their attributes. Names are short because the head of a verification is written with every
 * observation and must stay at or under 1 KB, one write unit.
 *
 * | attribute | of | holds |
 * | --- | --- | --- |
 * | `ty` | all | `v` verification, `p` transition, `f` Freight membership, `s` Stage, `r` request; `d` is in `deliveries.ts` |
 * | `n` | v, s | revision, grows with each write |
 * | `h` | v, r, s | sort key of the indexes: time and id; for `s` the Project and Stage |
 * | `o` | v | cluster, while the verification is open |
 * | `a` | v, r, s | `cluster/project`; for `s` the cluster |
 * | `f` `fh` | v, f | `cluster/project/` and the Freight, or the FreightCollection when it has several; time and id |
 * | `u` `ca` `pr` `co` `fr` `mo` `ac` | v | Stage uid, cause, Promotion, collection, Freight, missing origins, actor |
 * | `ph` `re` `ms` `t0` `t1` `t2` | v, p | phase, reason, message, created, started, finished (ms) |
 * | `rn` `rp` `ob` `ct` | v | run's name (unless derived) and phase, observed resourceVersion, counts |
 * | `ab` `aw` | v | recorded abort, whether a reverify waits |
 * | `tp` `td` | v | templates of the run (kind, name, generation, hash), those that have changed since |
 * | `rn` `ca` `co` `ph` | r | kind, target, resulting verification, outcome: an index takes few attributes |
 * | `ttl` | all | when it was expired (s); to a reader it is gone |
 * | `st` | s | `la` latest verification, `aa` awaiting Freight, `wa` waiting request, `sh` digest of what was shown |
 */
export type Item = Record<string, AttributeValue>;

const MESSAGE_LIMIT = 256;
/** Bytes; the size of one write unit. */
export const HEAD_LIMIT = 1024;

export const STAGE_SORT_KEY = "STAGE";
export const verificationSortKey = (id: string): string => `V#${id}`;
export const requestSortKey = (requestId: string): string => `R#${requestId}`;
const transitionSortKey = (id: string, phase: Phase): string => `V#${id}#P#${phase}`;
export const projectKey = (cluster: string, project: string): string => `${cluster}/${project}`;
export const freightKey = (cluster: string, project: string, freightOrCollection: string): string =>
  `${cluster}/${project}/${freightOrCollection}`;

/** `0001764567890123#1f0c…`: sorts by time, and apart within one millisecond. */
function timeSortKey(createdAt: number, id: string): string {
  return `${formatHistoryTime(createdAt)}#${id.slice(0, 8)}`;
}

/** Begins the sort keys of what was created then; milliseconds since the epoch. */
export function formatHistoryTime(at: number): string {
  return String(at).padStart(14, "0");
}

const encode = (value: object): Item => marshall(value, { removeUndefinedValues: true });

/** The head of a verification, at most `HEAD_LIMIT` bytes for names of ordinary length. */
export function encodeVerification(v: Verification, revision: number): Item {
  const { cluster, project } = v.key;
  const single = v.collection.freight.length === 1 ? v.collection.freight[0]?.name : undefined;
  const build = (messageLimit: number, withFreight: boolean, withTemplates: boolean): Item => {
    const item = encode({
      pk: formatStageKey(v.key),
      sk: verificationSortKey(v.id),
      ty: "v",
      n: revision,
      h: timeSortKey(v.createdAt, v.id),
      o: isTerminal(v.phase) ? undefined : cluster,
      a: projectKey(cluster, project),
      f: freightKey(cluster, project, single ?? v.collection.id),
      fh: timeSortKey(v.createdAt, v.id),
      u: v.stageUid,
      ca: encodeCause(v.cause),
      pr: v.cause.kind === "promotion" ? undefined : v.promotion,
      co: v.collection.id,
      fr: withFreight ? v.collection.freight.map((f) => `${f.origin}|${f.name}`) : undefined,
      mo: v.missingOrigins.length === 0 ? undefined : v.missingOrigins,
      ac: v.actor,
      ph: v.phase,
      re: v.reason,
      ms: v.message === "" ? undefined : cut(v.message, messageLimit),
      t0: v.createdAt,
      t1: v.startedAt,
      t2: v.finishedAt,
      rn: v.run === undefined || v.run.name === derivedRunName(v) ? undefined : v.run.name,
      rp: v.run?.phase,
      ct: v.counts === undefined ? undefined : encodeCounts(v.counts),
      ab: v.abort,
      aw: v.awaited ? true : undefined,
      tp: withTemplates ? v.templates?.map(encodeTemplate) : undefined,
      td: v.drift === undefined ? undefined : { a: v.drift.at, t: v.drift.templates.map(encodeTemplate) },
    });
    item.ob = { N: v.observed };
    return item;
  };
  const whole = build(MESSAGE_LIMIT, true, true);
  if (sizeOf(whole) <= HEAD_LIMIT) return whole;
  // The AnalysisRun says of what it was made, too.
  const bare = build(MESSAGE_LIMIT, true, false);
  if (sizeOf(bare) <= HEAD_LIMIT) return bare;
  // The whole message is in the transition's item, several Freight are in items of their own.
  const cutItem = build(80, v.collection.freight.length <= 1, false);
  return cutItem;
}

/** `A|smoke|3|1f0c…`: kind, name, generation and hash; C is a template of the cluster. */
function encodeTemplate({ kind, name, generation, hash }: TemplateState): string {
  return `${kind === "AnalysisTemplate" ? "A" : "C"}|${name}|${generation}|${hash}`;
}

function decodeTemplate(text: string): TemplateState {
  const [kind, name = "", generation = "", hash = ""] = text.split("|");
  return {
    kind: kind === "A" ? "AnalysisTemplate" : "ClusterAnalysisTemplate",
    name,
    generation: Number(generation),
    hash,
  };
}

function derivedRunName(v: Verification): string {
  return deriveAnalysisRunName(v.key.stage, v.id, v.collection.id);
}

/** Reads a head, from the table or from an index (where revision and counts are not projected). */
export function decodeVerification(item: Item): { verification: Verification; revision: number } {
  const { ob, ...rest } = item;
  const raw = unmarshall(rest) as Record<string, unknown> & RawHead;
  const key = parseStageKey(raw.pk);
  const id = raw.sk.slice(2);
  const cause = decodeCause(raw.ca);
  const freight = (raw.fr ?? []).map(decodeFreight);
  const runName = raw.rn ?? deriveAnalysisRunName(key.stage, id, raw.co);
  return {
    revision: raw.n ?? 0,
    verification: {
      key,
      id,
      stageUid: raw.u,
      cause,
      promotion: cause.kind === "promotion" ? cause.promotion : (raw.pr ?? ""),
      collection: { id: raw.co, freight },
      missingOrigins: raw.mo ?? [],
      actor: raw.ac,
      phase: raw.ph,
      reason: raw.re,
      message: raw.ms ?? "",
      createdAt: raw.t0,
      startedAt: raw.t1,
      finishedAt: raw.t2,
      run: raw.rp === undefined ? undefined : { name: runName, phase: raw.rp },
      observed: ob?.N ?? "0",
      counts: raw.ct === undefined ? undefined : decodeCounts(raw.ct),
      abort: raw.ab,
      awaited: raw.aw ?? false,
      ...(raw.tp === undefined ? {} : { templates: raw.tp.map(decodeTemplate) }),
      ...(raw.td === undefined ? {} : { drift: { at: raw.td.a, templates: raw.td.t.map(decodeTemplate) } }),
    },
  };
}

interface RawHead {
  pk: string;
  sk: string;
  n?: number;
  u: string;
  ca: string;
  pr?: string;
  co: string;
  fr?: string[];
  mo?: string[];
  ac?: string;
  ph: Phase;
  re?: Reason;
  ms?: string;
  t0: number;
  t1?: number;
  t2?: number;
  rn?: string;
  rp?: string;
  ct?: number[];
  ab?: AbortRecord;
  aw?: boolean;
  tp?: string[];
  td?: { a: number; t: string[] };
}

/** One row for each member of a collection that has several, so that each Freight finds the verification. */
export function encodeMemberships(v: Verification): Item[] {
  if (v.collection.freight.length < 2) return [];
  return v.collection.freight.map((f) =>
    encode({
      pk: formatStageKey(v.key),
      sk: `${verificationSortKey(v.id)}#F#${f.name}`,
      ty: "f",
      fh: timeSortKey(v.createdAt, v.id),
      f: freightKey(v.key.cluster, v.key.project, f.name),
      co: v.collection.id,
      fr: [`${f.origin}|${f.name}`],
      t0: v.createdAt,
    }),
  );
}

/** What is kept of one change of phase: the whole message and, if a run was seen, its metrics. */
export interface Transition {
  readonly verificationId: string;
  readonly phase: Phase;
  readonly reason?: Reason | undefined;
  readonly message: string;
  readonly at: number;
  readonly run?: AnalysisRunSnapshot | undefined;
}

/** DynamoDB refuses items above 400 KB; what an AnalysisRun reports must never come near it. */
const TRANSITION_LIMIT = 200_000;

export function encodeTransition(v: Verification, run: AnalysisRunSnapshot | undefined): Item {
  const build = (metrics: number): Item => {
    const cutOff = run?.metrics.slice(metrics) ?? [];
    const omitted = [...cutOff, ...(run?.omittedCounts === undefined ? [] : [run.omittedCounts])];
    return encode({
      pk: formatStageKey(v.key),
      sk: transitionSortKey(v.id, v.phase),
      ty: "p",
      ph: v.phase,
      re: v.reason,
      ms: v.message,
      t0: v.finishedAt ?? v.startedAt ?? v.createdAt,
      ru:
        run === undefined
          ? undefined
          : JSON.stringify({
              ...run,
              identity: undefined,
              metrics: run.metrics.slice(0, metrics),
              omittedMetrics: run.omittedMetrics + cutOff.length,
              omittedCounts: omitted.length === 0 ? undefined : addCounts(omitted),
            }),
    });
  };
  let metrics = run?.metrics.length ?? 0;
  let item = build(metrics);
  while (metrics > 0 && sizeOf(item) > TRANSITION_LIMIT) {
    metrics = Math.floor(metrics / 2);
    item = build(metrics);
  }
  return item;
}

export function decodeTransition(item: Item): Transition {
  const raw = unmarshall(item) as Record<string, unknown> & {
    sk: string;
    ph: Phase;
    re?: Reason;
    ms: string;
    t0: number;
    ru?: string;
  };
  return {
    verificationId: raw.sk.slice(2).split("#")[0] ?? "",
    phase: raw.ph,
    reason: raw.re,
    message: raw.ms,
    at: raw.t0,
    run: raw.ru === undefined ? undefined : (JSON.parse(raw.ru) as AnalysisRunSnapshot),
  };
}

export function encodeStage(record: StageRecord, revision: number): Item {
  const { cluster, project, stage } = record.key;
  const item = encode({
    pk: formatStageKey(record.key),
    sk: STAGE_SORT_KEY,
    ty: "s",
    n: revision,
    a: cluster,
    h: `${project}/${stage}`,
    u: record.uid,
    st: { la: record.latest, aa: record.awaiting, wa: record.waiting, sh: record.shown },
  });
  item.ob = { N: record.observed };
  return item;
}

export function decodeStage(item: Item): StageRecord {
  const { ob, ...rest } = item;
  const raw = unmarshall(rest) as Record<string, unknown> & {
    pk: string;
    n?: number;
    u: string;
    st?: {
      la?: LatestVerification;
      aa?: StageRecord["awaiting"];
      wa?: WaitingRequest;
      sh?: string;
    };
  };
  return {
    key: parseStageKey(raw.pk),
    revision: raw.n ?? 0,
    uid: raw.u,
    observed: ob?.N ?? "0",
    latest: raw.st?.la,
    awaiting: raw.st?.aa,
    waiting: raw.st?.wa,
    shown: raw.st?.sh,
  };
}

export function encodeRequest(request: RequestRecord): Item {
  return encode({
    pk: formatStageKey(request.key),
    sk: requestSortKey(request.requestId),
    ty: "r",
    h: timeSortKey(request.createdAt, request.requestId),
    a: projectKey(request.key.cluster, request.key.project),
    rn: request.kind,
    ca: request.target,
    co: request.verificationId,
    ac: request.actor,
    re: request.reason,
    ph: request.outcome,
    ms: cut(request.message, 1024),
    t0: request.createdAt,
  });
}

export function decodeRequest(item: Item): RequestRecord {
  const raw = unmarshall(item) as Record<string, unknown> & {
    pk: string;
    sk: string;
    rn: RequestKind;
    ca?: string;
    co?: string;
    ac?: string;
    re?: string;
    ph: RequestOutcome;
    ms: string;
    t0: number;
  };
  return {
    key: parseStageKey(raw.pk),
    requestId: raw.sk.slice(2),
    kind: raw.rn,
    target: raw.ca,
    verificationId: raw.co,
    actor: raw.ac,
    reason: raw.re,
    outcome: raw.ph,
    message: raw.ms,
    createdAt: raw.t0,
  };
}

function encodeCause(cause: Cause): string {
  switch (cause.kind) {
    case "promotion":
      return `p:${cause.promotion}`;
    case "reverify":
      return `v:${cause.of}`;
    case "request":
      return `r:${cause.requestId}`;
    case "observed":
      return `o:${cause.of ?? ""}`;
  }
}

function decodeCause(text: string): Cause {
  const rest = text.slice(2);
  switch (text.slice(0, 2)) {
    case "v:":
      return { kind: "reverify", of: rest };
    case "r:":
      return { kind: "request", requestId: rest };
    case "o:":
      return rest === "" ? { kind: "observed" } : { kind: "observed", of: rest };
    default:
      return { kind: "promotion", promotion: rest };
  }
}

function decodeFreight(text: string): FreightReference {
  const bar = text.indexOf("|");
  return { origin: text.slice(0, bar), name: text.slice(bar + 1) };
}

function encodeCounts(counts: MeasurementCounts): number[] {
  return [counts.count, counts.successful, counts.failed, counts.inconclusive, counts.error];
}

function decodeCounts(list: readonly number[]): MeasurementCounts {
  const [count = 0, successful = 0, failed = 0, inconclusive = 0, error = 0] = list;
  return { count, successful, failed, inconclusive, error };
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}

/** An item's size as DynamoDB charges it, in bytes: names and values, with a little for each container. */
export function sizeOf(item: Item): number {
  let size = 0;
  for (const [name, value] of Object.entries(item)) size += Buffer.byteLength(name) + sizeOfValue(value);
  return size;
}

function sizeOfValue(value: AttributeValue): number {
  if (value.S !== undefined) return Buffer.byteLength(value.S);
  if (value.N !== undefined) return Math.ceil(value.N.length / 2) + 1;
  if (value.BOOL !== undefined || value.NULL !== undefined) return 1;
  if (value.L !== undefined) return 3 + value.L.reduce((sum, each) => sum + 1 + sizeOfValue(each), 0);
  if (value.M !== undefined) return 3 + Object.keys(value.M).length + sizeOf(value.M);
  return Buffer.byteLength(JSON.stringify(value));
}
