import { isRecord } from "../objects.ts";

/** Go's IntOrString: `3` and `"3"` are the same. */
export type IntOrString = number | string;

export interface Metric {
  readonly name: string;
  readonly interval?: string;
  readonly initialDelay?: string;
  readonly count?: IntOrString;
  readonly successCondition?: string;
  readonly failureCondition?: string;
  readonly failureLimit?: IntOrString;
  readonly inconclusiveLimit?: IntOrString;
  readonly consecutiveErrorLimit?: IntOrString;
  readonly consecutiveSuccessLimit?: IntOrString;
  readonly provider: Readonly<Record<string, unknown>>;
}

export interface Argument {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } };
}

export interface RunSpec {
  readonly metrics: readonly Metric[];
  readonly args: readonly Argument[];
  readonly dryRun: readonly { readonly metricName: string }[];
  readonly measurementRetention: readonly { readonly metricName: string; readonly limit: number }[];
  readonly terminate: boolean;
  readonly ttlStrategy: Readonly<Record<string, unknown>> | undefined;
}

export type RunPhase = "Pending" | "Running" | "Successful" | "Failed" | "Error" | "Inconclusive";

export interface Measurement {
  phase: RunPhase;
  message?: string;
  startedAt?: string;
  finishedAt?: string;
  value?: string;
  resumeAt?: string;
}

export interface MetricResult {
  name: string;
  phase: RunPhase;
  measurements?: Measurement[];
  message?: string;
  count?: number;
  successful?: number;
  failed?: number;
  inconclusive?: number;
  error?: number;
  consecutiveError?: number;
  consecutiveSuccess?: number;
  dryRun?: boolean;
}

export interface RunSummary {
  count?: number;
  successful?: number;
  failed?: number;
  inconclusive?: number;
  error?: number;
}

export interface RunStatus {
  phase?: RunPhase | "";
  message?: string;
  metricResults?: MetricResult[];
  startedAt?: string;
  completedAt?: string;
  runSummary?: RunSummary;
  dryRunSummary?: RunSummary;
}

/** Failed, Error, Inconclusive and Successful are final, for runs, metrics and measurements alike. */
export function isCompleted(phase: string | undefined): boolean {
  return phase === "Successful" || phase === "Failed" || phase === "Error" || phase === "Inconclusive";
}

/** As Go's IntValue: what is no number counts as 0. */
export function readInt(value: IntOrString | undefined): number {
  const number = Number(value ?? 0);
  return Number.isSafeInteger(number) ? number : 0;
}

/** How many measurements a metric takes; `undefined`: as long as the run goes on. */
export function countEffectively(metric: Metric): number | undefined {
  const count = readInt(metric.count);
  if (count !== 0) return count;
  return metric.interval === undefined || metric.interval === "" ? 1 : undefined;
}

export function findResult(status: RunStatus, name: string): MetricResult | undefined {
  return status.metricResults?.find((result) => result.name === name);
}

export function lastMeasurement(status: RunStatus, name: string): Measurement | undefined {
  return findResult(status, name)?.measurements?.at(-1);
}

function list<T>(value: unknown): readonly T[] {
  return Array.isArray(value) ? (value as T[]) : [];
}

/** The parts of `spec` that count, with the lists that may be left out. */
export function readSpec(object: unknown): RunSpec {
  const spec = isRecord(object) && isRecord(object.spec) ? object.spec : {};
  return {
    metrics: list(spec.metrics),
    args: list(spec.args),
    dryRun: list(spec.dryRun),
    measurementRetention: list(spec.measurementRetention),
    terminate: spec.terminate === true,
    ttlStrategy: isRecord(spec.ttlStrategy) ? spec.ttlStrategy : undefined,
  };
}

/** A copy of `status` to work on. */
export function draftStatus(object: unknown): RunStatus {
  const status = isRecord(object) && isRecord(object.status) ? object.status : {};
  return structuredClone(status) as RunStatus;
}
