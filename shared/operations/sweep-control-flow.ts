import type { KubernetesObject, ObjectPage } from "../cluster/cluster.ts";
import { findMode, findOtherShard } from "../domain/policy.ts";
import type { Attempt, ClusterSight } from "./cluster-sight.ts";
import { passFreight } from "./pass-freight.ts";
import type { World } from "./world.ts";

/** Stages of control flow let pass what is available to them; each Project's Freight is listed once. */
export async function passOn(
  world: World,
  clusterName: string,
  sight: ClusterSight,
  attempt: Attempt,
): Promise<void> {
  const policy = world.findPolicy(clusterName);
  const ours = [...sight.requests].flatMap(([name, requests]) => {
    const stage = sight.stages.get(name);
    const isOurs =
      stage !== undefined &&
      !stage.deleting &&
      findOtherShard(stage, policy) === undefined &&
      findMode(stage, policy) === "managed";
    return isOurs ? [{ stage, requests }] : [];
  });
  for (const project of new Set(ours.map(({ stage }) => stage.project))) {
    await attempt(`Freight of Project ${project}`, async () => {
      const freights = await collectObjects(world.findCluster(clusterName).listFreights(project));
      for (const { stage, requests } of ours) {
        if (stage.project !== project) continue;
        const key = { cluster: clusterName, project, stage: stage.name };
        await attempt(`Stage ${project}/${stage.name}`, async () => {
          return (await passFreight(world, key, requests, freights)) > 0;
        });
      }
      return false;
    });
  }
}

async function collectObjects(pages: AsyncIterable<ObjectPage>): Promise<KubernetesObject[]> {
  const objects: KubernetesObject[] = [];
  for await (const { items } of pages) objects.push(...items);
  return objects;
}
