import type { FreightCollection } from "./freight.ts";
import type { OwnCause } from "./identity.ts";

/** How often a metric's measurements came out which way. */
export interface MeasurementCounts {
  readonly count: number;
  readonly successful: number;
  readonly failed: number;
  readonly inconclusive: number;
  readonly error: number;
}

/** One measurement. `value` is an opaque text: Argo Rollouts writes plain text, JSON or nothing. */
export interface Measurement {
  readonly phase: string;
  readonly value?: string | undefined;
  readonly message?: string | undefined;
  readonly finishedAt?: string | undefined;
}

/** A metric's result, bounded: the last measurements are kept, the rest is in the counts. */
export interface MetricSummary extends MeasurementCounts {
  readonly name: string;
  readonly phase: string;
  readonly message?: string | undefined;
  readonly dryRun: boolean;
  readonly measurements: readonly Measurement[];
}

/**
 * What Tallyman writes on the AnalysisRuns that it makes (annotation `tallyman.dev/verification`, JSON): enough to
 * enter the verification into the ledger from the run alone, should its maker have died before it could.
 */
export interface RunIdentity {
  readonly id: string;
  readonly stageUid: string;
  readonly cause: OwnCause;
  readonly promotion: string;
  readonly collection: FreightCollection;
  readonly missingOrigins: readonly string[];
  readonly actor?: string | undefined;
}

/** A projection of an AnalysisRun at one resourceVersion; what an observation message carries. */
export interface AnalysisRunSnapshot {
  readonly uid: string;
  readonly project: string;
  readonly name: string;
  readonly resourceVersion: string;
  /** The Stage by its full name. */
  readonly stage: string;
  readonly collectionId?: string | undefined;
  /** Set on the runs that Tallyman made. */
  readonly identity?: RunIdentity | undefined;
  /** `status.phase` as it stands; `""` until the controller touched it. */
  readonly phase: string;
  readonly message?: string | undefined;
  readonly startedAt?: string | undefined;
  readonly completedAt?: string | undefined;
  /** `spec.terminate`. */
  readonly terminating: boolean;
  /** The run no longer exists; the rest is how it was last seen. */
  readonly deleted: boolean;
  readonly metrics: readonly MetricSummary[];
  /** Metrics that did not fit into the summary. */
  readonly omittedMetrics: number;
  /** Their measurements: left out one by one, but counted. Absent where nothing was left out. */
  readonly omittedCounts?: MeasurementCounts | undefined;
}

/** Sums of counts, field by field; zero of nothing. */
export function addCounts(list: readonly MeasurementCounts[]): MeasurementCounts {
  const total = { count: 0, successful: 0, failed: 0, inconclusive: 0, error: 0 };
  for (const each of list) {
    total.count += each.count;
    total.successful += each.successful;
    total.failed += each.failed;
    total.inconclusive += each.inconclusive;
    total.error += each.error;
  }
  return total;
}
