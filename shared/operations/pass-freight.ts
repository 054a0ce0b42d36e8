import { readStanding } from "../cluster/availability-reader.ts";
import type { KubernetesObject } from "../cluster/cluster.ts";
import { mergeVerifiedIn } from "../cluster/stage-status.ts";
import { type FreightRequest, isAvailable } from "../domain/availability.ts";
import { Fault, isFault } from "../domain/fault.ts";
import type { StageKey } from "../domain/identity.ts";
import { announcePassed } from "./announce.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/**
 * A control-flow Stage runs nothing: Freight that is available to it counts as verified in it at once, so that the Stages
 * behind it can have it. Freight that counts already is skipped; one that cannot be marked does not keep the others from
 * it. Returns how many were marked.
 *
 * @throws Fault `Transient` naming each Freight that could not be marked; the next sweep tries again.
 */
export async function passFreight(
  world: World,
  key: StageKey,
  requests: readonly FreightRequest[],
  freights: readonly KubernetesObject[],
): Promise<number> {
  const now = world.clock.now();
  const failures: string[] = [];
  let marked = 0;
  for (const freight of freights) {
    const standing = readStanding(freight);
    if (standing.verifiedIn.has(key.stage)) continue;
    if (!isAvailable(key.stage, requests, standing, now)) continue;
    try {
      if (await mark(world, key, standing.name)) marked++;
    } catch (error) {
      if (!isFault(error)) throw error;
      failures.push(`Freight ${standing.name}: ${error.message}`);
    }
  }
  if (failures.length > 0) throw new Fault("Transient", failures);
  return marked;
}

async function mark(world: World, key: StageKey, name: string): Promise<boolean> {
  const cluster = world.findCluster(key.cluster);
  const at = new Date(world.clock.now());
  return decideAgainOnConflict(async () => {
    const object = await cluster.getFreight(key.project, name);
    const patch = object === undefined ? undefined : mergeVerifiedIn(object, key.stage, at);
    if (patch === undefined) return false;
    const result = await cluster.patchStatus("freights", key.project, name, patch);
    if (result === "conflict") {
      throw new Fault("Conflict", `Freight ${key.project}/${name} changed while its status was written`);
    }
    if (result === "done") await announcePassed(world, key, name, at);
    return result === "done";
  });
}
