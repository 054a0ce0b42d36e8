import {
  addCounts,
  type Measurement,
  type MeasurementCounts,
  type MetricSummary,
} from "../domain/analysis-run.ts";
import { cutHead, cutText, isPlainObject, readList, readPath, readText } from "./plain-object.ts";

/** How many metrics, and of each how many of its last measurements; tried in turn until the summary fits. */
const SIZES = [
  { metrics: 20, measurements: 10 },
  { metrics: 20, measurements: 4 },
  { metrics: 20, measurements: 1 },
  { metrics: 20, measurements: 0 },
  { metrics: 10, measurements: 0 },
  { metrics: 3, measurements: 0 },
  { metrics: 0, measurements: 0 },
] as const;

const MAX_TEXT = 256;
const MAX_NAME = 253;
const MAX_WORD = 64;
/** Counts are int32 in the AnalysisRun's schema. */
const MAX_COUNT = 2_147_483_647;

/** What of a run's metrics goes into its snapshot. */
interface MetricsInBrief {
  readonly metrics: readonly MetricSummary[];
  readonly omittedMetrics: number;
  readonly omittedCounts?: MeasurementCounts;
}

/** A metric as it was reported: its measurements are not yet cut down, and only read when they are kept. */
interface ReportedMetric extends Omit<MetricSummary, "measurements"> {
  readonly measurements: readonly unknown[];
}

/** Reads `status.metricResults`, tolerating anything; an entry without a name comes back as `undefined`. */
export function readMetrics(value: unknown): readonly (ReportedMetric | undefined)[] {
  return readList(value).map((entry) => {
    const name = readText(readPath(entry, "name"));
    if (name === undefined) return undefined;
    const count = (key: string): number => readCount(readPath(entry, key));
    const message = readText(readPath(entry, "message"));
    return {
      name: cutText(name, MAX_NAME),
      phase: cutHead(readText(readPath(entry, "phase")) ?? "", MAX_WORD),
      ...(message === undefined ? {} : { message: cutText(message, MAX_TEXT) }),
      dryRun: readPath(entry, "dryRun") === true,
      count: count("count"),
      successful: count("successful"),
      failed: count("failed"),
      inconclusive: count("inconclusive"),
      error: count("error"),
      measurements: readList(readPath(entry, "measurements")),
    };
  });
}

/**
 * Cuts metrics down to `room` bytes of JSON: at most 20 of them, those that are not successful first, in their
 * order; of each the last measurements and the first bad one. What is left out is counted, measurements included.
 */
export function summarizeMetrics(
  reported: readonly (ReportedMetric | undefined)[],
  room: number,
): MetricsInBrief {
  for (const size of SIZES) {
    const chosen = selectMetrics(reported, size.metrics);
    const metrics = chosen.map((metric) => ({
      ...metric,
      measurements: selectMeasurements(metric.measurements, size.measurements),
    }));
    const brief = { metrics, ...countOmitted(reported, chosen) };
    if (Buffer.byteLength(JSON.stringify(brief)) <= room) return brief;
  }
  return { metrics: [], ...countOmitted(reported, []) };
}

function countOmitted(
  reported: readonly (ReportedMetric | undefined)[],
  chosen: readonly ReportedMetric[],
): Pick<MetricsInBrief, "omittedMetrics" | "omittedCounts"> {
  const kept = new Set<ReportedMetric | undefined>(chosen);
  const omitted = reported.filter((metric) => !kept.has(metric));
  const named = omitted.filter((metric) => metric !== undefined);
  return {
    omittedMetrics: omitted.length,
    ...(named.length === 0 ? {} : { omittedCounts: addCounts(named) }),
  };
}

function selectMetrics(reported: readonly (ReportedMetric | undefined)[], limit: number): ReportedMetric[] {
  const named = reported.filter((metric) => metric !== undefined);
  if (named.length <= limit) return named;
  const bad = named.filter((metric) => metric.phase !== "Successful");
  const good = named.filter((metric) => metric.phase === "Successful");
  const chosen = new Set([...bad, ...good].slice(0, limit));
  return named.filter((metric) => chosen.has(metric));
}

function selectMeasurements(list: readonly unknown[], last: number): Measurement[] {
  const tail = Math.max(0, list.length - last);
  const hasPhase = (phase: string) => (entry: unknown) => readPath(entry, "phase") === phase;
  const failed = list.findIndex(hasPhase("Failed"));
  const first = failed >= 0 ? failed : list.findIndex(hasPhase("Error"));
  const kept = [...(first >= 0 && first < tail && last > 0 ? [list[first]] : []), ...list.slice(tail)];
  return kept.filter(isPlainObject).map((entry) => {
    const value = readValue(readPath(entry, "value"));
    const message = readText(readPath(entry, "message"));
    const finishedAt = readText(readPath(entry, "finishedAt"));
    return {
      phase: cutHead(readText(readPath(entry, "phase")) ?? "", MAX_WORD),
      ...(value === undefined ? {} : { value: cutText(value, MAX_TEXT) }),
      ...(message === undefined ? {} : { message: cutText(message, MAX_TEXT) }),
      ...(finishedAt === undefined ? {} : { finishedAt: cutHead(finishedAt, MAX_WORD) }),
    };
  });
}

/** A measurement's value is an opaque text (plain, `NaN`, JSON); it is never parsed. */
function readValue(value: unknown): string | undefined {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return readText(value);
}

function readCount(value: unknown): number {
  if (typeof value !== "number" || Number.isNaN(value)) return 0;
  return Math.min(MAX_COUNT, Math.max(0, Math.trunc(value)));
}
