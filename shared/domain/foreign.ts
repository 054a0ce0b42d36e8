import { createHash } from "node:crypto";
import type { FreightCollection } from "./freight.ts";
import type { StageKey } from "./identity.ts";
import { isTerminal, type Phase, readRunPhase } from "./phase.ts";
import type { StageSnapshot } from "./stage.ts";
import type { AbortRecord, Verification } from "./verification.ts";

/** One entry of a FreightCollection's `verificationHistory`, by whichever verifier. Times in ms since the epoch. */
export interface ForeignEntry {
  readonly id: string;
  readonly phase: string;
  readonly message: string;
  readonly actor?: string | undefined;
  readonly startTime?: number | undefined;
  readonly finishTime?: number | undefined;
  readonly run?: { readonly name: string; readonly phase: string } | undefined;
}

/** A FreightCollection of a Stage's history with its verifications, newest first. */
export interface ForeignHistory {
  readonly collection: FreightCollection;
  readonly entries: readonly ForeignEntry[];
}

/** Kargo records an abort as `Failed` with exactly this message. Source: its `abortVerification`. */
const KARGO_ABORTED = "Verification aborted by user";

/** The phase that an entry stands for. A phase that we do not know is not terminal to us. */
function readPhase({ phase, message }: ForeignEntry, abort: AbortRecord | undefined): Phase {
  if (phase === "Aborted") return "Aborted";
  const known = readRunPhase(phase) ?? "Running";
  const isAbort = known === "Failed" && (message === KARGO_ABORTED || abort !== undefined);
  return isAbort ? "Aborted" : known;
}

/** The ledger's record of an entry that it has not seen before. Nothing is made up: what is not known stays out. */
export function adoptEntry(
  stage: { readonly key: StageKey; readonly uid: string; readonly promotion: string },
  collection: FreightCollection,
  entry: ForeignEntry,
  now: number,
): Verification {
  const phase = readPhase(entry, undefined);
  // Where the other verifier kept no time, the time at which it was first seen has to do for the order.
  const createdAt = entry.startTime ?? entry.finishTime ?? now;
  return {
    key: stage.key,
    id: entry.id,
    stageUid: stage.uid,
    cause: { kind: "observed" },
    promotion: stage.promotion,
    collection,
    missingOrigins: [],
    ...(entry.actor === undefined ? {} : { actor: entry.actor }),
    phase,
    ...(phase === "Aborted" ? { reason: "AbortRequested" as const } : {}),
    message: entry.message,
    createdAt,
    ...(phase === "Pending" ? {} : { startedAt: createdAt }),
    // An older run's clock may have been copied into a newer entry.
    ...(isTerminal(phase) ? { finishedAt: Math.max(createdAt, entry.finishTime ?? now) } : {}),
    ...(entry.run === undefined ? {} : { run: entry.run }),
    observed: "0",
    awaited: false,
  };
}

/** What an entry says beyond what is recorded; undefined when it is no news. A terminal phase is final. */
export function mergeEntry(known: Verification, entry: ForeignEntry, now: number): Verification | undefined {
  if (isTerminal(known.phase)) return undefined;
  const phase = readPhase(entry, known.abort);
  const runIsNews = entry.run !== undefined && known.run === undefined;
  const isBack = phase === "Pending" || phase === known.phase;
  if (isBack && !runIsNews) return undefined;
  const run = known.run ?? entry.run;
  if (isBack) return { ...known, ...(run === undefined ? {} : { run }) };
  return {
    ...known,
    phase,
    ...(phase === "Aborted" ? { reason: "AbortRequested" as const } : {}),
    message: entry.message,
    startedAt: known.startedAt ?? now,
    ...(isTerminal(phase) ? { finishedAt: Math.max(known.createdAt, entry.finishTime ?? now) } : {}),
    ...(run === undefined ? {} : { run }),
  };
}

/** Of everything that a Stage's status shows of verifications, so that what was recorded is not read again. */
export function digestHistory(history: StageSnapshot["history"]): string {
  return createHash("sha1").update(JSON.stringify(history)).digest("base64url");
}

/** How far apart two verifiers may start and still mean the same occasion, milliseconds. */
const SAME_OCCASION_MS = 60_000;

/** An entry beside a verification of ours that began on the same occasion: it may be a second verifier's. */
export function findRival(
  history: readonly ForeignHistory[],
  verification: Pick<Verification, "id" | "collection" | "createdAt">,
): ForeignEntry | undefined {
  return history
    .filter(({ collection }) => collection.id === verification.collection.id)
    .flatMap(({ entries }) => entries)
    .find(
      ({ id, startTime = 0 }) =>
        id !== verification.id && startTime >= verification.createdAt - SAME_OCCASION_MS,
    );
}
