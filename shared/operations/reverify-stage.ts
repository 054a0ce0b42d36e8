import { readAnalysisRun } from "../cluster/analysis-run-reader.ts";
import { deriveAnalysisRunName, deriveVerificationId, type StageKey } from "../domain/identity.ts";
import {
  decideReverify,
  deriveRequestCause,
  openRequest,
  type Request,
  settleRequest,
} from "../domain/request.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import { buildStart, findBringer, findClosedGate, findExclusion } from "../domain/start.ts";
import {
  isSettled,
  type RequestKind,
  type RequestRecord,
  type StageRecord,
  type Verification,
  type WaitingRequest,
} from "../domain/verification.ts";
import type { Versioned } from "../ledger/ledger.ts";
import { announceRefusal } from "./announce.ts";
import { askToRepeat } from "./ask-verifier.ts";
import { observeRun } from "./observe-run.ts";
import { publishPhase } from "./record.ts";
import { loadStageRecord, lookAtStage } from "./stage-record.ts";
import { startLatest } from "./verify-stage.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

export interface ReverifyOptions {
  /** What the request came as. */
  readonly kind: RequestKind;
  /** The Stage, if the message brought it. */
  readonly snapshot: StageSnapshot | undefined;
  /** True when an earlier try may have died half way. */
  readonly redelivered: boolean;
}

/**
 * Carries out a request to verify again. One request leads to one successor, however often it is seen; a
 * request about a verification that still runs waits for its end, one that finds the gate closed waits for
 * that. Refusals are recorded with their reason. `snapshot` is what the message brought, if it did.
 */
export async function reverifyStage(
  world: World,
  key: StageKey,
  request: Request,
  { kind, snapshot, redelivered }: ReverifyOptions,
): Promise<RequestRecord> {
  // Asked again in each round: whoever was faster may have been at work on this very request.
  return decideAgainOnConflict(async () => {
    const known = await world.ledger.readRequest(key, request.requestId);
    if (known !== undefined && isSettled(known.outcome)) {
      // An earlier try may have died between writing the request's fate and telling of it.
      if (redelivered) await announceRefusal(world, known, undefined);
      if (redelivered && known.verificationId !== undefined)
        await publishLatest(world, key, known.verificationId);
      return known;
    }
    const base = known ?? openRequest(key, kind, request, world.clock.now());
    return attemptReverify(world, key, request, base, snapshot);
  });
}

async function attemptReverify(
  world: World,
  key: StageKey,
  request: Request,
  base: RequestRecord,
  snapshot: StageSnapshot | undefined,
): Promise<RequestRecord> {
  const { stage, companion } = await lookAtStage(world, key, snapshot);
  if (companion !== undefined) return askToRepeat(world, key, base, companion);
  if (stage === undefined) {
    return refuse(world, base, `cluster ${key.cluster} has no Stage ${key.stage} in Project ${key.project}`);
  }
  const exclusion = findExclusion(stage, world.findPolicy(key.cluster));
  if (exclusion !== undefined) return refuse(world, base, exclusion);
  const record = await loadStageRecord(world, key, stage);
  if (record === undefined) return refuse(world, base, "the Stage was replaced by one of the same name");

  const targetId = base.target ?? record.latest?.id;
  const target = targetId === undefined ? undefined : await world.ledger.readVerification(key, targetId);
  const decision = decideReverify(request, record, target?.verification);
  switch (decision.kind) {
    case "refuse": {
      const adopted =
        target === undefined
          ? undefined
          : await adoptSuccessor(world, key, stage, request, target.verification);
      return adopted === undefined
        ? refuse(world, base, decision.message)
        : settle(world, base, started(adopted.id));
    }
    case "done":
      await publishLatest(world, key, decision.verificationId);
      return settle(world, base, started(decision.verificationId));
    case "start":
    case "wait": {
      const { current } = stage;
      if (current === undefined) return refuse(world, base, "the Stage holds no Freight");
      // Whether it is the run's end or the gate that keeps it: by then another verification is the latest.
      const isHeld = record.latest?.collectionId === current.id;
      if (!isHeld || record.latest?.promotion !== findBringer(stage, record)) {
        return refuse(world, base, "another Promotion has brought Freight whose own verification is due");
      }
      const first = record.waiting;
      if (first !== undefined && first.requestId !== request.requestId) {
        return refuse(
          world,
          base,
          `request ${first.requestId} already waits to repeat verification ${first.after}`,
        );
      }
      // "The latest" is another one by the time that a second try comes: the first says once and for all which it is.
      const pinned = { ...base, target: target?.verification.id };
      if (base.target === undefined) await world.ledger.writeRequest(pinned);
      const waiting: WaitingRequest = {
        requestId: request.requestId,
        cause: decision.cause,
        after: target?.verification.id ?? "",
        at: base.createdAt,
        ...(request.actor === undefined ? {} : { actor: request.actor }),
        ...(request.reason === undefined ? {} : { reason: request.reason }),
      };
      if (decision.kind === "wait") {
        return wait(world, pinned, record, waiting, `waits for verification ${waiting.after} to end`, target);
      }
      const gate = findClosedGate(stage);
      if (gate !== undefined) return wait(world, pinned, record, waiting, gate, undefined);
      const start = buildStart(stage, current, decision.cause, waiting);
      const verification = await startLatest(world, key, stage, record, start);
      return settle(world, pinned, started(verification.id));
    }
  }
}

/** The fate of a request that led to a verification. */
function started(verificationId: string) {
  return { outcome: "started", verificationId, message: `verification ${verificationId} started` } as const;
}

/**
 * The successor that an earlier try made before it died, when another Promotion has since made the target history:
 * its AnalysisRun exists, so the request was carried out, and refusing it now would be a lie.
 */
async function adoptSuccessor(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  request: Request,
  target: Verification,
): Promise<Verification | undefined> {
  const cause = deriveRequestCause(request);
  const id = deriveVerificationId(cause, stage.uid, target.collection.id);
  const known = await world.ledger.readVerification(key, id);
  if (known !== undefined) return known.verification;
  const name = deriveAnalysisRunName(key.stage, id, target.collection.id);
  const object = await world.findCluster(key.cluster).getAnalysisRun(key.project, name);
  const run = object === undefined ? undefined : readAnalysisRun(object);
  if (run?.identity === undefined) return undefined;
  await observeRun(world, key, run, { phaseChanged: true, redelivered: false });
  return (await world.ledger.readVerification(key, id))?.verification;
}

/** An earlier try may have died before the world was told of the successor. */
async function publishLatest(world: World, key: StageKey, id: string): Promise<void> {
  const successor = await world.ledger.readVerification(key, id);
  if (successor !== undefined) await publishPhase(world, successor.verification, undefined);
}

/** Remembers a request until it can be carried out. */
async function wait(
  world: World,
  base: RequestRecord,
  record: StageRecord,
  waiting: WaitingRequest,
  why: string,
  running: Versioned | undefined,
): Promise<RequestRecord> {
  const written = await settle(world, base, { outcome: "waiting", message: why, target: waiting.after });
  if (record.waiting === undefined) await world.ledger.writeStage({ ...record, waiting });
  if (running !== undefined && !running.verification.awaited) {
    // Read by whoever ends it. Should it end first, the condition fails and the decision is made again.
    await world.ledger.updateVerification({ ...running.verification, awaited: true }, running.revision);
  }
  return written;
}

async function refuse(world: World, base: RequestRecord, message: string): Promise<RequestRecord> {
  world.log.warn("request refused", { ...base.key, requestId: base.requestId, kind: base.kind, message });
  world.meter.count("RequestsRefused");
  const record = await settle(world, base, { outcome: "refused", message });
  await announceRefusal(world, record, undefined);
  return record;
}

async function settle(
  world: World,
  base: RequestRecord,
  fate: Parameters<typeof settleRequest>[1],
): Promise<RequestRecord> {
  const record = settleRequest(base, fate);
  await world.ledger.writeRequest(record);
  return record;
}
