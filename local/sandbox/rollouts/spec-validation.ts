import type { Argument, Metric, RunSpec } from "./analysis-run.ts";
import { readInt } from "./analysis-run.ts";
import { parseDuration } from "./duration.ts";

/**
 * Puts arguments in the place of `{{args.name}}` everywhere in a metric.
 *
 * @throws Error in Argo Rollouts' words, for an argument without a value and for a name nobody declared.
 */
export function resolveMetric(metric: Metric, args: readonly Argument[]): Metric {
  const values = new Map<string, string>();
  for (const arg of args) {
    if (arg.value === undefined) throw new Error(`argument "${arg.name}" was not supplied`);
    values.set(`args.${arg.name}`, arg.value);
  }
  let unresolved: string | undefined;
  const text = JSON.stringify(metric).replace(/\{\{(.*?)\}\}/g, (_, tag: string) => {
    const value = values.get(tag.trim());
    if (value === undefined) unresolved = tag;
    // The value lands inside a JSON string.
    return JSON.stringify(value ?? "").slice(1, -1);
  });
  if (unresolved !== undefined) throw new Error(`failed to resolve {{${unresolved}}}`);
  return JSON.parse(text) as Metric;
}

/** Arguments for a first look at the metrics: a secret's value is not needed to see whether they make sense. */
export function maskSecrets(args: readonly Argument[]): readonly Argument[] {
  return args.map((arg) =>
    arg.valueFrom?.secretKeyRef === undefined ? arg : { name: arg.name, value: "temp-for-secret" },
  );
}

/** @throws Error in Argo Rollouts' words when the metrics make no sense. */
export function validateMetrics(metrics: readonly Metric[]): void {
  if (metrics.length === 0) throw new Error("no metrics specified");
  const names = new Set<string>();
  for (const [index, metric] of metrics.entries()) {
    if (names.has(metric.name)) throw new Error(`metrics[${index}]: duplicate name '${metric.name}'`);
    names.add(metric.name);
    const problem = findProblem(metric);
    if (problem !== undefined) throw new Error(`metrics[${index}]: ${problem}`);
  }
}

function findProblem(metric: Metric): string | undefined {
  return findLimitProblem(metric) ?? findDurationProblem(metric) ?? findProviderProblem(metric);
}

function findLimitProblem(metric: Metric): string | undefined {
  const count = readInt(metric.count);
  const failures = readInt(metric.failureLimit);
  const successes = readInt(metric.consecutiveSuccessLimit);
  const inconclusive = readInt(metric.inconclusiveLimit);
  if (successes < 0) return "consecutiveSuccessLimit must be >= 0";
  if (failures < -1) return "failureLimit must be >= 0, or -1 to be disabled";
  if (successes === 0 && failures === -1) {
    return "failureLimit and consecutiveSuccessLimit cannot both be disabled";
  }
  if (inconclusive < 0) return "inconclusiveLimit must be >= 0";
  if (readInt(metric.consecutiveErrorLimit) < 0) return "consecutiveErrorLimit must be >= 0";
  if (count <= 0) return undefined;
  if (failures >= 0 && count < failures + successes) {
    return `count (${count}) must be >= failureLimit + consecutiveSuccessLimit (${failures} + ${successes}) if both >= 0`;
  }
  if (failures < 0 && count < successes) return "count must be >= consecutiveSuccessLimit";
  return count < inconclusive ? "count must be >= inconclusiveLimit" : undefined;
}

function findDurationProblem(metric: Metric): string | undefined {
  const { interval = "", initialDelay = "" } = metric;
  if (readInt(metric.count) > 1 && interval === "") return "interval must be specified when count > 1";
  for (const [text, name] of [
    [interval, "interval"],
    [initialDelay, "startDelay"],
  ] as const) {
    if (text === "") continue;
    try {
      parseDuration(text);
    } catch (error) {
      return `invalid ${name} string: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return undefined;
}

function findProviderProblem(metric: Metric): string | undefined {
  const { plugin, ...others } = metric.provider ?? {};
  const plugins = typeof plugin === "object" && plugin !== null ? Object.keys(plugin).length : 0;
  const providers = Object.values(others).filter((p) => p !== undefined && p !== null).length + plugins;
  if (providers === 0) return "no provider specified";
  return providers > 1 ? "multiple providers specified" : undefined;
}

/** Rules name metrics by regular expression; one that matches none is an error. */
function matchRules<T extends { readonly metricName: string }>(
  field: string,
  rules: readonly T[],
  metrics: readonly Metric[],
): Map<string, T> {
  const matched = new Map<string, T>();
  for (const [index, rule] of rules.entries()) {
    const pattern = new RegExp(rule.metricName);
    const names = metrics.map((metric) => metric.name).filter((name) => pattern.test(name));
    if (names.length === 0) throw new Error(`${field}[${index}]: Rule didn't match any metric name(s)`);
    for (const name of names) matched.set(name, rule);
  }
  return matched;
}

/** The metrics whose results do not count. @throws Error for a rule that matches nothing. */
export function findDryRuns(spec: RunSpec, metrics: readonly Metric[]): ReadonlySet<string> {
  return new Set(matchRules("dryRun", spec.dryRun, metrics).keys());
}

/** How many measurements to keep, by metric, where a rule says so. @throws Error as `findDryRuns`. */
export function findRetention(spec: RunSpec, metrics: readonly Metric[]): ReadonlyMap<string, number> {
  const rules = matchRules("measurementRetention", spec.measurementRetention, metrics);
  return new Map([...rules].map(([name, rule]) => [name, rule.limit]));
}
