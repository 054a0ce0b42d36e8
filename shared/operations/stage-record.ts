import { readStage } from "../cluster/stage-reader.ts";
import type { StageKey } from "../domain/identity.ts";
import { compareResourceVersions } from "../domain/resource-version.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import type { StageRecord } from "../domain/verification.ts";
import { voidWaiting } from "./waiting-request.ts";
import type { World } from "./world.ts";

/**
 * What the ledger knows of this very Stage. A Stage that was deleted and made again under its name has another
 * uid and starts with nothing, and what waited for the old one is refused; `undefined` when the snapshot is the older
 * one of the two.
 */
export async function loadStageRecord(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
): Promise<StageRecord | undefined> {
  const record = await world.ledger.readStage(key);
  if (record.uid === stage.uid) return record;
  if (record.revision > 0 && compareResourceVersions(stage.resourceVersion, record.observed) < 0)
    return undefined;
  await voidWaiting(world, key, record.waiting, "the Stage was deleted and made again");
  return { key, revision: record.revision, uid: stage.uid, observed: "0" };
}

/** The live Stage, for messages that bring no snapshot. `undefined` when there is none. */
export async function fetchStage(world: World, key: StageKey): Promise<StageSnapshot | undefined> {
  const object = await world.findCluster(key.cluster).getStage(key.project, key.stage);
  return object === undefined ? undefined : readStage(object);
}

/** The newer of two resourceVersions. */
export function newest(a: string, b: string): string {
  return compareResourceVersions(a, b) >= 0 ? a : b;
}
