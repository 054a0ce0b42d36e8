import { formatTime, isRecord } from "../objects.ts";
import type { Measurement, Metric, MetricResult, RunPhase } from "./analysis-run.ts";
import { isCompleted } from "./analysis-run.ts";
import { judge } from "./condition.ts";
import { findValue } from "./json-path.ts";

/** The key under `provider.plugin` of the metrics whose outcome the template itself says. */
export const SANDBOX_PLUGIN = "tallyman.dev/sandbox";

/**
 * What a template says about a sandbox metric. The nth measurement comes out as the nth outcome, the last
 * one repeats; `Running` never ends by itself. Without outcomes the metric's conditions judge the value.
 */
interface SandboxScript {
  readonly outcomes: readonly string[];
  readonly values: readonly string[];
  readonly message: string | undefined;
  readonly durationMs: number;
  /** What a measurement in flight becomes when the run is terminated: Argo Rollouts says Successful up to v1.9, then Inconclusive. */
  readonly onTerminate: RunPhase;
}

export interface MeasureRequest {
  readonly metric: Metric;
  readonly result: MetricResult | undefined;
  readonly inFlight: Measurement | undefined;
  readonly terminating: boolean;
  readonly now: () => number;
  readonly speed: number;
  readonly signal: AbortSignal;
}

const OUTCOMES: readonly string[] = ["Successful", "Failed", "Error", "Inconclusive", "Running"];

/** Takes one measurement, or a measurement in flight one step further. It never throws: failures are `Error`. */
export async function measure(request: MeasureRequest): Promise<Measurement> {
  const startedAt = formatTime(new Date(request.now()));
  const base: Measurement = request.inFlight ?? { phase: "Running", startedAt };
  let measurement: Measurement;
  try {
    measurement = await dispatch(request, base);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    measurement = { ...base, phase: "Error", message };
  }
  if (!isCompleted(measurement.phase)) return measurement;
  const { resumeAt: _, ...done } = measurement;
  return { ...done, finishedAt: formatTime(new Date(request.now())) };
}

async function dispatch(request: MeasureRequest, base: Measurement): Promise<Measurement> {
  const { plugin, web } = request.metric.provider;
  if (isRecord(web)) return measureWeb(request, web, base);
  const script = isRecord(plugin) ? plugin[SANDBOX_PLUGIN] : undefined;
  if (script !== undefined) return followScript(request, readScript(script), base);
  const name = isRecord(plugin)
    ? `plugin ${Object.keys(plugin).join(", ")}`
    : Object.keys(request.metric.provider).join(", ");
  throw new Error(`the sandbox does not simulate the provider ${name}: use web or ${SANDBOX_PLUGIN}`);
}

function readScript(given: unknown): SandboxScript {
  const script = isRecord(given) ? given : {};
  const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
  const outcomes = texts(script.outcomes);
  const unknown = outcomes.find((outcome) => !OUTCOMES.includes(outcome));
  if (unknown !== undefined) throw new Error(`unknown outcome ${JSON.stringify(unknown)}`);
  const single = script.value === undefined ? [] : [String(script.value)];
  const values = texts(script.values);
  return {
    outcomes,
    values: values.length > 0 ? values : single,
    message: typeof script.message === "string" ? script.message : undefined,
    durationMs: Math.max(0, Number(script.durationMs ?? 0)) || 0,
    onTerminate: script.onTerminate === "Inconclusive" ? "Inconclusive" : "Successful",
  };
}

function followScript(request: MeasureRequest, script: SandboxScript, base: Measurement): Measurement {
  const { inFlight, result, terminating } = request;
  if (inFlight !== undefined && terminating) {
    return { ...base, phase: script.onTerminate, message: "Metric Terminated" };
  }
  const number = (result?.count ?? 0) + (result?.error ?? 0);
  const pick = (list: readonly string[]): string | undefined => list[number] ?? list.at(-1);
  const outcome = pick(script.outcomes);
  if (outcome === "Running") return { ...base, phase: "Running" };
  if (inFlight === undefined && script.durationMs > 0) {
    const end = new Date(request.now() + script.durationMs / request.speed);
    return { ...base, phase: "Running", resumeAt: end.toISOString() };
  }
  const value = pick(script.values);
  const phase = (outcome as RunPhase | undefined) ?? judge(request.metric, readJson(value ?? ""));
  const bad = phase === "Error" || phase === "Failed";
  return {
    ...base,
    phase,
    ...(value === undefined ? {} : { value }),
    ...(script.message !== undefined && bad ? { message: script.message } : {}),
  };
}

async function measureWeb(
  request: MeasureRequest,
  web: Readonly<Record<string, unknown>>,
  base: Measurement,
): Promise<Measurement> {
  const url = URL.parse(String(web.url ?? ""));
  if (url === null) throw new Error(`unsupported URL ${JSON.stringify(web.url)}`);
  // A sandbox has no business on the network.
  if (!/^(127(\.\d{1,3}){3}|localhost|\[::1\])$/.test(url.hostname)) {
    throw new Error(`the sandbox measures on loopback only, not on ${url.hostname}`);
  }
  const method = typeof web.method === "string" && web.method !== "" ? web.method : "GET";
  const body = web.jsonBody === undefined ? web.body : JSON.stringify(web.jsonBody);
  const headers = Array.isArray(web.headers) ? web.headers.filter(isRecord) : [];
  const seconds = Number(web.timeoutSeconds ?? 0) > 0 ? Number(web.timeoutSeconds) : 10;
  const response = await fetch(url, {
    method,
    headers: headers.map((header): [string, string] => [String(header.key), String(header.value)]),
    signal: AbortSignal.any([request.signal, AbortSignal.timeout(seconds * 1000)]),
    ...(typeof body === "string" && body !== "" ? { body } : {}),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`received non 2xx response code: ${response.status}`);
  const json = readJson(text);
  if (json === text) return { ...base, phase: judge(request.metric, text), value: text };
  const path = typeof web.jsonPath === "string" && web.jsonPath !== "" ? web.jsonPath : "{$}";
  const value = findValue(path, json);
  return { ...base, phase: judge(request.metric, value), value: JSON.stringify(sortKeys(value)) };
}

/** Go writes the keys of a map in order. */
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]));
}

/** What is no JSON stays the text it is. */
function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
