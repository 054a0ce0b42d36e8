import type { KubernetesObject } from "../cluster/cluster.ts";
import { readStage } from "../cluster/stage-reader.ts";
import { mergeVerification, mergeVerifiedIn, removeAnnotationPatch } from "../cluster/stage-status.ts";
import { readVerificationHistory } from "../cluster/verification-history-reader.ts";
import { Fault, isFault } from "../domain/fault.ts";
import { findRival } from "../domain/foreign.ts";
import type { StageKey } from "../domain/identity.ts";
import { isForeign, type Verification } from "../domain/verification.ts";
import { recordEntries } from "./record-stage.ts";
import { noticeSecondVerifier } from "./second-verifier.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/**
 * Makes the cluster show what the ledger says: the entry in the Stage's `verificationHistory`, whichever
 * FreightCollection it belongs to, and `verifiedIn` of each Freight once it passed. Harmless to repeat; a
 * write that conflicts is made again on the fresh object, so nobody's write is lost.
 */
export async function writeBack(world: World, verification: Verification): Promise<void> {
  // What another verifier enters is its own.
  if (isForeign(verification)) return;
  const { cluster: clusterName, project, stage } = verification.key;
  const cluster = world.findCluster(clusterName);
  await decideAgainOnConflict(async () => {
    const object = await cluster.getStage(project, stage);
    if (object === undefined) return;
    const patch = mergeVerification(object, verification, new Date(world.clock.now()));
    if (patch === undefined) return;
    if (verification.phase === "Pending") await lookForRival(world, verification, object);
    if ((await cluster.patchStatus("stages", project, stage, patch)) === "conflict") {
      throw new Fault("Conflict", `Stage ${project}/${stage} changed while its status was written`);
    }
  });
  if (verification.phase === "Successful") await markVerified(world, verification);
}

/** Two verifiers that both see a Stage become healthy start at one moment, and neither sees the other's entry before. */
async function lookForRival(
  world: World,
  verification: Verification,
  object: KubernetesObject,
): Promise<void> {
  const { key } = verification;
  const rival = findRival(readVerificationHistory(object), verification);
  if (rival === undefined || (await world.ledger.readVerification(key, rival.id)) !== undefined) return;
  await noticeSecondVerifier(world, key, rival.id, async () => {
    await recordEntries(world, key, readStage(object), object);
  });
}

async function markVerified(world: World, verification: Verification): Promise<void> {
  const { cluster: clusterName, project, stage } = verification.key;
  const cluster = world.findCluster(clusterName);
  const at = new Date(verification.finishedAt ?? world.clock.now());
  for (const { name } of verification.collection.freight) {
    await decideAgainOnConflict(async () => {
      const object = await cluster.getFreight(project, name);
      if (object === undefined) return;
      const patch = mergeVerifiedIn(object, stage, at);
      if (patch === undefined) return;
      if ((await cluster.patchStatus("freights", project, name, patch)) === "conflict") {
        throw new Fault("Conflict", `Freight ${project}/${name} changed while its status was written`);
      }
    });
  }
}

/**
 * Removes a request's annotation if it still holds the value that was handled. Not being able to is no reason
 * to do the request again, nor to fail it: seen again, it is known.
 */
export async function clearAnnotation(
  world: World,
  key: StageKey,
  annotation: string,
  value: string | undefined,
): Promise<void> {
  if (value === undefined) return;
  try {
    const patch = removeAnnotationPatch(annotation, value);
    await world.findCluster(key.cluster).patchStage(key.project, key.stage, patch);
  } catch (error) {
    if (!isFault(error)) throw error;
    world.log.warn("a handled annotation could not be removed", {
      ...key,
      annotation,
      reasons: error.reasons,
    });
  }
}
