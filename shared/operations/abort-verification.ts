import { readAnalysisRun } from "../cluster/analysis-run-reader.ts";
import { formatDuration } from "../domain/duration.ts";
import { Fault } from "../domain/fault.ts";
import type { StageKey } from "../domain/identity.ts";
import { applyObservation, endVerification, readRunOutcome } from "../domain/observation.ts";
import { isTerminal } from "../domain/phase.ts";
import { decideAbort, describeTooLate, openRequest, type Request, settleRequest } from "../domain/request.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import {
  type AbortRecord,
  isForeign,
  isSettled,
  type RequestRecord,
  type StageRecord,
  type Verification,
} from "../domain/verification.ts";
import type { Versioned } from "../ledger/ledger.ts";
import { announceRefusal } from "./announce.ts";
import { askToAbort } from "./ask-verifier.ts";
import { publishPhase } from "./record.ts";
import { reportPhase } from "./report-phase.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/** What an abort came to, and the verification if this ended it. */
export interface AbortVisit {
  readonly request: RequestRecord;
  readonly ended?: Verification | undefined;
}

/**
 * Carries out an abort. It is recorded before the run is told, and from then on the outcome is `Aborted`
 * whatever the run reports; a fresh look that shows the run over already lets its result stand. Telling the
 * run may fail for a while: the message comes back, the record stays.
 */
export async function abortVerification(
  world: World,
  key: StageKey,
  request: Request,
  redelivered: boolean,
): Promise<AbortVisit> {
  // Asked again in each round: whoever was faster may have been at work on this very request.
  return decideAgainOnConflict(async () => {
    const known = await world.ledger.readRequest(key, request.requestId);
    if (known !== undefined && isSettled(known.outcome)) {
      return redelivered ? finishSettled(world, known) : { request: known };
    }
    const base = known ?? openRequest(key, "abort", request, world.clock.now());
    const record = await world.ledger.readStage(key);
    const id = base.target ?? record.latest?.id;
    const target = id === undefined ? undefined : await world.ledger.readVerification(key, id);
    if (target !== undefined && isForeign(target.verification)) {
      return { request: await askToAbort(world, base, request, record, target) };
    }
    const decision = decideAbort(request, record, target?.verification);
    if (decision.kind === "refuse") {
      world.meter.count("RequestsRefused");
      return { request: await settle(world, base, { outcome: "refused", message: decision.message }) };
    }
    if (target === undefined) throw new Fault("Conflict", "the verification is gone");
    if (decision.kind === "too-late") return tooLate(world, base, target.verification);
    const named = { ...base, target: target.verification.id };
    // "The latest" is another one by the time that a second try comes: the first says once and for all which it is.
    if (base.target === undefined) await world.ledger.writeRequest(named);
    return decision.kind === "resume"
      ? finishAbort(world, named, target)
      : beginAbort(world, named, request, target);
  });
}

/** An earlier try may have died after the request's fate was written: before it was told, or before what waited went on. */
async function finishSettled(world: World, request: RequestRecord): Promise<AbortVisit> {
  await announceRefusal(world, request, undefined);
  if (request.target === undefined) return { request };
  const target = await world.ledger.readVerification(request.key, request.target);
  const isOver = target !== undefined && isTerminal(target.verification.phase);
  return isOver ? { request, ended: target.verification } : { request };
}

async function beginAbort(
  world: World,
  base: RequestRecord,
  request: Request,
  target: Versioned,
): Promise<AbortVisit> {
  const abort = {
    requestId: base.requestId,
    at: world.clock.now(),
    ...(request.actor === undefined ? {} : { actor: request.actor }),
    ...(request.reason === undefined ? {} : { reason: request.reason }),
  };
  const recorded = await recordAbort(world, target, abort);
  if (recorded.kind === "recorded") return finishAbort(world, base, recorded.target);
  return { ...(await tooLate(world, base, recorded.ended)), ended: recorded.ended };
}

/**
 * Records an abort of an open verification, unless a fresh look shows that its run has ended by itself: that result
 * stands, and is recorded instead.
 */
async function recordAbort(
  world: World,
  target: Versioned,
  abort: AbortRecord,
): Promise<{ kind: "recorded"; target: Versioned } | { kind: "ended"; ended: Verification }> {
  const { verification, revision } = target;
  const { cluster, project } = verification.key;
  const object =
    verification.run === undefined
      ? undefined
      : await world.findCluster(cluster).getAnalysisRun(project, verification.run.name);
  const run = object === undefined ? undefined : readAnalysisRun(object);
  // A run that somebody terminated is no result that could stand.
  if (run !== undefined && isTerminal(readRunOutcome(run)) && readRunOutcome(run) !== "Aborted") {
    const observation = applyObservation(verification, run, world.clock.now());
    if (observation.kind === "transition") {
      const { verification: ended } = await world.ledger.updateVerification(observation.next, revision);
      reportPhase(world, ended, verification.phase);
      await publishPhase(world, ended, run);
      return { kind: "ended", ended };
    }
  }
  return {
    kind: "recorded",
    target: await world.ledger.updateVerification({ ...verification, abort }, revision),
  };
}

/**
 * Aborts the Stage's latest verification because other Freight has come, where the Stage's policy says so. One that has
 * ended stays as it is.
 *
 * @throws Fault `Conflict` when somebody was faster; the caller decides again.
 */
export async function abortReplaced(world: World, stage: StageSnapshot, record: StageRecord): Promise<void> {
  if (stage.onSupersede !== "abort" || record.latest === undefined) return;
  const latest = await world.ledger.readVerification(record.key, record.latest.id);
  if (latest === undefined || isForeign(latest.verification)) return;
  const { abort, phase } = latest.verification;
  if (abort !== undefined && (!isTerminal(phase) || abort.because === "Superseded")) {
    // Goes on, or tells of it again, where an earlier try died.
    await endAborted(world, latest);
    return;
  }
  if (isTerminal(phase)) return;
  const recorded = await recordAbort(world, latest, {
    requestId: `superseded:${latest.verification.id}`,
    at: world.clock.now(),
    reason: `Promotion ${stage.lastPromotion?.name ?? ""} brought other Freight`,
    because: "Superseded",
  });
  if (recorded.kind === "recorded") await endAborted(world, recorded.target);
}

/**
 * Ends a verification that has taken longer than it may, `limit` seconds: its run is terminated and it is `Error`. A run
 * that has ended meanwhile keeps its result, an abort that was recorded first stays one.
 *
 * @throws Fault `Conflict` when somebody was faster; the caller decides again.
 */
export async function endOverdue(world: World, target: Versioned, limit: number): Promise<Verification> {
  if (target.verification.abort !== undefined) return endAborted(world, target);
  const recorded = await recordAbort(world, target, {
    requestId: `deadline:${target.verification.id}`,
    at: world.clock.now(),
    reason: `it had not ended within its deadline of ${formatDuration(limit)}; its AnalysisRun was terminated`,
    because: "DeadlineExceeded",
  });
  return recorded.kind === "recorded" ? endAborted(world, recorded.target) : recorded.ended;
}

/** The abort is in the ledger; what is left is to tell the run and to end the verification. */
async function finishAbort(world: World, base: RequestRecord, target: Versioned): Promise<AbortVisit> {
  const { verification, revision } = target;
  const ended = await endAborted(world, { verification, revision });
  const request = await settle(world, base, {
    outcome: "aborted",
    verificationId: ended.id,
    message: `verification ${ended.id} was aborted`,
  });
  return { request, ended };
}

/**
 * Terminates the run of a verification whose abort is recorded, and ends it. Also what the sweeper does when
 * the message that should have done it was lost.
 */
export async function endAborted(world: World, target: Versioned): Promise<Verification> {
  const { verification, revision } = target;
  const { cluster, project } = verification.key;
  if (isTerminal(verification.phase)) {
    await publishPhase(world, verification, undefined);
    return verification;
  }
  if (verification.run !== undefined) {
    await world.findCluster(cluster).terminateAnalysisRun(project, verification.run.name);
  }
  const next = endVerification(verification, {
    phase: "Aborted",
    reason: "AbortRequested",
    message: "",
    now: world.clock.now(),
  });
  await world.ledger.updateVerification(next, revision);
  reportPhase(world, next, verification.phase);
  await publishPhase(world, next, undefined);
  return next;
}

async function tooLate(world: World, base: RequestRecord, target: Verification): Promise<AbortVisit> {
  const fate = { outcome: "too-late", target: target.id, message: describeTooLate(target) } as const;
  return { request: await settle(world, base, fate) };
}

async function settle(
  world: World,
  base: RequestRecord,
  fate: Parameters<typeof settleRequest>[1],
): Promise<RequestRecord> {
  const record = settleRequest(base, fate);
  await world.ledger.writeRequest(record);
  await announceRefusal(world, record, undefined);
  return record;
}
