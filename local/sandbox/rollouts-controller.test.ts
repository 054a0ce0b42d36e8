import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../shared/runtime/clock.ts";
import { readPath } from "./objects.ts";
import { SANDBOX_PLUGIN } from "./rollouts/providers.ts";
import { type RolloutsController, startRolloutsController } from "./rollouts-controller.ts";
import { type SandboxCluster, startSandboxCluster } from "./sandbox-cluster.ts";
import { createTestClient, makeRun, RUNS, type TestClient, type WatchReader } from "./test-client.ts";

/** A clock that stands still until a test moves it. */
class ManualClock implements Clock {
  #now = Date.parse("2026-01-01T00:00:00Z");
  #sleepers: { readonly until: number; readonly wake: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      this.#sleepers.push({ until: this.#now + ms, wake: resolve });
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  advance(ms: number): void {
    this.#now += ms;
    const due = this.#sleepers.filter((sleeper) => sleeper.until <= this.#now);
    this.#sleepers = this.#sleepers.filter((sleeper) => sleeper.until > this.#now);
    for (const sleeper of due) sleeper.wake();
  }
}

let cluster: SandboxCluster;
let client: TestClient;
let clock: ManualClock;
let controllers: RolloutsController[] = [];
let reader: WatchReader;

beforeEach(async () => {
  cluster = await startSandboxCluster();
  client = createTestClient(cluster.url);
  clock = new ManualClock();
  reader = await client.watch(`${RUNS}?watch=true`);
});

afterEach(async () => {
  await Promise.all(controllers.map((controller) => controller.stop()));
  controllers = [];
  reader.close();
  client.close();
  await cluster.stop();
});

function start(options: { readonly instanceId?: string } = {}): RolloutsController {
  const controller = startRolloutsController({ url: cluster.url, clock, ...options });
  controllers.push(controller);
  return controller;
}

/** Waits for the watch to show the run as asked. */
async function until(name: string, path: readonly string[], value: unknown): Promise<unknown> {
  for (;;) {
    const event = await reader.next();
    if (event === undefined) throw new Error("the watch has ended");
    if (readPath(event.object, ["metadata", "name"]) !== name) continue;
    if (event.type !== "DELETED" && readPath(event.object, path) === value) return event.object;
    if (event.type === value) return event.object;
  }
}

const phase = ["status", "phase"];
const script = (outcomes: readonly string[], more: object = {}): object => ({
  name: "rate",
  provider: { plugin: { [SANDBOX_PLUGIN]: { outcomes } } },
  ...more,
});

describe("the Rollouts controller", () => {
  it("runs what it finds and what comes", async () => {
    await client.call("POST", RUNS, makeRun("before", [script(["Successful"])]));
    start();
    await until("before", phase, "Successful");
    await client.call("POST", RUNS, makeRun("after", [script(["Failed"])]));
    await until("after", phase, "Failed");
  });

  it("measures at the interval", async () => {
    start();
    await client.call("POST", RUNS, makeRun("run", [script(["Successful"], { count: 2, interval: "1m" })]));
    await until("run", phase, "Running");
    // The timer may be set a moment after the status was written: time is moved until it has run out.
    const ticking = setInterval(() => clock.advance(30_000), 5);
    await until("run", phase, "Successful");
    clearInterval(ticking);
  });

  it("ends a run on spec.terminate", async () => {
    start();
    await client.call("POST", RUNS, makeRun("run", [script(["Running"])]));
    await until("run", phase, "Running");
    await client.call("PATCH", `${RUNS}/run`, { spec: { terminate: true } });
    const run = await until("run", phase, "Successful");
    expect(readPath(run, ["status", "message"])).toBe("Run Terminated");
  });

  it("takes up where another controller was stopped", async () => {
    const first = start();
    await client.call(
      "POST",
      RUNS,
      makeRun("run", [script(["Failed", "Successful"], { failureLimit: 1, count: 2, interval: "1m" })]),
    );
    await until("run", phase, "Running");
    await first.stop();
    clock.advance(60_000);
    start();
    const run = await until("run", phase, "Successful");
    expect(readPath(run, ["status", "metricResults", "0"])).toBeUndefined();
    expect(run).toMatchObject({ status: { metricResults: [{ count: 2, failed: 1, successful: 1 }] } });
  });

  it("survives outages, dropped watches and compaction", async () => {
    start();
    await client.call("POST", RUNS, makeRun("one", [script(["Successful"])]));
    await until("one", phase, "Successful");
    cluster.faults.respond(503, 2, ({ path }) => path.startsWith("/apis/argoproj.io/v1alpha1/analysisruns"));
    cluster.faults.expireWatches();
    reader = await client.watch(`${RUNS}?watch=true`);
    const ticking = setInterval(() => clock.advance(1000), 5);
    await client.call("POST", RUNS, makeRun("two", [script(["Successful"])]));
    await until("two", phase, "Successful");
    clearInterval(ticking);
  });

  it("tries a status write again that was refused", async () => {
    cluster.faults.respond(503, 1, ({ method }) => method === "PATCH");
    start();
    await client.call("POST", RUNS, makeRun("run", [script(["Successful"])]));
    const ticking = setInterval(() => clock.advance(1000), 5);
    const run = await until("run", phase, "Successful");
    clearInterval(ticking);
    expect(run).toMatchObject({ status: { metricResults: [{ count: 1 }] } });
  });

  it("takes only the runs of its instance", async () => {
    const label = "argo-rollouts.argoproj.io/controller-instance-id";
    start({ instanceId: "east" });
    await client.call("POST", RUNS, makeRun("unlabelled", [script(["Successful"])]));
    const labelled = makeRun("labelled", [script(["Successful"])]);
    await client.call("POST", RUNS, {
      ...labelled,
      metadata: { name: "labelled", labels: { [label]: "east" } },
    });
    await until("labelled", phase, "Successful");
    const { body } = await client.call("GET", `${RUNS}/unlabelled`);
    expect(body).not.toHaveProperty("status");
    start();
    await until("unlabelled", phase, "Successful");
  });

  it("deletes a run when its time to live is over", async () => {
    start();
    const run = makeRun("run", [script(["Successful"])]);
    const ttlStrategy = { secondsAfterCompletion: 60 };
    await client.call("POST", RUNS, { ...run, spec: { ...(run.spec as object), ttlStrategy } });
    const ticking = setInterval(() => clock.advance(10_000), 5);
    await until("run", phase, "DELETED");
    clearInterval(ticking);
  });

  it("measures over HTTP on loopback, and nowhere else", async () => {
    const server = createServer((_, response) => response.end('{"data":{"rate":0.97}}'));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const web = (url: string): object => ({
      name: "rate",
      successCondition: "result >= 0.95",
      consecutiveErrorLimit: 0,
      provider: { web: { url, jsonPath: "{$.data.rate}" } },
    });
    start();
    await client.call("POST", RUNS, makeRun("near", [web(`http://127.0.0.1:${port}/`)]));
    const near = await until("near", phase, "Successful");
    expect(near).toMatchObject({ status: { metricResults: [{ measurements: [{ value: "0.97" }] }] } });
    await client.call("POST", RUNS, makeRun("far", [web("http://metrics.example/")]));
    const far = await until("far", phase, "Error");
    expect(readPath(far, ["status", "message"])).toContain("the sandbox measures on loopback only");
    server.close();
  });

  it("says which provider it does not simulate", async () => {
    start();
    const metric = { name: "rate", consecutiveErrorLimit: 0, provider: { prometheus: { query: "up" } } };
    await client.call("POST", RUNS, makeRun("run", [metric]));
    const run = await until("run", phase, "Error");
    expect(readPath(run, ["status", "message"])).toContain("does not simulate the provider prometheus");
  });
});
