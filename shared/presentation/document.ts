import type { Combination } from "../domain/combinations.ts";
import type { StageKey } from "../domain/identity.ts";
import type { RequestRecord, StageRecord, Verification } from "../domain/verification.ts";
import type { Transition } from "../ledger/items.ts";
import type { HistoryEntry } from "../ledger/ledger.ts";

/**
 * The shapes in which the CLI and the HTTP API show what the ledger holds; scripts hang on them, so fields are added
 * and never renamed. `shared/api/schemas.ts` describes them.
 */
const API_VERSION = "tallyman.dev/v1";

/** A value with `undefined` fields left out when it is written. */
type Document = Readonly<Record<string, unknown>>;

/** ISO 8601. */
export function toIso(at: number): string {
  return new Date(at).toISOString();
}

const time = (at: number | undefined): string | undefined => (at === undefined ? undefined : toIso(at));
const place = ({ cluster, project, stage }: StageKey): Document => ({ cluster, project, stage });

export function toList(kind: string, items: readonly Document[], more = false): Document {
  return { apiVersion: API_VERSION, kind, items, ...(more ? { more } : {}) };
}

export function toObject(item: Document): Document {
  return { apiVersion: API_VERSION, ...item };
}

export function toStage(record: StageRecord, latest: Verification | undefined): Document {
  const { awaiting, waiting } = record;
  return {
    kind: "Stage",
    ...place(record.key),
    uid: record.uid,
    latest: latest === undefined ? undefined : toVerification(latest),
    awaiting:
      awaiting === undefined
        ? undefined
        : {
            promotion: awaiting.promotion,
            collection: awaiting.collection,
            since: time(awaiting.since),
            reason: awaiting.reason,
          },
    waitingRequest:
      waiting === undefined
        ? undefined
        : {
            id: waiting.requestId,
            actor: waiting.actor,
            reason: waiting.reason,
            after: waiting.after,
            createdAt: time(waiting.at),
          },
  };
}

export function toVerification(verification: Verification): Document {
  const { abort } = verification;
  return {
    kind: "Verification",
    ...place(verification.key),
    id: verification.id,
    phase: verification.phase,
    reason: verification.reason,
    message: verification.message,
    actor: verification.actor,
    cause: verification.cause,
    promotion: verification.promotion,
    collection: verification.collection,
    missingOrigins: verification.missingOrigins,
    analysisRun: verification.run,
    templates: verification.templates,
    templateDrift:
      verification.drift === undefined
        ? undefined
        : { at: time(verification.drift.at), templates: verification.drift.templates },
    abort:
      abort === undefined
        ? undefined
        : { request: abort.requestId, actor: abort.actor, reason: abort.reason, at: time(abort.at) },
    createdAt: time(verification.createdAt),
    startedAt: time(verification.startedAt),
    finishedAt: time(verification.finishedAt),
  };
}

export function toRequest(request: RequestRecord): Document {
  return {
    kind: "Request",
    ...place(request.key),
    id: request.requestId,
    verb: request.kind,
    outcome: request.outcome,
    message: request.message,
    actor: request.actor,
    reason: request.reason,
    target: request.target,
    verificationId: request.verificationId,
    createdAt: time(request.createdAt),
  };
}

export function toEntry(entry: HistoryEntry): Document {
  return entry.kind === "verification" ? toVerification(entry.verification) : toRequest(entry.request);
}

export function toCombination({
  collection,
  missingOrigins,
  phases,
  everSuccessful,
  latest,
}: Combination): Document {
  return {
    kind: "Combination",
    ...place(latest.key),
    collection,
    missingOrigins,
    phases,
    everSuccessful,
    latest: toVerification(latest),
  };
}

/** A verification with its changes of phase and, from the last sight of its run, its metrics. */
export function toDescription({
  verification,
  transitions,
}: {
  readonly verification: Verification;
  readonly transitions: readonly Transition[];
}): Document {
  const run = transitions.findLast((each) => each.run !== undefined)?.run;
  return {
    ...toVerification(verification),
    counts: verification.counts,
    transitions: transitions.map((each) => ({
      phase: each.phase,
      at: time(each.at),
      reason: each.reason,
      message: each.message,
    })),
    metrics: run?.metrics ?? [],
    omittedMetrics: run?.omittedMetrics ?? 0,
    omittedMeasurements: run?.omittedCounts?.count ?? 0,
  };
}
