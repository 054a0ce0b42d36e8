import type { KubernetesObject } from "../cluster/cluster.ts";
import { readStage } from "../cluster/stage-reader.ts";
import type { StageKey } from "../domain/identity.ts";
import { findMode } from "../domain/policy.ts";
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

/** A Stage, and the object that it was read from where another verifier carries out its verifications. */
export interface StageSight {
  readonly stage: StageSnapshot | undefined;
  readonly companion?: KubernetesObject;
}

/**
 * The Stage that a message is about: as the message brought it, or as it is now. In companion mode it is read anew in any
 * case, since a snapshot does not hold all that the other verifier enters.
 */
export async function lookAtStage(
  world: World,
  key: StageKey,
  snapshot: StageSnapshot | undefined,
): Promise<StageSight> {
  const policy = world.findPolicy(key.cluster);
  if (snapshot !== undefined && findMode(snapshot, policy) === "managed") return { stage: snapshot };
  const object = await world.findCluster(key.cluster).getStage(key.project, key.stage);
  if (object === undefined) return { stage: undefined };
  const stage = readStage(object);
  return findMode(stage, policy) === "companion" ? { stage, companion: object } : { stage };
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
