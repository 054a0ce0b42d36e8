import { readSucceededPromotion, type SucceededPromotion } from "../cluster/promotion-reader.ts";
import { isFault } from "../domain/fault.ts";
import type { StageKey } from "../domain/identity.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import type { StageRecord } from "../domain/verification.ts";
import { recordSuperseded } from "./start-verification.ts";
import type { World } from "./world.ts";

/**
 * Leaves the record of Promotions that came and went while nobody watched: the Stage's history holds Freight between
 * what the ledger knows and what is there now. Asks the cluster only when there is such a gap; a cluster that does not
 * answer, or does not let us ask, holds the verification that is due up no longer than this one question.
 */
export async function recordUnseenPromotions(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  record: StageRecord,
): Promise<void> {
  if (!hasGap(stage, record)) return;
  const known = record.awaiting?.promotion ?? record.latest?.promotion ?? "";
  const current = stage.lastPromotion?.name ?? "";
  try {
    for (const { name, collection, finishedAt } of await listBetween(world, key, known, current)) {
      await recordSuperseded(world, key, stage, { promotion: name, collection, since: finishedAt }, current);
    }
  } catch (error) {
    if (!isFault(error)) throw error;
    world.log.warn("Promotions that nobody saw could not be looked up", {
      ...key,
      known,
      current,
      reasons: error.reasons,
    });
  }
}

/** True when the Freight before the current one is not the one that the ledger knows last. */
function hasGap(stage: StageSnapshot, record: StageRecord): boolean {
  const { latest, awaiting } = record;
  const [, before] = stage.history;
  // At the first contact with a Stage its past is not ours to judge.
  if (before === undefined || (latest === undefined && awaiting === undefined)) return false;
  if (awaiting !== undefined) return before.collectionId !== awaiting.collection.id;
  return (
    before.collectionId !== latest?.collectionId ||
    !before.verifications.some((each) => each.id === latest.id)
  );
}

/** Succeeded Promotions of the Stage after `known` and before `current`; Kargo's names sort by time (ULID). */
async function listBetween(
  world: World,
  key: StageKey,
  known: string,
  current: string,
): Promise<SucceededPromotion[]> {
  const found: SucceededPromotion[] = [];
  for await (const page of world.findCluster(key.cluster).listPromotions(key.project)) {
    for (const object of page.items) {
      const promotion = readSucceededPromotion(object);
      if (promotion?.stage !== key.stage || promotion.name <= known || promotion.name >= current) continue;
      found.push(promotion);
    }
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}
