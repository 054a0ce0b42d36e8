import type { Cluster } from "../cluster/cluster.ts";
import { readSucceededPromotion } from "../cluster/promotion-reader.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import { announceStale } from "./announce.ts";
import type { World } from "./world.ts";

/** How long a Stage may take to show a Promotion that has succeeded, milliseconds. */
const PATIENCE_MS = 10 * 60_000;

/**
 * Tells of Stages whose status has not moved on although a Promotion has succeeded: their old Freight is not verified for
 * the new Promotion, and somebody should know why nothing is. Returns how many there are.
 */
export async function reportStaleStages(
  world: World,
  cluster: Cluster,
  project: string,
  stages: ReadonlyMap<string, StageSnapshot>,
): Promise<number> {
  const now = world.clock.now();
  let stale = 0;
  for await (const { items } of cluster.listPromotions(project)) {
    for (const object of items) {
      const promotion = readSucceededPromotion(object);
      if (promotion?.finishedAt === undefined || now - promotion.finishedAt < PATIENCE_MS) continue;
      const stage = stages.get(`${project}/${promotion.stage}`);
      // Names hold a ULID: one that is later in the alphabet is later in time. Kargo compares them so.
      if (stage === undefined || stage.deleting || (stage.lastPromotion?.name ?? "") >= promotion.name)
        continue;
      stale++;
      world.meter.count("StaleStages");
      const key = { cluster: cluster.name, project, stage: stage.name };
      world.log.warn("a Stage does not show a Promotion that succeeded", {
        ...key,
        promotion: promotion.name,
      });
      await announceStale(world, key, promotion.name);
    }
  }
  return stale;
}
