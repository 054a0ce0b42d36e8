import type { StageKey } from "../domain/identity.ts";
import { announceSecondVerifier } from "./announce.ts";
import type { World } from "./world.ts";

/**
 * Another verifier acts on a Stage that is ours: what it did is recorded, nothing of it is touched or doubled, and
 * somebody is told, once for each of its verifications.
 */
export async function noticeSecondVerifier(
  world: World,
  key: StageKey,
  verificationId: string,
  record: (world: World, key: StageKey) => Promise<void>,
): Promise<void> {
  world.meter.count("SecondVerifierNoticed");
  world.log.warn("another verifier acts on this Stage; Tallyman stands back", { ...key, verificationId });
  await record(world, key);
  await announceSecondVerifier(world, key, verificationId);
}
