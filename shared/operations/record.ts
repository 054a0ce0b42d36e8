import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import type { Phase, TerminalPhase } from "../domain/phase.ts";
import { isTerminal } from "../domain/phase.ts";
import type { Verification } from "../domain/verification.ts";
import type { MetricName } from "../runtime/telemetry.ts";
import { announcePhase } from "./announce.ts";
import type { World } from "./world.ts";
import { writeBack } from "./write-back.ts";

const METRIC_OF_PHASE: Readonly<Record<TerminalPhase, MetricName>> = {
  Successful: "VerificationsSuccessful",
  Failed: "VerificationsFailed",
  Error: "VerificationsError",
  Aborted: "VerificationsAborted",
  Inconclusive: "VerificationsInconclusive",
};

/**
 * What follows once a change of phase is in the ledger: its details, and the world being told. Harmless to
 * repeat, which is what a redelivered message does, since its first handler may have died in between.
 */
export async function publishPhase(
  world: World,
  verification: Verification,
  run: AnalysisRunSnapshot | undefined,
): Promise<void> {
  // The head itself is the record of a start.
  if (verification.phase !== "Pending") await world.ledger.recordTransition(verification, run);
  await tellWorld(world, verification);
}

/**
 * Makes the cluster show a verification's phase, by Events and in the objects. The Stage's status comes last: while it
 * does not show the phase, the sweeper knows that this was not done to its end.
 */
export async function tellWorld(world: World, verification: Verification): Promise<void> {
  await announcePhase(world, verification);
  await writeBack(world, verification);
}

/** Logs and counts a change of phase, once: by whoever's write made it. */
export function reportPhase(world: World, verification: Verification, from: Phase | undefined): void {
  const { key, id, phase, reason, message, actor } = verification;
  world.log.info("verification changed phase", {
    ...key,
    verificationId: id,
    from,
    phase,
    reason,
    message,
    actor,
  });
  if (from === undefined) world.meter.count("VerificationsStarted");
  if (isTerminal(phase)) world.meter.count(METRIC_OF_PHASE[phase]);
}
