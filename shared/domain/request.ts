import { deriveVerificationId, type OwnCause, type StageKey } from "./identity.ts";
import { isTerminal } from "./phase.ts";
import {
  isSettled,
  type RequestKind,
  type RequestRecord,
  type StageRecord,
  type Verification,
} from "./verification.ts";

/** A request as a message brought it. */
export interface Request {
  readonly requestId: string;
  readonly target?: string | undefined;
  readonly actor?: string | undefined;
  readonly reason?: string | undefined;
}

/**
 * What becomes of a reverify.
 *
 * - `refuse`: with the reason.
 * - `done`: its successor exists already.
 * - `start`: the target is terminal; the successor starts as soon as the gate is open.
 * - `wait`: the target still runs.
 */
export type ReverifyDecision =
  | { readonly kind: "refuse"; readonly message: string }
  | { readonly kind: "done"; readonly verificationId: string }
  | { readonly kind: "start"; readonly cause: OwnCause }
  | { readonly kind: "wait"; readonly cause: OwnCause };

/** The cause of the verification that a request asks for: a named target gives one successor, for ever. */
export function deriveRequestCause(request: Request): OwnCause {
  return request.target === undefined
    ? { kind: "request", requestId: request.requestId }
    : { kind: "reverify", of: request.target };
}

/**
 * Decides a reverify. `target` is the verification it names, or else the Stage's latest.
 */
export function decideReverify(
  request: Request,
  record: StageRecord,
  target: Verification | undefined,
): ReverifyDecision {
  const cause = deriveRequestCause(request);
  const { latest } = record;
  const id = deriveVerificationId(cause, record.uid, latest?.collectionId ?? "");
  if (latest?.id === id) return { kind: "done", verificationId: id };
  if (target === undefined) {
    return {
      kind: "refuse",
      message:
        request.target === undefined
          ? describeNothing(record)
          : `verification ${request.target} is not in the ledger of Stage ${record.key.stage}`,
    };
  }
  if (latest?.id !== target.id) return { kind: "refuse", message: describeOutdated(target, latest?.id) };
  return isTerminal(target.phase) ? { kind: "start", cause } : { kind: "wait", cause };
}

/** There is nothing to repeat; a first verification that is due and waits is not to be asked for again. */
function describeNothing({ awaiting, key }: StageRecord): string {
  return awaiting === undefined
    ? `Stage ${key.stage} has no verification to repeat`
    : `the first verification of Stage ${key.stage} is due and starts by itself once it may: ${awaiting.reason}`;
}

/**
 * What becomes of an abort.
 *
 * - `refuse`: with the reason.
 * - `too-late`: the verification was terminal before the abort was recorded.
 * - `resume`: this or another abort is recorded already; its effects are carried out again, harmlessly.
 * - `abort`: the verification is open; a fresh look at its run decides.
 */
export type AbortDecision =
  | { readonly kind: "refuse"; readonly message: string }
  | { readonly kind: "too-late"; readonly message: string }
  | { readonly kind: "resume" }
  | { readonly kind: "abort" };

/** Decides an abort of `target`, the verification it names or else the Stage's latest. */
export function decideAbort(
  request: Request,
  record: StageRecord,
  target: Verification | undefined,
): AbortDecision {
  if (target === undefined) {
    return {
      kind: "refuse",
      message:
        request.target === undefined
          ? `Stage ${record.key.stage} has no verification to abort`
          : `verification ${request.target} is not in the ledger of Stage ${record.key.stage}`,
    };
  }
  if (target.abort !== undefined) {
    if (!isTerminal(target.phase) || target.abort.requestId === request.requestId) return { kind: "resume" };
  }
  if (isTerminal(target.phase)) return { kind: "too-late", message: describeTooLate(target) };
  if (record.latest?.id !== target.id) {
    return { kind: "refuse", message: describeOutdated(target, record.latest?.id) };
  }
  return { kind: "abort" };
}

/** `verification X had already ended Successful`. */
export function describeTooLate(target: Verification): string {
  return `verification ${target.id} had already ended ${target.phase}`;
}

function describeOutdated(target: Verification, latest: string | undefined): string {
  return latest === undefined
    ? `verification ${target.id} is no longer the Stage's latest`
    : `verification ${target.id} is no longer the Stage's latest; that is ${latest}`;
}

/** The record of a request that has just come. */
export function openRequest(key: StageKey, kind: RequestKind, request: Request, now: number): RequestRecord {
  return {
    key,
    requestId: request.requestId,
    kind,
    target: request.target,
    actor: request.actor,
    reason: request.reason,
    outcome: "accepted",
    message: "",
    createdAt: now,
  };
}

/** A request's record with its new fate; a settled one never changes. */
export function settleRequest(
  record: RequestRecord,
  fate: Partial<Pick<RequestRecord, "outcome" | "message" | "verificationId" | "target">>,
): RequestRecord {
  return isSettled(record.outcome) ? record : { ...record, ...fate };
}
