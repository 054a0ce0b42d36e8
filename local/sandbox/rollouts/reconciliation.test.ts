import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCompleted, type RunStatus, readSpec } from "./analysis-run.ts";
import { SANDBOX_PLUGIN } from "./providers.ts";
import { findExpiry, reconcileRun } from "./reconciliation.ts";

const START = Date.parse("2026-01-01T00:00:00Z");

interface World {
  now: number;
  readonly secrets: Readonly<Record<string, Record<string, string>>>;
}

function script(outcomes: readonly string[], more: object = {}): object {
  return { plugin: { [SANDBOX_PLUGIN]: { outcomes, ...more } } };
}

/** One pass; the status comes back as it would be read from the API server. */
async function pass(
  spec: object,
  status: RunStatus,
  world: World,
): Promise<{ status: RunStatus; next?: number }> {
  const outcome = await reconcileRun(readSpec({ spec }), structuredClone(status), {
    now: () => world.now,
    speed: 1,
    signal: new AbortController().signal,
    readSecret: async (name) => {
      const data = world.secrets[name];
      if (data === undefined) throw new Error(`secrets "${name}" not found`);
      return data;
    },
  });
  const { nextTime } = outcome;
  return { status: outcome.status, ...(nextTime === undefined ? {} : { next: nextTime }) };
}

/** Passes until the run is complete or nothing is left to wait for, as the controller makes them. */
async function runOn(spec: object, secrets: World["secrets"] = {}): Promise<RunStatus & { seconds: number }> {
  const world: World = { now: START, secrets };
  let status: RunStatus = {};
  for (let passes = 0; passes < 200; passes++) {
    const before = JSON.stringify(status);
    const outcome = await pass(spec, status, world);
    status = outcome.status;
    if (isCompleted(status.phase)) break;
    // The controller comes again for its own status write, and else when it is time.
    if (JSON.stringify(status) !== before) continue;
    if (outcome.next === undefined) break;
    world.now = Math.max(world.now, outcome.next);
  }
  return { ...status, seconds: (world.now - START) / 1000 };
}

describe("a run", () => {
  it("with one good measurement is Successful at once, with counts and times", async () => {
    const run = await runOn({
      metrics: [{ name: "rate", provider: script(["Successful"], { value: "0.97" }) }],
    });
    expect(run).toEqual({
      phase: "Successful",
      startedAt: "2026-01-01T00:00:00Z",
      completedAt: "2026-01-01T00:00:00Z",
      runSummary: { count: 1, successful: 1 },
      dryRunSummary: {},
      metricResults: [
        {
          name: "rate",
          phase: "Successful",
          count: 1,
          successful: 1,
          consecutiveSuccess: 1,
          measurements: [
            {
              phase: "Successful",
              value: "0.97",
              startedAt: "2026-01-01T00:00:00Z",
              finishedAt: "2026-01-01T00:00:00Z",
            },
          ],
        },
      ],
      seconds: 0,
    });
  });

  it("is Running in between, and takes count measurements an interval apart", async () => {
    const metric = { name: "rate", count: "3", interval: "1m", provider: script(["Successful"]) };
    const first = await pass({ metrics: [metric] }, {}, { now: START, secrets: {} });
    expect(first.status.phase).toBe("Running");
    expect(first.next).toBe(START + 60_000);
    const run = await runOn({ metrics: [metric] });
    expect(run).toMatchObject({ phase: "Successful", seconds: 120 });
    expect(run.metricResults?.[0]?.count).toBe(3);
  });

  it("fails as soon as failures pass the limit", async () => {
    const provider = script(["Successful", "Failed", "Failed", "Successful"], { message: "too slow" });
    const run = await runOn({
      metrics: [{ name: "rate", count: 4, interval: "10s", failureLimit: 1, provider }],
    });
    expect(run).toMatchObject({
      phase: "Failed",
      message:
        'Metric "rate" assessed Failed due to failed (2) > failureLimit (1): "Error Message: too slow"',
      seconds: 20,
      runSummary: { count: 1, failed: 1 },
    });
  });

  it("is inconclusive past the inconclusive limit", async () => {
    const run = await runOn({ metrics: [{ name: "rate", provider: script(["Inconclusive"]) }] });
    expect(run).toMatchObject({
      phase: "Inconclusive",
      message: 'Metric "rate" assessed Inconclusive due to inconclusive (1) > inconclusiveLimit (0)',
    });
  });

  it("retries errors ten seconds apart and is Error after the fifth in a row", async () => {
    const run = await runOn({ metrics: [{ name: "rate", provider: script(["Error"]) }] });
    expect(run).toMatchObject({ phase: "Error", seconds: 40 });
    expect(run.message).toContain("consecutiveErrors (5) > consecutiveErrorLimit (4)");
    expect(run.metricResults?.[0]).toMatchObject({ error: 5, consecutiveError: 5 });
  });

  it("forgives errors that a success follows", async () => {
    const run = await runOn({
      metrics: [{ name: "rate", provider: script(["Error", "Error", "Successful"]) }],
    });
    expect(run).toMatchObject({ phase: "Successful", seconds: 20 });
  });

  it("ends its other metrics when one goes bad", async () => {
    const metrics = [
      { name: "slow", provider: script(["Running"]) },
      { name: "bad", provider: script(["Failed"]) },
    ];
    const run = await runOn({ metrics });
    expect(run.phase).toBe("Failed");
    expect(run.metricResults?.find((result) => result.name === "slow")).toMatchObject({
      phase: "Successful",
      message: "Metric Terminated",
    });
  });

  it("is not harmed by a dry-run metric, which is counted apart", async () => {
    const metrics = [
      { name: "good", provider: script(["Successful"]) },
      { name: "tried-out", provider: script(["Failed"]) },
    ];
    const run = await runOn({ metrics, dryRun: [{ metricName: "tried-.*" }] });
    expect(run).toMatchObject({
      phase: "Successful",
      runSummary: { count: 1, successful: 1 },
      dryRunSummary: { count: 1, failed: 1 },
    });
    expect(run).not.toHaveProperty("message");
    expect(run.metricResults?.[1]).toMatchObject({
      dryRun: true,
      message: "Metric assessed Failed due to failed (1) > failureLimit (0)",
    });
  });

  it("waits for an initial delay, counted from its start", async () => {
    const run = await runOn({
      metrics: [{ name: "late", initialDelay: "30s", provider: script(["Successful"]) }],
    });
    expect(run).toMatchObject({ phase: "Successful", startedAt: "2026-01-01T00:00:00Z", seconds: 30 });
  });

  it("has a measurement in flight while it lasts", async () => {
    const spec = { metrics: [{ name: "slow", provider: script(["Failed"], { durationMs: 5000 }) }] };
    const { status } = await pass(spec, {}, { now: START, secrets: {} });
    expect(status).toMatchObject({ phase: "Running", metricResults: [{ phase: "Running" }] });
    expect(status.metricResults?.[0]?.measurements?.[0]).not.toHaveProperty("finishedAt");
    const run = await runOn(spec);
    expect(run).toMatchObject({ phase: "Failed", seconds: 5 });
    expect(run.metricResults?.[0]?.measurements?.[0]).not.toHaveProperty("resumeAt");
  });

  it("keeps ten measurements, or as many as a rule says, and all counts", async () => {
    const metric = { name: "rate", count: 14, interval: "1s", provider: script(["Successful"]) };
    const run = await runOn({ metrics: [metric] });
    expect(run.metricResults?.[0]).toMatchObject({ count: 14 });
    expect(run.metricResults?.[0]?.measurements).toHaveLength(10);
    const kept = await runOn({ metrics: [metric], measurementRetention: [{ metricName: "rate", limit: 2 }] });
    expect(kept.metricResults?.[0]?.measurements).toHaveLength(2);
  });

  it("is Inconclusive when it had too few successes in a row", async () => {
    const provider = script(["Successful", "Failed", "Successful"]);
    const metric = {
      name: "rate",
      count: 3,
      interval: "1s",
      failureLimit: 1,
      consecutiveSuccessLimit: 2,
      provider,
    };
    expect((await runOn({ metrics: [metric] })).phase).toBe("Inconclusive");
  });
});

describe("terminate", () => {
  it("makes a run without any measurement Successful, with the message Run Terminated", async () => {
    const metrics = [{ name: "late", initialDelay: "1h", provider: script(["Failed"]) }];
    expect(await runOn({ metrics, terminate: true })).toMatchObject({
      phase: "Successful",
      message: "Run Terminated",
      completedAt: "2026-01-01T00:00:00Z",
    });
  });

  it.each([
    ["Successful", "Successful"],
    ["Inconclusive", "Inconclusive"],
  ])("turns a measurement in flight into %s where the provider says so", async (onTerminate, phase) => {
    const metrics = [{ name: "slow", provider: script(["Running"], { onTerminate }) }];
    const { status } = await pass({ metrics }, {}, { now: START, secrets: {} });
    const ended = await pass({ metrics, terminate: true }, status, { now: START, secrets: {} });
    expect(ended.status.phase).toBe(phase);
  });

  it("leaves what was bad already", async () => {
    const metrics = [
      { name: "slow", provider: script(["Running"]) },
      { name: "bad", provider: script(["Failed"]) },
    ];
    const { status } = await pass({ metrics }, {}, { now: START, secrets: {} });
    const ended = await pass({ metrics, terminate: true }, status, { now: START, secrets: {} });
    expect(ended.status.phase).toBe("Failed");
  });
});

describe("a spec that makes no sense", () => {
  const good = { name: "rate", provider: script(["Successful"]) };
  it.each([
    [{ metrics: [] }, "Analysis spec invalid: no metrics specified"],
    [{ metrics: [good, good] }, "Analysis spec invalid: metrics[1]: duplicate name 'rate'"],
    [{ metrics: [{ name: "a", provider: {} }] }, "Analysis spec invalid: metrics[0]: no provider specified"],
    [
      { metrics: [{ name: "a", provider: { web: {}, job: {} } }] },
      "Analysis spec invalid: metrics[0]: multiple providers specified",
    ],
    [
      { metrics: [{ ...good, count: 2 }] },
      "Analysis spec invalid: metrics[0]: interval must be specified when count > 1",
    ],
    [
      { metrics: [{ ...good, interval: "soon" }] },
      'Analysis spec invalid: metrics[0]: invalid interval string: time: invalid duration "soon"',
    ],
    [
      { metrics: [good], dryRun: [{ metricName: "other" }] },
      "Analysis spec invalid: dryRun[0]: Rule didn't match any metric name(s)",
    ],
    [
      { metrics: [good], args: [{ name: "url" }] },
      'Unable to resolve metric arguments: argument "url" was not supplied',
    ],
    [
      { metrics: [{ ...good, successCondition: "result > {{args.x}}" }] },
      "Unable to resolve metric arguments: failed to resolve {{args.x}}",
    ],
    [
      { metrics: [good], args: [{ name: "k", valueFrom: { secretKeyRef: { name: "s", key: "k" } } }] },
      'Unable to resolve metric arguments: secrets "s" not found',
    ],
  ])("%j is Error without completedAt", async (spec, message) => {
    const run = await runOn(spec);
    expect(run).toMatchObject({ phase: "Error", message });
    expect(run).not.toHaveProperty("completedAt");
  });
});

describe("arguments", () => {
  it("reach every text of a metric, secrets included, which messages hide", async () => {
    const provider = script(["{{args.outcome}}"], {
      message: "token {{args.token}} refused",
      value: 'a"{{args.n}}',
    });
    const args = [
      { name: "outcome", value: "Failed" },
      { name: "n", value: 'line"\n2' },
      { name: "token", valueFrom: { secretKeyRef: { name: "key", key: "token" } } },
    ];
    const run = await runOn({ metrics: [{ name: "rate", provider }], args }, { key: { token: "hush" } });
    expect(run.metricResults?.[0]?.measurements?.[0]).toMatchObject({
      phase: "Failed",
      value: 'a"line"\n2',
      message: "token ***** refused",
    });
  });
});

describe("any run", () => {
  const outcome = fc.constantFrom("Successful", "Failed", "Error", "Inconclusive");
  const metric = fc.record({
    outcomes: fc.array(outcome, { minLength: 1, maxLength: 5 }),
    count: fc.integer({ min: 1, max: 4 }),
    failureLimit: fc.integer({ min: 0, max: 1 }),
    durationMs: fc.constantFrom(0, 1500),
  });

  it("ends, its counts are the sums of its measurements, and a terminal status never changes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(metric, { minLength: 1, maxLength: 3 }), async (plans) => {
        const metrics = plans.map(({ outcomes, count, failureLimit, durationMs }, index) => ({
          name: `m${index}`,
          count: Math.max(count, failureLimit),
          interval: "5s",
          failureLimit,
          provider: script(outcomes, { durationMs }),
        }));
        const { seconds: _, ...run } = await runOn({ metrics });
        expect(isCompleted(run.phase)).toBe(true);
        expect(run.completedAt).toBeDefined();
        for (const result of run.metricResults ?? []) {
          const { successful = 0, failed = 0, inconclusive = 0, error = 0 } = result;
          expect(result.count ?? 0).toBe(successful + failed + inconclusive);
          const taken = successful + failed + inconclusive + error;
          expect(result.measurements).toHaveLength(Math.min(taken, 10));
          expect(result.measurements?.every((m) => m.finishedAt !== undefined)).toBe(true);
        }
        const { count, successful = 0, failed = 0, inconclusive = 0, error = 0 } = run.runSummary ?? {};
        expect(count).toBe(metrics.length);
        expect(successful + failed + inconclusive + error).toBeLessThanOrEqual(metrics.length);
        expect(run.phase === "Successful").toBe(failed + inconclusive + error === 0);
      }),
      { numRuns: 60 },
    );
  });
});

describe("ttlStrategy", () => {
  const at = (seconds: number): number => START + seconds * 1000;
  const status = { completedAt: "2026-01-01T00:00:00Z" } as const;
  const ttlStrategy = { secondsAfterSuccess: 10, secondsAfterFailure: 20, secondsAfterCompletion: 30 };

  it.each([
    ["Successful", at(10)],
    ["Failed", at(20)],
    ["Error", at(30)],
  ] as const)("of a run that is %s", (phase, expected) => {
    expect(findExpiry(readSpec({ spec: { ttlStrategy } }), { ...status, phase })).toBe(expected);
  });

  it("needs completedAt", () => {
    expect(findExpiry(readSpec({ spec: { ttlStrategy } }), { phase: "Error" })).toBeUndefined();
  });
});
