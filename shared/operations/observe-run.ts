import { readVerificationHistory } from "../cluster/verification-history-reader.ts";
import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import type { StageKey } from "../domain/identity.ts";
import { applyObservation } from "../domain/observation.ts";
import { isTerminal } from "../domain/phase.ts";
import { findOtherShard } from "../domain/policy.ts";
import { isForeign, type Verification } from "../domain/verification.ts";
import type { Versioned } from "../ledger/ledger.ts";
import { publishPhase } from "./record.ts";
import { recordStage, settleAbort } from "./record-stage.ts";
import { reportPhase } from "./report-phase.ts";
import { fetchStage, lookAtStage } from "./stage-record.ts";
import { adoptVerification } from "./start-verification.ts";
import { decideAgainOnConflict, type World } from "./world.ts";
import { writeBack } from "./write-back.ts";

export interface ObserveOptions {
  /** False when the sender knows that the phase is as it was: one conditional write then does, without a read. */
  readonly phaseChanged: boolean;
  /** True when an earlier try may have died after its write to the ledger. */
  readonly redelivered: boolean;
}

/**
 * Records one sight of an AnalysisRun. Returns the verification when this made it terminal, so that the caller
 * can go on with what waited for it.
 */
export async function observeRun(
  world: World,
  key: StageKey,
  run: AnalysisRunSnapshot,
  options: ObserveOptions,
): Promise<Verification | undefined> {
  const { identity } = run;
  if (identity === undefined) return observeForeignRun(world, key, run);
  let known: Versioned | undefined;
  if (!options.phaseChanged && !options.redelivered) {
    const progress = await world.ledger.recordProgress(key, identity.id, run);
    if (progress.applied) return undefined;
    known = progress.existing;
  }
  return decideAgainOnConflict(async () => {
    let current = known ?? (await world.ledger.readVerification(key, identity.id));
    known = undefined;
    if (current === undefined) {
      if (await isOfOtherShard(world, key)) return undefined;
      await adoptVerification(world, key, identity);
      current = await world.ledger.readVerification(key, identity.id);
      if (current === undefined) return undefined;
    }
    return apply(world, current, run, options.redelivered);
  });
}

/**
 * Records a sight of another verifier's AnalysisRun, for the verification that the Stage's status names it for. What
 * the verifier has not entered yet is recorded when it does.
 */
async function observeForeignRun(
  world: World,
  key: StageKey,
  run: AnalysisRunSnapshot,
): Promise<Verification | undefined> {
  const { companion } = await lookAtStage(world, key, undefined);
  if (companion === undefined) return undefined;
  await recordStage(world, key, companion);
  const entries = readVerificationHistory(companion).flatMap((item) => item.entries);
  const entry = entries.find((each) => each.run?.name === run.name);
  return entry === undefined ? undefined : followForeignRun(world, key, entry.id, run);
}

/** Records a sight of the AnalysisRun of another verifier's verification, which is known by its id. */
export function followForeignRun(
  world: World,
  key: StageKey,
  id: string,
  run: AnalysisRunSnapshot,
): Promise<Verification | undefined> {
  return decideAgainOnConflict(async () => {
    const current = await world.ledger.readVerification(key, id);
    if (current === undefined || !isForeign(current.verification)) return undefined;
    const ended = await apply(world, current, run, false);
    if (ended !== undefined) await settleAbort(world, ended);
    return ended;
  });
}

/** Another installation, for another shard of the cluster, has its AnalysisRuns beside ours. */
async function isOfOtherShard(world: World, key: StageKey): Promise<boolean> {
  const policy = world.findPolicy(key.cluster);
  if (policy.shard === undefined) return false;
  const stage = await fetchStage(world, key);
  return stage !== undefined && findOtherShard(stage, policy) !== undefined;
}

async function apply(
  world: World,
  current: Versioned,
  run: AnalysisRunSnapshot,
  redelivered: boolean,
): Promise<Verification | undefined> {
  const { verification, revision } = current;
  const observation = applyObservation(verification, run, world.clock.now());
  switch (observation.kind) {
    case "stale":
      // The write was made; what follows it may not have been.
      if (redelivered && verification.observed === run.resourceVersion) {
        await publishPhase(world, verification, run);
        return isTerminal(verification.phase) ? verification : undefined;
      }
      return undefined;
    case "progress":
      await world.ledger.updateVerification(observation.next, revision);
      return undefined;
    case "evidence":
      await world.ledger.updateVerification(observation.next, revision);
      await writeBack(world, observation.next);
      return undefined;
    case "transition": {
      const { next } = observation;
      await world.ledger.updateVerification(next, revision);
      reportPhase(world, next, verification.phase);
      const ended = Date.parse(run.completedAt ?? "");
      if (!Number.isNaN(ended)) world.meter.duration("DetectionLag", Math.max(0, world.clock.now() - ended));
      await publishPhase(world, next, run);
      return isTerminal(next.phase) ? next : undefined;
    }
  }
}
