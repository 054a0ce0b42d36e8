import { isTerminal, PHASES } from "../domain/phase.ts";
import type { Verification } from "../domain/verification.ts";
import { cutText, isPlainObject, type PlainObject, readList, readPath, readText } from "./plain-object.ts";
import { mergeVerifiedCondition } from "./verified-condition.ts";

/** Kargo's limit: entries of one FreightCollection's `verificationHistory`. The ledger keeps all. */
const MAX_ENTRIES = 10;
const MAX_MESSAGE = 4096;

/**
 * Writes a verification into a Stage's status: the merge patch for the `/status` subresource, or `undefined` when the
 * status says it already, when the Stage holds or held no such FreightCollection any more, or when the object is
 * another Stage of the same name. The patch replaces whole lists, as a merge patch does, and carries the
 * resourceVersion it was made for: on a conflict, make it again from the fresh object.
 *
 * The ledger is the truth: an entry with the verification's id is brought to the ledger's phase wherever it stands.
 * All other entries, unknown fields and conditions are kept.
 */
export function mergeVerification(stageObject: unknown, v: Verification, now: Date): PlainObject | undefined {
  const resourceVersion = readText(readPath(stageObject, "metadata", "resourceVersion"));
  if (resourceVersion === undefined || readPath(stageObject, "metadata", "uid") !== v.stageUid)
    return undefined;
  const history = readList(readPath(stageObject, "status", "freightHistory"));
  const index = findCollection(stageObject, history, v);
  const collection = index === undefined ? undefined : history[index];
  if (index === undefined || !isPlainObject(collection)) return undefined;

  const before = readList(readPath(collection, "verificationHistory"));
  const after = upsertEntry(before, v);
  const merged = { ...collection, verificationHistory: after };
  const freightHistory = history.map((other, at) => (at === index ? merged : other));
  const conditions = readList(readPath(stageObject, "status", "conditions"));
  // The condition speaks of the Freight that the Stage holds now and of no other.
  const newConditions =
    index === 0
      ? mergeVerifiedCondition(conditions, after, now, readPath(stageObject, "metadata", "generation"))
      : conditions;
  const isSame = isEqual(before, after);
  if (isSame && newConditions === conditions) return undefined;
  return {
    metadata: { resourceVersion },
    status: {
      ...(isSame ? {} : { freightHistory }),
      ...(newConditions === conditions ? {} : { conditions: newConditions }),
    },
  };
}

/**
 * Which FreightCollection of the history a verification belongs to. Promoting the same Freight again adds a
 * collection with the same id, so the id alone does not say it.
 */
function findCollection(
  stageObject: unknown,
  history: readonly unknown[],
  v: Verification,
): number | undefined {
  const holder = history.findIndex((collection) => findEntry(readVerifications(collection), v.id) >= 0);
  if (holder >= 0) return holder;
  const candidates = history.flatMap((collection, index) =>
    readPath(collection, "id") === v.collection.id ? [index] : [],
  );
  const last = readPath(stageObject, "status", "lastPromotion");
  if (v.promotion === (readText(readPath(last, "name")) ?? "") && candidates[0] === 0) return 0;
  const phase = readText(readPath(last, "status", "phase"));
  if (phase !== undefined && phase !== "Succeeded") {
    // A Promotion that did not succeed brought no Freight: whose index 0 is, nobody says.
    return pickUnverified(history, candidates);
  }
  // Index 0 belongs to the last Promotion, which is another one. An entry of ours there would look like a second
  // verifier's and keep that one's verification from starting, so without a better place it goes nowhere.
  const older = candidates.filter((index) => index !== 0);
  return pickUnverified(history, older) ?? (phase === undefined ? candidates[0] : undefined);
}

function pickUnverified(history: readonly unknown[], candidates: readonly number[]): number | undefined {
  return candidates.find((index) => readVerifications(history[index]).length === 0) ?? candidates[0];
}

function readVerifications(collection: unknown): readonly unknown[] {
  return readList(readPath(collection, "verificationHistory"));
}

function findEntry(entries: readonly unknown[], id: string): number {
  return entries.findIndex((entry) => readPath(entry, "id") === id);
}

function upsertEntry(entries: readonly unknown[], v: Verification): readonly unknown[] {
  const at = findEntry(entries, v.id);
  if (at >= 0) {
    // The ledger never goes back, so a phase that does comes from a writer that fell behind.
    const isBehind = rankPhase(v.phase) < rankPhase(readPath(entries[at], "phase"));
    return isBehind ? entries : entries.map((entry, index) => (index === at ? buildEntry(entry, v) : entry));
  }
  const entry = buildEntry(undefined, v);
  // Newest first by start; whatever has no readable start stays where it is, below.
  const place = entries.findIndex((other) => {
    const startTime = Date.parse(readText(readPath(other, "startTime")) ?? "");
    // The status has whole seconds.
    return Number.isNaN(startTime) || startTime <= toSeconds(v.createdAt);
  });
  const position = place < 0 ? entries.length : place;
  return [...entries.slice(0, position), entry, ...entries.slice(position)].slice(0, MAX_ENTRIES);
}

/** How far a phase is along: open and untouched, running, ended. A text that we do not know is as good as none. */
function rankPhase(phase: unknown): number {
  const known = PHASES.find((other) => other === phase);
  if (known === undefined || known === "Pending") return 0;
  return isTerminal(known) ? 2 : 1;
}

/** Kargo's VerificationInfo; `startTime` is when the run was asked for, as with Kargo. Fields that we do not know of stay; ours replace what was there. */
function buildEntry(existing: unknown, v: Verification): PlainObject {
  const {
    actor: _actor,
    finishTime: _finishTime,
    message: _message,
    analysisRun,
    ...unknown
  } = isPlainObject(existing) ? existing : {};
  return {
    ...unknown,
    id: v.id,
    ...(v.actor === undefined || v.actor === "" ? {} : { actor: v.actor }),
    startTime: formatTime(v.createdAt),
    ...(v.finishedAt === undefined || !isTerminal(v.phase) ? {} : { finishTime: formatTime(v.finishedAt) }),
    phase: v.phase,
    ...(v.message === "" ? {} : { message: cutText(v.message, MAX_MESSAGE) }),
    ...(v.run === undefined
      ? isPlainObject(analysisRun)
        ? { analysisRun }
        : {}
      : { analysisRun: { namespace: v.key.project, name: v.run.name, phase: v.run.phase } }),
  };
}

/**
 * Marks a Freight verified in a Stage: the merge patch for its `/status` subresource, or `undefined` when it is marked
 * already, since the first time counts and is never overwritten.
 */
export function mergeVerifiedIn(
  freightObject: unknown,
  stageName: string,
  at: Date,
): PlainObject | undefined {
  const resourceVersion = readText(readPath(freightObject, "metadata", "resourceVersion"));
  if (resourceVersion === undefined) return undefined;
  if (isPlainObject(readPath(freightObject, "status", "verifiedIn", stageName))) return undefined;
  return {
    metadata: { resourceVersion },
    status: { verifiedIn: { [stageName]: { verifiedAt: formatTime(at.getTime()) } } },
  };
}

/** The JSON patch that sets an annotation of the object as it was read; it conflicts with whatever came in between. */
export function setAnnotationPatch(object: unknown, key: string, value: string): readonly PlainObject[] {
  const annotations = readPath(object, "metadata", "annotations");
  // With the version, so that what is there unseen is not overwritten.
  const version = {
    op: "test",
    path: "/metadata/resourceVersion",
    value: readPath(object, "metadata", "resourceVersion"),
  };
  if (!isPlainObject(annotations))
    return [version, { op: "add", path: "/metadata/annotations", value: { [key]: value } }];
  const path = `/metadata/annotations/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return [version, { op: "add", path, value }];
}

/**
 * The JSON patch that removes an annotation if it still has the value that was handled; a request that replaced it in
 * the meantime stays.
 */
export function removeAnnotationPatch(key: string, value: string): readonly PlainObject[] {
  const path = `/metadata/annotations/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return [
    { op: "test", path, value },
    { op: "remove", path },
  ];
}

function toSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000) * 1000;
}

/** Kubernetes' time: RFC 3339 in whole seconds. */
function formatTime(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
}

/** Equality of JSON values, whatever the order of keys. */
function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((entry, index) => isEqual(entry, b[index]));
  }
  if (!isPlainObject(a) || !isPlainObject(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]))
  );
}
