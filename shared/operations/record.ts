import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import type { Verification } from "../domain/verification.ts";
import { announcePhase } from "./announce.ts";
import type { World } from "./world.ts";
import { writeBack } from "./write-back.ts";

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
