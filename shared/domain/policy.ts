import type { StageSnapshot } from "./stage.ts";

/** How an installation deals with a cluster, where a Stage does not say otherwise. */
export interface ClusterPolicy {
  /** The shard whose Stages are this installation's: `""` for Stages without one, absent for every Stage. */
  readonly shard?: string | undefined;
}

/** Every Stage is ours. */
export const DEFAULT_POLICY: ClusterPolicy = {};

/** Why the Stage is another installation's; `undefined` when it is this one's. */
export function findOtherShard(
  stage: Pick<StageSnapshot, "shard">,
  { shard }: ClusterPolicy,
): string | undefined {
  const actual = stage.shard ?? "";
  if (shard === undefined || actual === shard) return undefined;
  const has = actual === "" ? "has no shard" : `is of shard ${actual}`;
  const wanted = shard === "" ? "Stages without a shard" : `shard ${shard}`;
  return `the Stage ${has}, and this installation is for ${wanted}`;
}
