import { mergeVerification, mergeVerifiedIn, removeAnnotationPatch } from "../cluster/stage-status.ts";
import { Fault, isFault } from "../domain/fault.ts";
import type { StageKey } from "../domain/identity.ts";
import type { Verification } from "../domain/verification.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/**
 * Makes the cluster show what the ledger says: the entry in the Stage's `verificationHistory`, whichever
 * FreightCollection it belongs to, and `verifiedIn` of each Freight once it passed. Harmless to repeat; a
 * write that conflicts is made again on the fresh object, so nobody's write is lost.
 */
export async function writeBack(world: World, verification: Verification): Promise<void> {
  const { cluster: clusterName, project, stage } = verification.key;
  const cluster = world.findCluster(clusterName);
  await decideAgainOnConflict(async () => {
    const object = await cluster.getStage(project, stage);
    if (object === undefined) return;
    const patch = mergeVerification(object, verification, new Date(world.clock.now()));
    if (patch === undefined) return;
    if ((await cluster.patchStatus("stages", project, stage, patch)) === "conflict") {
      throw new Fault("Conflict", `Stage ${project}/${stage} changed while its status was written`);
    }
  });
  if (verification.phase === "Successful") await markVerified(world, verification);
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
