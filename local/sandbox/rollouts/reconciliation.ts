import { formatTime } from "../objects.ts";
import {
  type Argument,
  findResult,
  isCompleted,
  type Measurement,
  type Metric,
  type RunSpec,
  type RunStatus,
} from "./analysis-run.ts";
import { assessRun, isTerminating } from "./assessment.ts";
import {
  findNextTime,
  findTasks,
  type MetricTask,
  recordMeasurement,
  trimMeasurements,
} from "./measuring.ts";
import { measure } from "./providers.ts";
import {
  findDryRuns,
  findRetention,
  maskSecrets,
  resolveMetric,
  validateMetrics,
} from "./spec-validation.ts";

export interface ReconcileContext {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly speed: number;
  readonly signal: AbortSignal;
  /** The decoded data of a Secret in the run's namespace. @throws Error when there is none. */
  readonly readSecret: (name: string) => Promise<Readonly<Record<string, string>>>;
}

export interface ReconcileOutcome {
  readonly status: RunStatus;
  /** When to come again, in epoch milliseconds; `undefined`: when the run changes. */
  readonly nextTime: number | undefined;
}

/**
 * One pass over a run that is not complete: measure what is due, assess, say when to come again. `status` is
 * changed in place.
 *
 * A spec that makes no sense ends the run as `Error` without `completedAt`: Argo Rollouts leaves by another
 * door there, and readers have to live with it.
 */
export async function reconcileRun(
  spec: RunSpec,
  status: RunStatus,
  context: ReconcileContext,
): Promise<ReconcileOutcome> {
  const broken = (message: string): ReconcileOutcome => ({
    status: Object.assign(status, { phase: "Error" as const, message }),
    nextTime: undefined,
  });

  let metrics: readonly Metric[];
  try {
    const args = maskSecrets(spec.args);
    metrics = spec.metrics.map((metric) => resolveMetric(metric, args));
  } catch (error) {
    return broken(`Unable to resolve metric arguments: ${textOf(error)}`);
  }
  let dryRuns: ReadonlySet<string>;
  let retention: ReadonlyMap<string, number>;
  try {
    validateMetrics(metrics);
    dryRuns = findDryRuns(spec, metrics);
    retention = findRetention(spec, metrics);
  } catch (error) {
    return broken(`Analysis spec invalid: ${textOf(error)}`);
  }

  const pace = { now: context.now(), speed: context.speed };
  const tasks = findTasks(metrics, status, spec.terminate, pace);
  try {
    await runTasks(spec, status, tasks, dryRuns, context);
  } catch (error) {
    return broken(`Unable to resolve metric arguments: ${textOf(error)}`);
  }

  status.startedAt ??= formatTime(new Date(context.now()));
  const { phase, message } = assessRun(status, metrics, dryRuns, spec.terminate);
  if (phase !== status.phase) {
    status.phase = phase;
    if (message === "") delete status.message;
    else status.message = message;
    if (isCompleted(phase)) status.completedAt ??= formatTime(new Date(context.now()));
  }
  trimMeasurements(status, retention);
  const isDone = isCompleted(status.phase);
  const after = { now: context.now(), speed: context.speed };
  return { status, nextTime: isDone ? undefined : findNextTime(metrics, status, after) };
}

async function runTasks(
  spec: RunSpec,
  status: RunStatus,
  tasks: readonly MetricTask[],
  dryRuns: ReadonlySet<string>,
  context: ReconcileContext,
): Promise<void> {
  const { args, secrets } = await resolveSecrets(spec.args, context);
  const terminating = isTerminating(status, spec.terminate);
  const taken = await Promise.all(
    tasks.map(async ({ metric, inFlight }): Promise<[MetricTask, Measurement]> => {
      const original = spec.metrics.find((other) => other.name === metric.name) ?? metric;
      const resolved = resolveMetric(original, args);
      const measurement = await measure({
        metric: resolved,
        result: findResult(status, metric.name),
        inFlight,
        terminating,
        now: context.now,
        speed: context.speed,
        signal: context.signal,
      });
      return [{ metric, inFlight }, redact(measurement, secrets)];
    }),
  );
  if (context.signal.aborted) return;
  for (const [task, measurement] of taken) {
    recordMeasurement(status, task, measurement, dryRuns.has(task.metric.name));
  }
}

async function resolveSecrets(
  args: readonly Argument[],
  context: ReconcileContext,
): Promise<{ readonly args: readonly Argument[]; readonly secrets: readonly string[] }> {
  const secrets: string[] = [];
  const resolved: Argument[] = [];
  for (const arg of args) {
    const reference = arg.valueFrom?.secretKeyRef;
    if (reference === undefined) {
      resolved.push(arg);
      continue;
    }
    const value = (await context.readSecret(reference.name))[reference.key];
    if (value === undefined) {
      throw new Error(`key '${reference.key}' does not exist in secret '${reference.name}'`);
    }
    secrets.push(value);
    resolved.push({ name: arg.name, value });
  }
  return { args: resolved, secrets };
}

function redact(measurement: Measurement, secrets: readonly string[]): Measurement {
  if (measurement.message === undefined) return measurement;
  let { message } = measurement;
  for (const secret of secrets) if (secret !== "") message = message.replaceAll(secret, "*****");
  return { ...measurement, message };
}

/** When a complete run may be deleted, in epoch milliseconds, if it has a `ttlStrategy` that says so. */
export function findExpiry(spec: RunSpec, status: RunStatus): number | undefined {
  if (spec.ttlStrategy === undefined || status.completedAt === undefined) return undefined;
  const { secondsAfterSuccess, secondsAfterFailure, secondsAfterCompletion } = spec.ttlStrategy;
  const special =
    status.phase === "Successful"
      ? secondsAfterSuccess
      : status.phase === "Failed"
        ? secondsAfterFailure
        : undefined;
  const seconds = special ?? secondsAfterCompletion;
  return typeof seconds === "number" ? Date.parse(status.completedAt) + seconds * 1000 : undefined;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
