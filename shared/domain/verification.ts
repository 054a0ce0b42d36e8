import type { MeasurementCounts } from "./analysis-run.ts";
import type { FreightCollection } from "./freight.ts";
import type { Cause, OwnCause, StageKey } from "./identity.ts";
import type { Phase } from "./phase.ts";
import type { TemplateDrift, TemplateState } from "./template-drift.ts";

/** Why a verification is in its phase, where the phase alone does not say. Stable: alarms and scripts match on it. */
export type Reason =
  | "NoVerificationConfigured"
  | "Superseded"
  | "AbortRequested"
  | "TerminatedOutside"
  | "AnalysisRunDeleted"
  | "StageDeleted"
  | "CannotBuild"
  | "Unsupported"
  | "DeadlineExceeded"
  | "StartDeadlineExceeded"
  | "Rejected";

/** An abort that was recorded while the verification was open. It wins over whatever the run says afterwards. */
export interface AbortRecord {
  readonly requestId: string;
  readonly actor?: string | undefined;
  readonly reason?: string | undefined;
  readonly at: number;
  /** Set when no person but a policy asked for it. What ends by its deadline is `Error`: it could not be carried out. */
  readonly because?: "Superseded" | "DeadlineExceeded" | undefined;
}

/**
 * One verification: the head that the ledger keeps. All times are the ledger's own, in milliseconds since the
 * epoch; the AnalysisRun's times stay in its summary, so that no clock but ours decides what came first.
 */
export interface Verification {
  readonly key: StageKey;
  readonly id: string;
  readonly stageUid: string;
  readonly cause: Cause;
  /** The Promotion that brought the Freight; `""` where the Stage names none. */
  readonly promotion: string;
  readonly collection: FreightCollection;
  /** Requested origins that the collection lacked at the start. */
  readonly missingOrigins: readonly string[];
  readonly actor?: string | undefined;
  readonly phase: Phase;
  readonly reason?: Reason | undefined;
  readonly message: string;
  readonly createdAt: number;
  readonly startedAt?: number | undefined;
  /** Set exactly when the phase is terminal. */
  readonly finishedAt?: number | undefined;
  /** Absent when no AnalysisRun was ever made. `phase` is the run's own, as it was last seen. */
  readonly run?: { readonly name: string; readonly phase: string } | undefined;
  /** resourceVersion of the newest observation applied; `"0"` before the first. */
  readonly observed: string;
  readonly counts?: MeasurementCounts | undefined;
  readonly abort?: AbortRecord | undefined;
  /** The templates that its run was made of; absent where there was none, or where they are too many to keep. */
  readonly templates?: readonly TemplateState[] | undefined;
  /** What of them has changed since, while this was the Stage's latest verification. */
  readonly drift?: TemplateDrift | undefined;
  /** A reverify waits for this verification to end. */
  readonly awaited: boolean;
}

/** True for another verifier's: we record it and touch nothing of it in the cluster. */
export function isForeign({ cause }: Pick<Verification, "cause">): boolean {
  return cause.kind === "observed";
}

/** The verification that a Stage is at. */
export interface LatestVerification {
  readonly id: string;
  readonly promotion: string;
  readonly collectionId: string;
  /** The request that it was started for, if one asked for it. */
  readonly requestId?: string | undefined;
  /** The templates that it was made with, and those of them that have changed since. */
  readonly templates?: readonly TemplateState[] | undefined;
  readonly drift?: readonly TemplateState[] | undefined;
}

/** A request that waits for the running verification to end or for the Stage to become healthy. */
export interface WaitingRequest {
  readonly requestId: string;
  readonly cause: OwnCause;
  /** The latest verification when the request was made; a newer one voids the request. */
  readonly after: string;
  readonly actor?: string | undefined;
  readonly reason?: string | undefined;
  readonly at: number;
}

/** What the ledger knows of a Stage as a whole: one small item, changed under optimistic concurrency. */
export interface StageRecord {
  readonly key: StageKey;
  /** 0 for a record that is not yet in the ledger; grows by one with each write. */
  readonly revision: number;
  readonly uid: string;
  /** Newest resourceVersion of the Stage that led to a write here. */
  readonly observed: string;
  readonly latest?: LatestVerification | undefined;
  /** Freight whose verification is due and held by the gate; it leaves a record if it is replaced. */
  readonly awaiting?:
    | {
        readonly promotion: string;
        readonly collection: FreightCollection;
        readonly since: number;
        readonly reason: string;
      }
    | undefined;
  readonly waiting?: WaitingRequest | undefined;
  /** Of the verifications that the Stage's status showed when they were last recorded; companion mode only. */
  readonly shown?: string | undefined;
}

export type RequestKind = "verify" | "reverify" | "abort";

/**
 * What became of a request. `accepted` and `waiting` are on their way; the others are final and never change.
 */
export type RequestOutcome = "accepted" | "waiting" | "started" | "aborted" | "too-late" | "refused";

/** One request and its fate: refusals are history too. */
export interface RequestRecord {
  readonly key: StageKey;
  readonly requestId: string;
  readonly kind: RequestKind;
  /** The verification that the request was about, if it named one or one was found. */
  readonly target?: string | undefined;
  /** The verification that it led to. */
  readonly verificationId?: string | undefined;
  readonly actor?: string | undefined;
  readonly reason?: string | undefined;
  readonly outcome: RequestOutcome;
  readonly message: string;
  readonly createdAt: number;
}

/** True when nothing more will happen to the request. */
export function isSettled(outcome: RequestOutcome): boolean {
  return outcome !== "accepted" && outcome !== "waiting";
}
