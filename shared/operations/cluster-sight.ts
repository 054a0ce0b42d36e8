import { readAnalysisRun } from "../cluster/analysis-run-reader.ts";
import { readFreightRequests } from "../cluster/availability-reader.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { readStage } from "../cluster/stage-reader.ts";
import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import type { FreightRequest } from "../domain/availability.ts";
import { isFault } from "../domain/fault.ts";
import type { StageKey } from "../domain/identity.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import type { Verification } from "../domain/verification.ts";
import type { World } from "./world.ts";

/** Does a piece of a sweep, whose failure must not keep the others from theirs. */
export type Attempt = (what: string, work: () => Promise<boolean>) => Promise<void>;

/** All AnalysisRuns and Stages of a cluster at about one time. */
export interface ClusterSight {
  /** By `project/name`. */
  readonly runs: ReadonlyMap<string, AnalysisRunSnapshot>;
  readonly stages: ReadonlyMap<string, StageSnapshot>;
  /** What Stages of control flow ask for, by `project/name`. */
  readonly requests: ReadonlyMap<string, readonly FreightRequest[]>;
  readonly runListVersion: string;
}

/** Lists a cluster. Objects that make no sense are logged and left out. */
export async function lookAround(cluster: Cluster, world: World): Promise<ClusterSight> {
  const runs = new Map<string, AnalysisRunSnapshot>();
  let runListVersion = "0";
  for await (const page of cluster.listAnalysisRuns()) {
    runListVersion = page.resourceVersion;
    for (const object of page.items) {
      const run = readOrReport(world, () => readAnalysisRun(object));
      if (run !== undefined) runs.set(`${run.project}/${run.name}`, run);
    }
  }
  const stages = new Map<string, StageSnapshot>();
  const requests = new Map<string, readonly FreightRequest[]>();
  for await (const page of cluster.listStages()) {
    for (const object of page.items) {
      const stage = readOrReport(world, () => readStage(object));
      if (stage === undefined) continue;
      const name = `${stage.project}/${stage.name}`;
      stages.set(name, stage);
      if (stage.controlFlow) requests.set(name, readFreightRequests(object));
    }
  }
  return { runs, stages, requests, runListVersion };
}

/** One object that makes no sense must not keep the sweep from the others. */
function readOrReport<T>(world: World, read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!isFault(error, "Invalid")) throw error;
    world.log.warn("the sweep met an object that cannot be used", { reasons: error.reasons });
    return undefined;
  }
}

/** True for a verification that an AnalysisRun or the Stage's status still tells of. */
export function isSeen(sight: ClusterSight, key: StageKey, id: string): boolean {
  const stage = sight.stages.get(`${key.project}/${key.stage}`);
  if (stage?.history.some(({ verifications }) => verifications.some((entry) => entry.id === id))) return true;
  return [...sight.runs.values()].some((run) => run.identity?.id === id);
}

/** False when the Stage's status should show the verification's phase and does not: nobody told it. */
export function isShown(stage: StageSnapshot, { collection, id, phase }: Verification): boolean {
  const places = stage.history.filter(({ collectionId }) => collectionId === collection.id);
  if (places.length === 0) return true;
  return places.some(({ verifications }) =>
    verifications.some((entry) => entry.id === id && entry.phase === phase),
  );
}
