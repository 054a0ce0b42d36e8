import { type FreightCollection, findMissingOrigins } from "./freight.ts";
import { deriveVerificationId, type OwnCause } from "./identity.ts";
import { type ClusterPolicy, DEFAULT_POLICY, findLimit, findOtherShard } from "./policy.ts";
import { compareResourceVersions } from "./resource-version.ts";
import type { StageSnapshot } from "./stage.ts";
import type { StageRecord, WaitingRequest } from "./verification.ts";

/** A verification that is to start now. */
export interface Start {
  readonly id: string;
  readonly cause: OwnCause;
  readonly promotion: string;
  readonly collection: FreightCollection;
  readonly missingOrigins: readonly string[];
  readonly actor?: string | undefined;
  /** The request that asked for it, if one did. */
  readonly request?: WaitingRequest | undefined;
}

/** Freight that was due for verification and that another Promotion replaced before it could start. */
export interface Superseded {
  readonly promotion: string;
  readonly collection: FreightCollection;
  /** Since when its verification was due, milliseconds since the epoch; absent where nobody noted it. */
  readonly since?: number | undefined;
}

/**
 * What a sight of a Stage asks for.
 *
 * - `nothing`: with the reason, for the log.
 * - `wait`: a verification is due and the gate is closed; `awaiting` is to be remembered unless it already is.
 * - `start`: the verification is due now; `superseded` leaves its record first.
 * - `continue`: the latest verification is known; a request waits for its end, so its phase has to be looked at.
 * - `late`: the snapshot is older than what is recorded and names a Promotion that is no longer the latest.
 */
export type StageDecision =
  /** `unknown` names what the Stage shows as its newest verification where that is not the ledger's latest. */
  | { readonly kind: "nothing"; readonly reason: string; readonly unknown?: string }
  | {
      readonly kind: "wait";
      readonly reason: string;
      readonly due: Superseded;
      readonly superseded?: Superseded;
      /** What the ledger remembers of it is true still, down to the reason. */
      readonly known: boolean;
    }
  | { readonly kind: "start"; readonly start: Start; readonly superseded?: Superseded }
  | { readonly kind: "continue"; readonly waiting: WaitingRequest }
  | { readonly kind: "late"; readonly start: Start }
  /** Another verifier was here, with the verification that is named. */
  | { readonly kind: "stand-back"; readonly verificationId: string; readonly reason: string }
  /** The gate has been closed for longer than the start deadline, `limit` seconds; it ends unstarted. */
  | { readonly kind: "give-up"; readonly start: Start; readonly limit: number; readonly reason: string };

/** Why nothing may start in this Stage at present; `undefined` when it may. Abort never asks this. */
export function findClosedGate(stage: StageSnapshot): string | undefined {
  if (stage.currentPromotion !== undefined) return `Promotion ${stage.currentPromotion} is under way`;
  const last = stage.lastPromotion;
  if (last !== undefined && last.phase !== "Succeeded") {
    return last.phase === undefined
      ? `the Stage does not say how the last Promotion, ${last.name}, ended`
      : `the last Promotion, ${last.name}, ended ${last.phase}`;
  }
  if (stage.health !== "Healthy")
    return `the Stage's health is ${stage.health ?? "not known yet"}, not Healthy`;
  const [doubt] = stage.healthDoubts ?? [];
  if (doubt !== undefined) return `the Stage's health may be from before the last Promotion: ${doubt}`;
  if (stage.missingFreight === "hold" && stage.current !== undefined) {
    const missing = findMissingOrigins(stage.requestedOrigins, stage.current);
    if (missing.length > 0) {
      return `no Freight from ${missing.join(", ")} yet, and the Stage's policy is to hold`;
    }
  }
  return undefined;
}

/** Why this Stage is none of Tallyman's business; `undefined` when it is. */
export function findExclusion(
  stage: StageSnapshot,
  policy: ClusterPolicy = DEFAULT_POLICY,
): string | undefined {
  const otherShard = findOtherShard(stage, policy);
  if (otherShard !== undefined) return otherShard;
  if (stage.deleting) return "the Stage is being deleted";
  if (stage.controlFlow) return "the Stage has no promotion steps (control flow)";
  if (stage.current === undefined) return "the Stage holds no Freight";
  return undefined;
}

/**
 * The Promotion that brought the Freight which the Stage holds; `""` where the Stage names none. A last Promotion that
 * did not succeed brought nothing: then it is the one that the ledger knows this Freight by, or `undefined`.
 */
export function findBringer(stage: StageSnapshot, record: StageRecord): string | undefined {
  const { current, lastPromotion } = stage;
  if (lastPromotion?.phase === undefined || lastPromotion.phase === "Succeeded") {
    return lastPromotion?.name ?? "";
  }
  if (record.awaiting?.collection.id === current?.id) return record.awaiting?.promotion;
  return record.latest?.collectionId === current?.id ? record.latest?.promotion : undefined;
}

/**
 * Decides what a sight of a Stage asks for, given what the ledger knows. Pure; `now` in milliseconds since the epoch.
 *
 * @throws Fault `Invalid` when the snapshot's resourceVersion is not a number.
 */
export function decideStage(
  stage: StageSnapshot,
  record: StageRecord,
  policy: ClusterPolicy = DEFAULT_POLICY,
  now = 0,
): StageDecision {
  const exclusion = findExclusion(stage, policy);
  const collection = stage.current;
  if (exclusion !== undefined || collection === undefined)
    return { kind: "nothing", reason: exclusion ?? "" };
  const promotion = findBringer(stage, record);
  if (promotion === undefined) return { kind: "nothing", reason: findClosedGate(stage) ?? "" };
  const { latest } = record;

  if (latest !== undefined && latest.promotion === promotion && latest.collectionId === collection.id) {
    const { waiting } = record;
    if (waiting === undefined) {
      const unknown = findForeignVerification(stage, latest.id);
      const reason = "the Freight of this Promotion has its verification";
      return { kind: "nothing", reason, ...(unknown === undefined ? {} : { unknown }) };
    }
    const gate = findClosedGate(stage);
    return gate === undefined ? { kind: "continue", waiting } : { kind: "nothing", reason: gate };
  }

  const start = buildStart(stage, collection, { kind: "promotion", promotion });
  if (record.revision > 0 && compareResourceVersions(stage.resourceVersion, record.observed) < 0) {
    const isAwaited =
      record.awaiting?.promotion === promotion && record.awaiting.collection.id === collection.id;
    if (!isAwaited) return { kind: "late", start };
  }
  const elsewhere = findForeignVerification(stage, start.id);
  if (elsewhere !== undefined) {
    return {
      kind: "stand-back",
      verificationId: elsewhere,
      reason: "another verifier has entered a verification for this Freight; Tallyman stands back",
    };
  }

  const { awaiting } = record;
  const isSame = awaiting?.promotion === promotion && awaiting.collection.id === collection.id;
  const due = { promotion, collection, ...(isSame ? { since: awaiting.since } : {}) };
  const superseded = awaiting === undefined || isSame ? {} : { superseded: awaiting };
  const gate = findClosedGate(stage);
  if (gate !== undefined) {
    const limit = findLimit("startDeadline", stage, policy);
    if (isSame && limit !== undefined && now - awaiting.since > limit * 1000) {
      return { kind: "give-up", start, limit, reason: gate };
    }
    return { kind: "wait", reason: gate, due, known: isSame && awaiting.reason === gate, ...superseded };
  }
  return { kind: "start", start, ...superseded };
}

/** A start with its derived id, for the Freight that the Stage holds. */
export function buildStart(
  stage: StageSnapshot,
  collection: FreightCollection,
  cause: OwnCause,
  request?: WaitingRequest,
): Start {
  return {
    id: deriveVerificationId(cause, stage.uid, collection.id),
    cause,
    promotion: cause.kind === "promotion" ? cause.promotion : (stage.lastPromotion?.name ?? ""),
    collection,
    missingOrigins: findMissingOrigins(stage.requestedOrigins, collection),
    ...(request === undefined ? {} : { request }),
    ...(request?.actor === undefined ? {} : { actor: request.actor }),
  };
}

/**
 * The verification of the current Freight that the Stage's status holds and that is not ours: one that ran before
 * Tallyman came, or a second verifier's, which must not be doubled.
 */
function findForeignVerification(stage: StageSnapshot, ourId: string): string | undefined {
  const newest = stage.history[0]?.verifications[0];
  return newest === undefined || newest.id === ourId ? undefined : newest.id;
}
