import { isTerminal, type Phase, type TerminalPhase } from "../domain/phase.ts";
import type { Verification } from "../domain/verification.ts";
import type { MetricName } from "../runtime/telemetry.ts";
import type { World } from "./world.ts";

const METRIC_OF_PHASE: Readonly<Record<TerminalPhase, MetricName>> = {
  Successful: "VerificationsSuccessful",
  Failed: "VerificationsFailed",
  Error: "VerificationsError",
  Aborted: "VerificationsAborted",
  Inconclusive: "VerificationsInconclusive",
};

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
