import { formatDuration } from "../domain/duration.ts";
import { deriveAnalysisRunName, type StageKey } from "../domain/identity.ts";
import { isTerminal } from "../domain/phase.ts";
import { settleRequest } from "../domain/request.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import { buildStart, decideStage, type StageDecision, type Start } from "../domain/start.ts";
import type { StageRecord, Verification, WaitingRequest } from "../domain/verification.ts";
import { abortReplaced } from "./abort-verification.ts";
import { publishPhase, tellWorld } from "./record.ts";
import { recordStage } from "./record-stage.ts";
import { noticeSecondVerifier } from "./second-verifier.ts";
import { fetchStage, loadStageRecord, lookAtStage, newest } from "./stage-record.ts";
import { recordNeverStarted, recordSuperseded, startVerification } from "./start-verification.ts";
import { recordUnseenPromotions } from "./unseen-promotions.ts";
import { voidWaiting } from "./waiting-request.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/** What a look at a Stage came to. */
export interface StageVisit {
  /** The verification that the Stage is at, if this visit started it or found it complete. */
  readonly started?: Verification | undefined;
  /** Why nothing started. */
  readonly reason?: string | undefined;
}

export interface VisitOptions {
  /** True when an earlier try may have died half way. */
  readonly redelivered: boolean;
  /** The request that asked for this visit, if one did: what it starts, it starts once. */
  readonly requestId?: string | undefined;
}

/**
 * Looks at a Stage and starts the verification that is due, if one is and the gate is open. Level-triggered:
 * the same snapshot again, or an older one, changes nothing.
 */
export function verifyStage(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  { redelivered, requestId }: VisitOptions,
): Promise<StageVisit> {
  return decideAgainOnConflict(async () => {
    const { companion } = await lookAtStage(world, key, stage);
    if (companion !== undefined) {
      await recordStage(world, key, companion);
      return { reason: "another verifier carries out this Stage's verifications" };
    }
    const record = await loadStageRecord(world, key, stage);
    if (record === undefined)
      return { reason: "the snapshot is of a Stage that was replaced by one of the same name" };
    const decision = decideStage(stage, record, world.findPolicy(key.cluster), world.clock.now());
    if (decision.kind === "nothing" && redelivered) {
      const latest = await republishLatest(world, key, record);
      // What this very request started when it was first delivered.
      if (requestId !== undefined && record.latest?.requestId === requestId) return { started: latest };
    }
    return carryOut(world, { key, stage, record, redelivered, requestId }, decision);
  });
}

/**
 * Repeats what follows once the Stage's record is written, for an earlier try that may have died in between. Returns the
 * Stage's latest verification.
 */
export async function republishLatest(
  world: World,
  key: StageKey,
  record: StageRecord,
): Promise<Verification | undefined> {
  const { latest } = record;
  if (latest === undefined) return undefined;
  if (latest.requestId !== undefined) await settleStarted(world, key, latest.requestId, latest.id);
  const current = await world.ledger.readVerification(key, latest.id);
  if (current !== undefined) await publishPhase(world, current.verification, undefined);
  return current?.verification;
}

/** A Stage as it was seen, and what the ledger knew of it then. */
interface Sight extends VisitOptions {
  readonly key: StageKey;
  readonly stage: StageSnapshot;
  readonly record: StageRecord;
}

async function carryOut(world: World, sight: Sight, decision: StageDecision): Promise<StageVisit> {
  const { key, stage, record, requestId } = sight;
  switch (decision.kind) {
    case "nothing":
      if (decision.unknown !== undefined) await checkEntry(world, key, decision.unknown);
      world.log.debug("nothing to verify", { ...key, reason: decision.reason });
      return { reason: decision.reason };
    case "wait": {
      if (decision.superseded !== undefined) {
        await recordSuperseded(world, key, stage, decision.superseded, decision.due.promotion);
      }
      if (!decision.known) {
        await recordUnseenPromotions(world, key, stage, record);
        await abortReplaced(world, stage, record);
        await voidWaiting(world, key, record.waiting, describeReplacement(decision.due.promotion));
        const since = decision.due.since ?? world.clock.now();
        const awaiting = { ...decision.due, since, reason: decision.reason };
        await world.ledger.writeStage({
          ...record,
          observed: newest(record.observed, stage.resourceVersion),
          awaiting,
          waiting: undefined,
        });
      }
      return { reason: decision.reason };
    }
    case "start": {
      if (decision.superseded !== undefined) {
        await recordSuperseded(world, key, stage, decision.superseded, decision.start.promotion);
      }
      await recordUnseenPromotions(world, key, stage, record);
      await abortReplaced(world, stage, record);
      await voidWaiting(world, key, record.waiting, describeReplacement(decision.start.promotion));
      return { started: await startLatest(world, key, stage, record, decision.start, requestId) };
    }
    case "continue":
      return continueWaiting(world, key, stage, record, decision.waiting);
    case "stand-back": {
      await noticeSecondVerifier(world, key, decision.verificationId, recordAll);
      return { reason: decision.reason };
    }
    case "give-up":
      return giveUp(world, key, stage, record, decision);
    case "late":
      return startLate(world, sight, decision.start);
  }
}

const describeReplacement = (promotion: string): string => `Promotion ${promotion} brought other Freight`;

/** Starts what becomes the Stage's latest verification. The Stage's record is written last: it is what commits. */
export async function startLatest(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  record: StageRecord,
  start: Start,
  requestId = start.request?.requestId,
): Promise<Verification> {
  const verification = await startVerification(world, key, stage, start);
  await world.ledger.writeStage({
    key,
    revision: record.revision,
    uid: record.uid,
    observed: newest(record.observed, stage.resourceVersion),
    latest: {
      id: verification.id,
      promotion: start.promotion,
      collectionId: start.collection.id,
      ...(verification.templates === undefined ? {} : { templates: verification.templates }),
      ...(requestId === undefined ? {} : { requestId }),
    },
  });
  if (start.request !== undefined) await settleStarted(world, key, start.request.requestId, start.id);
  await tellWorld(world, verification);
  return verification;
}

/** Of a Stage that another verifier has taken over, everything is recorded, its latest verification included. */
async function recordAll(world: World, key: StageKey): Promise<void> {
  const object = await world.findCluster(key.cluster).getStage(key.project, key.stage);
  if (object !== undefined) await recordStage(world, key, object);
}

/** A snapshot may be older than what the ledger calls the latest; only what it has never heard of is another's. */
async function checkEntry(world: World, key: StageKey, id: string): Promise<void> {
  if ((await world.ledger.readVerification(key, id)) !== undefined) return;
  await noticeSecondVerifier(world, key, id, recordAll);
}

/** Ends a verification that could not start in time. Should the Stage recover later, a reverify starts one. */
async function giveUp(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  record: StageRecord,
  { start, limit, reason }: Extract<StageDecision, { kind: "give-up" }>,
): Promise<StageVisit> {
  const verification = await recordNeverStarted(world, key, stage, start, {
    message: `could not start within ${formatDuration(limit)}: ${reason}`,
    since: record.awaiting?.since,
  });
  await world.ledger.writeStage({
    key,
    revision: record.revision,
    uid: record.uid,
    observed: newest(record.observed, stage.resourceVersion),
    latest: { id: verification.id, promotion: start.promotion, collectionId: start.collection.id },
  });
  await tellWorld(world, verification);
  return { started: verification };
}

async function settleStarted(
  world: World,
  key: StageKey,
  requestId: string,
  verificationId: string,
): Promise<void> {
  const known = await world.ledger.readRequest(key, requestId);
  // Absent while its own handler is at work on it; that one writes it.
  if (known === undefined) return;
  await world.ledger.writeRequest(
    settleRequest(known, {
      outcome: "started",
      verificationId,
      message: `verification ${verificationId} started`,
    }),
  );
}

async function continueWaiting(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  record: StageRecord,
  waiting: WaitingRequest,
): Promise<StageVisit> {
  const latest = await world.ledger.readVerification(key, waiting.after);
  if (latest === undefined || !isTerminal(latest.verification.phase)) {
    return { reason: `verification ${waiting.after} has not ended yet` };
  }
  if (stage.current === undefined) return { reason: "the Stage holds no Freight" };
  const start = buildStart(stage, stage.current, waiting.cause, waiting);
  return { started: await startLatest(world, key, stage, record, start) };
}

/**
 * A snapshot from before the Stage's latest Promotion, for Freight whose verification the ledger may not have:
 * it exists, its run exists, or it was never started and now never will be.
 */
async function startLate(
  world: World,
  { key, stage, record, redelivered }: Sight,
  start: Start,
): Promise<StageVisit> {
  const known = await world.ledger.readVerification(key, start.id);
  if (known !== undefined) {
    if (redelivered) await publishPhase(world, known.verification, undefined);
    return { reason: "the Freight of this Promotion has its verification" };
  }
  const name = deriveAnalysisRunName(key.stage, start.id, start.collection.id);
  const run = await world.findCluster(key.cluster).getAnalysisRun(key.project, name);
  if (run === undefined) {
    await recordSuperseded(
      world,
      key,
      stage,
      start,
      record.latest?.promotion ?? record.awaiting?.promotion ?? "",
    );
    return { reason: "another Promotion replaced this Freight before its verification could start" };
  }
  const started = await startVerification(world, key, stage, start);
  await tellWorld(world, started);
  return { started };
}

/** Goes on with what waited for a verification that has just ended. */
export async function continueAfter(world: World, ended: Verification): Promise<void> {
  if (!ended.awaited) return;
  const stage = await fetchStage(world, ended.key);
  // As if redelivered: whoever ended it may have died half way through starting its successor.
  if (stage !== undefined) await verifyStage(world, ended.key, stage, { redelivered: true });
}
