import {
  countEffectively,
  findResult,
  isCompleted,
  lastMeasurement,
  type Measurement,
  type Metric,
  type MetricResult,
  type RunStatus,
} from "./analysis-run.ts";
import { isTerminating } from "./assessment.ts";
import { parseDuration } from "./duration.ts";

/** After an error a metric is measured again this soon, whatever its interval. */
const ERROR_RETRY_MS = 10_000;
/** Measurements kept a metric, unless a retention rule says otherwise. */
const KEPT_MEASUREMENTS = 10;

/** A measurement to take, or one in flight to take further. */
export interface MetricTask {
  readonly metric: Metric;
  readonly inFlight: Measurement | undefined;
}

/** How time passes for a run: with `speed` 10 a `1m` interval takes 6 seconds. */
export interface Pace {
  readonly now: number;
  readonly speed: number;
}

/** When the next measurement of a metric is due, in epoch milliseconds; `undefined`: not by itself. */
function findDueTime(metric: Metric, status: RunStatus, pace: Pace): number | undefined {
  const result = findResult(status, metric.name);
  if (isCompleted(result?.phase)) return undefined;
  const last = lastMeasurement(status, metric.name);
  if (last === undefined) {
    const delay = metric.initialDelay ?? "";
    if (delay === "") return pace.now;
    // The delay counts from the run's start, which the first pass over it sets.
    const start = status.startedAt === undefined ? pace.now : Date.parse(status.startedAt);
    return start + parseDuration(delay) / pace.speed;
  }
  if (last.finishedAt === undefined) {
    return last.resumeAt === undefined ? undefined : Date.parse(last.resumeAt);
  }
  const count = countEffectively(metric);
  if (count !== undefined && (result?.count ?? 0) >= count) return undefined;
  const interval = metric.interval ?? "";
  if (last.phase !== "Error" && interval === "") return undefined;
  const pause = last.phase === "Error" ? ERROR_RETRY_MS : parseDuration(interval);
  return Date.parse(last.finishedAt) + pause / pace.speed;
}

/** What there is to measure now. */
export function findTasks(
  metrics: readonly Metric[],
  status: RunStatus,
  terminate: boolean,
  pace: Pace,
): readonly MetricTask[] {
  const terminating = isTerminating(status, terminate);
  return metrics.flatMap((metric): MetricTask[] => {
    if (isCompleted(findResult(status, metric.name)?.phase)) return [];
    const last = lastMeasurement(status, metric.name);
    const inFlight = last !== undefined && last.finishedAt === undefined ? last : undefined;
    if (terminating) return inFlight === undefined ? [] : [{ metric, inFlight }];
    // The very first pass only starts the clock of a metric with a delay.
    if (last === undefined && metric.initialDelay && status.startedAt === undefined) return [];
    const due = findDueTime(metric, status, pace);
    return due !== undefined && due <= pace.now ? [{ metric, inFlight }] : [];
  });
}

/** When to look at the run again, in epoch milliseconds; `undefined`: when it changes. */
export function findNextTime(metrics: readonly Metric[], status: RunStatus, pace: Pace): number | undefined {
  const times = metrics.flatMap((metric) => findDueTime(metric, status, pace) ?? []);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Puts a measurement into the results, in place, and counts it once it is complete. */
export function recordMeasurement(
  status: RunStatus,
  task: MetricTask,
  measurement: Measurement,
  isDryRun: boolean,
): void {
  const { name } = task.metric;
  let result = findResult(status, name);
  if (result === undefined) {
    result = { name, phase: "Running", ...(isDryRun ? { dryRun: true } : {}) };
    status.metricResults = [...(status.metricResults ?? []), result];
  }
  const earlier = result.measurements ?? [];
  result.measurements = [...(task.inFlight === undefined ? earlier : earlier.slice(0, -1)), measurement];
  if (isCompleted(measurement.phase)) count(result, measurement);
}

function count(result: MetricResult, measurement: Measurement): void {
  const more = (value: number | undefined): number => (value ?? 0) + 1;
  if (measurement.phase === "Error") {
    result.error = more(result.error);
    result.consecutiveError = more(result.consecutiveError);
    delete result.consecutiveSuccess;
    return;
  }
  result.count = more(result.count);
  delete result.consecutiveError;
  if (measurement.phase === "Successful") {
    result.successful = more(result.successful);
    result.consecutiveSuccess = more(result.consecutiveSuccess);
    return;
  }
  delete result.consecutiveSuccess;
  if (measurement.phase === "Failed") result.failed = more(result.failed);
  else result.inconclusive = more(result.inconclusive);
}

/** Forgets the oldest measurements, in place; the counts stay. */
export function trimMeasurements(status: RunStatus, retention: ReadonlyMap<string, number>): void {
  for (const result of status.metricResults ?? []) {
    const rule = retention.get(result.name) ?? 0;
    const limit = rule > 0 ? rule : KEPT_MEASUREMENTS;
    if (result.measurements !== undefined) result.measurements = result.measurements.slice(-limit);
  }
}
