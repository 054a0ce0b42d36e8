import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createForwarder } from "../../../functions/forwarder/forwarder.ts";
import { createTransport } from "../../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../../shared/cluster/transport.ts";
import { DEFAULT_POLICY } from "../../../shared/domain/policy.ts";
import type { Checkpoint } from "../../../shared/ledger/checkpoint.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { silentLog, silentMeter } from "../../../shared/runtime/telemetry.ts";
import type { RunningEngine } from "../../engines/dynamodb-engines.ts";
import { eventually } from "../../engines/eventually.ts";
import { createVirtualQueue } from "../../engines/virtual-queue.ts";
import { type BenchTop, startBenchTop, startEngine } from "../../harness/bench-top.ts";
import { PROJECT } from "../../harness/workbench.ts";

const A = "a".repeat(40);
const healthy = { health: { status: "Healthy" } };

let engine: RunningEngine;
let bench: BenchTop;
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());
beforeEach(async () => {
  bench = await startBenchTop(engine, `pier-${++counter}`);
});
afterEach(() => bench.stop());

/** Stages that were woken without a sight of them, which only Applications do. */
function woken(queue: { readonly accepted: BenchTop["queue"]["accepted"] } = bench.queue): string[] {
  return queue.accepted
    .filter(({ kind, message }) => kind === "verify" && message.data.observed === undefined)
    .map(({ message }) => message.data.stage);
}

async function createStages(...names: string[]): Promise<void> {
  for (const name of names) await bench.kargo.createStage(name);
  await bench.quiesce();
}

describe("an Application's change", () => {
  it("of health wakes exactly the Stages that its annotation names", async () => {
    await createStages("dev", "qa", "prod");
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev, ${PROJECT}:prod`, healthy);
    await bench.quiesce();
    const before = woken().length;
    await bench.kargo.patchApplication("lamp", { status: { health: { status: "Degraded" } } });
    await bench.quiesce();
    expect(woken().slice(before)).toEqual(["dev", "prod"]);
  });

  it.each([
    ["the operation's phase", { operationState: { phase: "Running" } }],
    ["the synced revision", { sync: { revision: "2" } }],
    ["one of several synced revisions", { sync: { revisions: ["1", "3"] } }],
  ])("of %s wakes them too", async (_what, status) => {
    await createStages("dev");
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev`, healthy);
    await bench.quiesce();
    const before = woken().length;
    await bench.kargo.patchApplication("lamp", { status });
    await bench.quiesce();
    expect(woken().slice(before)).toEqual(["dev"]);
  });

  it("from Healthy to Healthy across a sync wakes them once Argo CD has looked again, and once only", async () => {
    await createStages("dev");
    const finishedAt = "2030-01-01T10:00:05Z";
    const seenAt = (reconciledAt: string) => ({ ...healthy, reconciledAt, operationState: { finishedAt } });
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev`, seenAt("2030-01-01T10:00:00Z"));
    await bench.quiesce();
    const before = woken().length;
    await bench.kargo.patchApplication("lamp", { status: seenAt("2030-01-01T10:00:06Z") });
    await bench.kargo.patchApplication("lamp", { status: seenAt("2030-01-01T10:00:09Z") });
    await bench.quiesce();
    expect(woken().slice(before)).toEqual(["dev"]);
  });

  it("of anything else wakes nobody", async () => {
    await createStages("dev");
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev`, healthy);
    await bench.quiesce();
    const before = bench.queue.accepted.length;
    await bench.kargo.patchApplication("lamp", {
      metadata: { labels: { touched: "yes" } },
      status: { conditions: [{ type: "OrphanedResourceWarning" }], sync: { status: "OutOfSync" } },
    });
    await bench.quiesce();
    expect(bench.queue.accepted.length).toBe(before);
  });

  it("without the annotation wakes nobody, and one with a Stage that is missing wakes the others", async () => {
    await createStages("dev");
    await bench.kargo.createApplication("plain", undefined, healthy);
    await bench.kargo.createApplication("lamp", `${PROJECT}:gone,elsewhere:dev,${PROJECT}:dev`, healthy);
    await bench.quiesce();
    const before = woken().length;
    await bench.kargo.patchApplication("plain", { status: { health: { status: "Degraded" } } });
    await bench.kargo.patchApplication("lamp", { status: { health: { status: "Degraded" } } });
    await bench.quiesce();
    expect(woken().slice(before)).toEqual(["dev"]);
  });

  it("wakes what a glob names, among Stages that came later too, and no control-flow Stage", async () => {
    await createStages("dev-eu", "dev-us", "prod");
    await bench.kargo.createStage("dev-fan-out", { controlFlow: true });
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev-*`, healthy);
    await createStages("dev-asia");
    const before = woken().length;
    await bench.kargo.patchApplication("lamp", { status: { health: { status: "Degraded" } } });
    await bench.quiesce();
    expect(woken().slice(before).sort()).toEqual(["dev-asia", "dev-eu", "dev-us"]);
  });

  it("with malformed entries tells of them by an Event, once, and wakes what the good ones name", async () => {
    await createStages("dev");
    await bench.kargo.createApplication("lamp", `dev,${PROJECT}:dev,:x`, healthy);
    await bench.quiesce();
    const before = woken().length;
    await bench.kargo.patchApplication("lamp", { status: { health: { status: "Degraded" } } });
    await bench.quiesce();
    expect(woken().slice(before)).toEqual(["dev"]);
    expect(await bench.kargo.listEventsOf("Application")).toMatchObject([
      {
        type: "Warning",
        reason: "AuthorizedStageMalformed",
        message:
          'kargo.akuity.io/authorized-stage: "dev" is not of the form project:stage; ":x" is not of the form project:stage. The other entries count',
        involvedObject: { kind: "Application", name: "lamp" },
      },
    ]);
  });

  it("that names a thousand Stages costs one message each", async () => {
    const names = Array.from({ length: 1_000 }, (_, i) => `stage-${i}`);
    await createStages(...names);
    await bench.kargo.createApplication("lamp", names.map((name) => `${PROJECT}:${name}`).join(","), healthy);
    await bench.quiesce();
    const before = woken().length;
    await bench.kargo.patchApplication("lamp", { status: { health: { status: "Degraded" } } });
    await bench.settle();
    expect(woken().slice(before).sort()).toEqual([...names].sort());
  });

  it("starts the verification that is due, though no event of the Stage came", async () => {
    await bench.kargo.createTemplate("smoke");
    await bench.kargo.createFreight(A);
    await createStages("dev");
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev`, healthy);
    await bench.quiesce();
    bench.wrap("verify", (process) => async (message, delivery) => {
      if (message.data.observed?.kind !== "Stage") await process(message, delivery);
    });
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toEqual([]);
    await bench.kargo.patchApplication("lamp", { status: { sync: { revision: "2" } } });
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });
});

describe("a forwarder", () => {
  function another(change: { checkpoint?: Checkpoint; transport?: KubernetesTransport } = {}) {
    const { cluster } = bench.key("any");
    const queue = createVirtualQueue(bench.clock, cluster);
    const forwarder = createForwarder({
      cluster,
      policy: DEFAULT_POLICY,
      transport: createTransport({ server: bench.sandbox.url }),
      queue,
      clock: systemClock,
      random: Math.random,
      log: silentLog,
      meter: silentMeter,
      loadOpen: async () => new Set(),
      reflector: { backoffBaseMs: 5, backoffCapMs: 20 },
      ...change,
    });
    return { queue, forwarder };
  }

  it("wakes nobody at its start", async () => {
    await createStages("dev");
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev`, healthy);
    const { queue, forwarder } = another();
    const stop = new AbortController();
    const work = forwarder.run(stop.signal);
    await eventually(
      "Applications are listed",
      () => forwarder.resourceVersions().applications !== undefined,
    );
    stop.abort();
    await work;
    expect(woken(queue)).toEqual([]);
  });

  it("that goes on from a checkpoint resolves globs though it has not seen the Stages", async () => {
    await createStages("dev-eu", "prod");
    await bench.kargo.createApplication("lamp", `${PROJECT}:dev-*`, healthy);
    await bench.quiesce();
    const { queue, forwarder } = another({
      checkpoint: { resourceVersions: bench.forwarder.resourceVersions() } as Checkpoint,
    });
    const stop = new AbortController();
    const work = forwarder.run(stop.signal);
    await bench.kargo.patchApplication("lamp", { status: { health: { status: "Degraded" } } });
    await eventually("the Stage is woken", () => woken(queue).length > 0);
    stop.abort();
    await work;
    expect(woken(queue)).toEqual(["dev-eu"]);
  });

  it("in a cluster without Argo CD, or that may not watch it, does everything else", async () => {
    const direct = createTransport({ server: bench.sandbox.url });
    const refused: KubernetesTransport = {
      ...direct,
      request: async (request) =>
        request.path.endsWith("/applications")
          ? { status: 404, headers: {}, body: { kind: "Status", code: 404, message: "no such resource" } }
          : direct.request(request),
    };
    const { queue, forwarder } = another({ transport: refused });
    const stop = new AbortController();
    const work = forwarder.run(stop.signal);
    await eventually("it is ready", () => forwarder.isSynced());
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await eventually("it forwards", () => queue.accepted.length > 0);
    stop.abort();
    await work;
    expect(Object.keys(forwarder.lastActivity())).toEqual(["stages", "analysisruns"]);
  });
});
