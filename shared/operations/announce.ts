import type { KubernetesObject } from "../cluster/cluster.ts";
import {
  buildPassedEvent,
  buildPhaseEvents,
  buildRefusalEvent,
  buildSecondVerifierEvent,
  buildStaleEvent,
} from "../cluster/verification-events.ts";
import { isFault } from "../domain/fault.ts";
import type { StageKey } from "../domain/identity.ts";
import { isForeign, type RequestRecord, type Verification } from "../domain/verification.ts";
import type { World } from "./world.ts";

/**
 * Tells of a phase by Kubernetes Events, one for each Freight. Harmless to repeat. Events are news, not truth: the
 * ledger has what they say, so one that cannot be written is logged and holds nothing up.
 */
export async function announcePhase(world: World, verification: Verification): Promise<void> {
  // Of its own verifications another verifier tells itself.
  if (isForeign(verification)) return;
  for (const event of buildPhaseEvents(verification)) await tell(world, verification.key, event);
}

/** Tells of a request that was not carried out, on its Stage. */
export async function announceRefusal(
  world: World,
  request: RequestRecord,
  stageUid: string | undefined,
): Promise<void> {
  const event = buildRefusalEvent(request, stageUid);
  if (event !== undefined) await tell(world, request.key, event);
}

/** Tells on a Stage that its status has not moved on. */
export async function announceStale(world: World, key: StageKey, promotion: string): Promise<void> {
  await tell(world, key, buildStaleEvent(key, promotion, new Date(world.clock.now())));
}

/** Tells that Freight counts as verified in a Stage of control flow. */
export async function announcePassed(world: World, key: StageKey, freight: string, at: Date): Promise<void> {
  await tell(world, key, buildPassedEvent(key, freight, at));
}

/** Tells on a Stage of ours that another verifier acts on it. */
export async function announceSecondVerifier(
  world: World,
  key: StageKey,
  verificationId: string,
): Promise<void> {
  await tell(world, key, buildSecondVerifierEvent(key, verificationId, new Date(world.clock.now())));
}

async function tell(world: World, key: StageKey, event: KubernetesObject): Promise<void> {
  try {
    await world.findCluster(key.cluster).createEvent(key.project, event);
  } catch (error) {
    if (!isFault(error)) throw error;
    world.log.warn("a Kubernetes Event could not be written", { ...key, reasons: error.reasons });
  }
}
