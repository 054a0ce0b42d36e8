import type { StageSnapshot } from "./stage.ts";

/**
 * Who carries verifications out. `managed`: Tallyman. `companion`: another verifier, beside which Tallyman records what
 * it sees and passes requests on, and touches neither AnalysisRuns nor status.
 */
export type Mode = "managed" | "companion";

/** How an installation deals with a cluster, where a Stage does not say otherwise. */
export interface ClusterPolicy {
  /** `managed` by default. */
  readonly mode?: Mode | undefined;
  /** The shard whose Stages are this installation's: `""` for Stages without one, absent for every Stage. */
  readonly shard?: string | undefined;
  /** How long Freight may wait for its verification to be able to start, seconds; for ever when absent or 0. */
  readonly startDeadline?: number | undefined;
  /** How long a verification may take, seconds; for ever when absent or 0. */
  readonly deadline?: number | undefined;
}

/** A limit in seconds, as the Stage says or else the installation; undefined where there is none. */
export function findLimit(
  which: "startDeadline" | "deadline",
  stage: Pick<StageSnapshot, "startDeadline" | "deadline">,
  policy: ClusterPolicy,
): number | undefined {
  return (stage[which] ?? policy[which]) || undefined;
}

/** Who carries out a Stage's verifications. */
export function findMode(stage: Pick<StageSnapshot, "mode">, policy: ClusterPolicy): Mode {
  return stage.mode ?? policy.mode ?? "managed";
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
