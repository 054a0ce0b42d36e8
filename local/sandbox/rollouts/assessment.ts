import {
  countEffectively,
  findResult,
  isCompleted,
  type Metric,
  type MetricResult,
  type RunPhase,
  type RunStatus,
  type RunSummary,
  readInt,
} from "./analysis-run.ts";

const BEST_TO_WORST: readonly RunPhase[] = [
  "Successful",
  "Running",
  "Pending",
  "Inconclusive",
  "Error",
  "Failed",
];

const DEFAULT_CONSECUTIVE_ERROR_LIMIT = 4;

function isWorse(current: RunPhase, next: RunPhase): boolean {
  return BEST_TO_WORST.indexOf(next) > BEST_TO_WORST.indexOf(current);
}

/** A run ends early when that was asked for, or when a metric that counts has come out badly. */
export function isTerminating(status: RunStatus, terminate: boolean): boolean {
  const bad: readonly RunPhase[] = ["Failed", "Error", "Inconclusive"];
  return (
    terminate || (status.metricResults ?? []).some((result) => !result.dryRun && bad.includes(result.phase))
  );
}

/** The limit that a metric has broken. When it broke several, Error is said rather than Inconclusive or Failed. */
function findBrokenLimit(
  metric: Metric,
  result: MetricResult,
): { readonly phase: RunPhase; readonly message: string } | undefined {
  const { failed = 0, inconclusive = 0, consecutiveError = 0 } = result;
  const errorLimit =
    metric.consecutiveErrorLimit === undefined
      ? DEFAULT_CONSECUTIVE_ERROR_LIMIT
      : readInt(metric.consecutiveErrorLimit);
  if (consecutiveError > errorLimit) {
    return {
      phase: "Error",
      message: `consecutiveErrors (${consecutiveError}) > consecutiveErrorLimit (${errorLimit})`,
    };
  }
  const inconclusiveLimit = readInt(metric.inconclusiveLimit);
  if (inconclusive > inconclusiveLimit) {
    return {
      phase: "Inconclusive",
      message: `inconclusive (${inconclusive}) > inconclusiveLimit (${inconclusiveLimit})`,
    };
  }
  const failureLimit = readInt(metric.failureLimit);
  // Below zero the limit is switched off.
  if (failureLimit >= 0 && failed > failureLimit) {
    return { phase: "Failed", message: `failed (${failed}) > failureLimit (${failureLimit})` };
  }
  return undefined;
}

/** The phase of one metric by its measurements so far. */
function assessMetric(metric: Metric, result: MetricResult, terminating: boolean): RunPhase {
  if (isCompleted(result.phase)) return result.phase;
  const last = result.measurements?.at(-1);
  if (last === undefined) return terminating ? "Successful" : "Pending";
  if (!isCompleted(last.phase)) return "Running";
  const broken = findBrokenLimit(metric, result);
  if (broken !== undefined) return broken.phase;

  const wanted = readInt(metric.consecutiveSuccessLimit);
  if (wanted > 0 && (result.consecutiveSuccess ?? 0) >= wanted) return "Successful";
  const count = countEffectively(metric);
  if (count !== undefined && (result.count ?? 0) >= count) {
    if (wanted <= 0) return "Successful";
    // Too few successes in a row, and not too many failures: nobody can say.
    return readInt(metric.failureLimit) >= 0 ? "Inconclusive" : "Failed";
  }
  return terminating ? "Successful" : "Running";
}

/**
 * Brings the metrics' phases and the summaries up to date, in place, and says what the run as a whole is.
 * Dry-run metrics never make it worse. After `spec.terminate` with nothing bad measured it is `Successful`,
 * as Argo Rollouts has it.
 */
export function assessRun(
  status: RunStatus,
  metrics: readonly Metric[],
  dryRuns: ReadonlySet<string>,
  terminate: boolean,
): { readonly phase: RunPhase; readonly message: string } {
  // As it was before this assessment: a metric that turns bad only now ends the others in the next pass.
  const terminating = isTerminating(status, terminate);
  let worst: RunPhase | undefined;
  let message = terminate ? "Run Terminated" : "";
  let isEverythingCompleted = true;
  const summary: RunSummary = {};
  const drySummary: RunSummary = {};

  for (const metric of metrics) {
    const isDry = dryRuns.has(metric.name);
    const counts = isDry ? drySummary : summary;
    counts.count = (counts.count ?? 0) + 1;
    const result = findResult(status, metric.name);
    if (result === undefined) {
      isEverythingCompleted = false;
      continue;
    }
    const phase = assessMetric(metric, result, terminating);
    if (phase !== result.phase) {
      const text = result.measurements?.at(-1)?.message;
      if (text !== undefined && text !== "") result.message = text;
      result.phase = phase;
    }
    if (!isCompleted(phase)) {
      isEverythingCompleted = false;
      continue;
    }
    const broken = findBrokenLimit(metric, result);
    countOutcome(counts, broken?.phase);
    if (isDry) {
      worst ??= "Successful";
      if (broken !== undefined) result.message = `Metric assessed ${phase} due to ${broken.message}`;
    } else if (worst === undefined || isWorse(worst, phase)) {
      worst = phase;
      if (broken !== undefined) {
        const cause = result.message ? `: "Error Message: ${result.message}"` : "";
        message = `Metric "${metric.name}" assessed ${phase} due to ${broken.message}${cause}`;
      }
    }
  }
  // Go leaves an empty list of results out, and an empty summary; the dry-run summary is a pointer and stays.
  if (summary.count !== undefined) status.runSummary = summary;
  status.dryRunSummary = drySummary;
  if (terminating) return { phase: worst ?? "Successful", message };
  if (!isEverythingCompleted || worst === undefined) return { phase: "Running", message: "" };
  return { phase: worst, message };
}

function countOutcome(counts: RunSummary, phase: RunPhase | undefined): void {
  const field =
    phase === "Error"
      ? "error"
      : phase === "Failed"
        ? "failed"
        : phase === "Inconclusive"
          ? "inconclusive"
          : "successful";
  counts[field] = (counts[field] ?? 0) + 1;
}
