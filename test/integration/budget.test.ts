import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Message } from "../../shared/messages/schema.ts";
import { type CallCounter, countCalls } from "../engines/call-counter.ts";
import { DYNAMODB_ENGINES, type RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop } from "../harness/bench-top.ts";

const A = "a".repeat(40);
const WRITES = ["PutItem", "UpdateItem"];

/** Counted at the SDK and at the API server's door, on every engine. */
describe.each(DYNAMODB_ENGINES)("what a message costs on $name", (dynamo) => {
  if (dynamo.obstacle !== undefined) {
    console.warn(`SKIPPED: the cost of messages on ${dynamo.name}: ${dynamo.obstacle}`);
    it.skip(`cannot run here: ${dynamo.obstacle}`, () => {});
    return;
  }
  let engine: RunningEngine;
  let calls: CallCounter;
  let bench: BenchTop;
  let kubernetes: string[];
  let counter = 0;

  beforeAll(async () => {
    engine = await dynamo.start();
    calls = countCalls(engine.client);
  }, 120_000);
  afterAll(() => engine?.stop());

  beforeEach(async () => {
    bench = await startBenchTop(engine, `purse-${++counter}`);
    kubernetes = [];
    const { cluster } = bench.key("dev");
    const real = bench.world.findCluster(cluster);
    const counted = new Proxy(real, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          kubernetes.push(String(property));
          return value.apply(target, args);
        };
      },
    });
    (bench.world as { findCluster: unknown }).findCluster = () => counted;
    await bench.kargo.createTemplate("smoke");
    await bench.kargo.createFreight(A);
    await bench.kargo.createStage("dev");
    await bench.quiesce();
  });
  afterEach(() => bench.stop());

  /** Lets something happen and delivers exactly what it led to. */
  async function costOf(act: () => Promise<unknown>) {
    await act();
    await bench.settle();
    calls.reset();
    kubernetes.length = 0;
    await bench.drain();
    return spent();
  }

  function spent() {
    const counts = calls.counts();
    const writes = WRITES.reduce((sum, name) => sum + (counts[name] ?? 0), 0);
    return {
      writes,
      reads: counts.GetItem ?? 0,
      others: Object.keys(counts).filter((n) => ![...WRITES, "GetItem"].includes(n)),
      kubernetes: [...kubernetes],
    };
  }

  /** Delivers a message again that was handled before, as another producer's copy would be. */
  async function costOfDuplicate(match: (message: Message) => boolean) {
    const original = bench.queue.accepted.map((each) => each.message).findLast(match);
    if (original === undefined) throw new Error("no such message was sent");
    const { cluster, project, stage } = bench.key("dev");
    bench.queue.sendText(
      "verify",
      JSON.stringify({ ...original, id: `${original.id}-again` }),
      `${cluster}/${project}/${stage}`,
    );
    calls.reset();
    kubernetes.length = 0;
    await bench.drain();
    return spent();
  }

  const runName = async (): Promise<string> => (await bench.kargo.listRuns("dev"))[0]?.metadata.name ?? "";

  it("start: 1 read, 2 writes, the objects it names, 1 create and the write-back", async () => {
    await costOf(() => bench.kargo.promote("dev", [{ name: A }], { health: null }));
    const cost = await costOf(() => bench.kargo.setHealth("dev", "Healthy"));
    expect(cost).toEqual({
      writes: 2,
      reads: 1,
      others: [],
      kubernetes: [
        "getTemplate",
        "getFreight",
        "createAnalysisRun",
        "createEvent",
        "getStage",
        "patchStatus",
      ],
    });
  });

  it("observation that changes no phase: 1 write, no read, no call to the cluster", async () => {
    await costOf(() => bench.kargo.promote("dev", [{ name: A }]));
    await costOf(async () => bench.kargo.setRun(await runName(), { phase: "Running" }));
    const metricResults = [
      {
        name: "probe",
        phase: "Running",
        count: 1,
        successful: 1,
        measurements: [{ phase: "Successful", value: "1" }],
      },
    ];
    const cost = await costOf(async () =>
      bench.kargo.setRun(await runName(), { phase: "Running", metricResults }),
    );
    expect(cost).toEqual({ writes: 1, reads: 0, others: [], kubernetes: [] });
  });

  it("observation that changes the phase: at most 2 writes, and the write-back", async () => {
    await costOf(() => bench.kargo.promote("dev", [{ name: A }]));
    const running = await costOf(async () => bench.kargo.setRun(await runName(), { phase: "Running" }));
    expect(running).toEqual({ writes: 2, reads: 1, others: [], kubernetes: ["getStage", "patchStatus"] });
    const ended = await costOf(async () =>
      bench.kargo.setRun(await runName(), { phase: "Failed", message: "no" }),
    );
    expect(ended).toEqual({
      writes: 2,
      reads: 1,
      others: [],
      kubernetes: ["createEvent", "getStage", "patchStatus"],
    });
  });

  it("duplicate of a start or of a change of phase: 1 read and nothing else", async () => {
    await costOf(() => bench.kargo.promote("dev", [{ name: A }]));
    const start = await costOfDuplicate((message) => message.data.observed?.kind === "Stage");
    expect(start).toEqual({ writes: 0, reads: 1, others: [], kubernetes: [] });
    await costOf(async () => bench.kargo.setRun(await runName(), { phase: "Successful" }));
    const end = await costOfDuplicate((message) => message.data.observed?.kind === "AnalysisRun");
    expect(end).toEqual({ writes: 0, reads: 1, others: [], kubernetes: [] });
  });

  it("duplicate of an observation that changed no phase: 1 write that fails", async () => {
    await costOf(() => bench.kargo.promote("dev", [{ name: A }]));
    await costOf(async () => bench.kargo.setRun(await runName(), { phase: "Running" }));
    const metricResults = [{ name: "probe", phase: "Running", count: 1, measurements: [] }];
    await costOf(async () => bench.kargo.setRun(await runName(), { phase: "Running", metricResults }));
    const cost = await costOfDuplicate((message) => message.data.observed?.kind === "AnalysisRun");
    // dynalite hands back nothing when a condition fails, so the item has to be asked for.
    expect(cost).toEqual({ writes: 1, reads: dynamo.returnsFailedItem ? 0 : 1, others: [], kubernetes: [] });
  });
});
