import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { buildMessage } from "../../shared/messages/codec.ts";
import { handleAbort, handleReverify } from "../../shared/operations/message.ts";
import { createCrashPoints } from "../engines/crash-points.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop, startEngine } from "../harness/bench-top.ts";
import { PROJECT } from "../harness/workbench.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);

let engine: RunningEngine;
let bench: BenchTop;
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());
beforeEach(async () => {
  bench = await startBenchTop(engine, `crier-${++counter}`);
  await bench.kargo.createTemplate("smoke");
  await bench.kargo.createFreight(A);
  await bench.kargo.createFreight(B, "Warehouse/glass");
});
afterEach(() => bench.stop());

async function told(): Promise<string[]> {
  const events = await bench.kargo.listEvents();
  return events
    .map((e) => `${e.type} ${e.reason} ${e.involvedObject.kind} ${e.involvedObject.name.slice(0, 3)}`)
    .sort();
}

async function endRuns(status: Record<string, unknown>): Promise<void> {
  for (const run of await bench.kargo.listRuns()) await bench.kargo.setRun(run.metadata.name, status);
  await bench.quiesce();
}

describe("Kubernetes Events", () => {
  it("tell of the start and of the outcome, once each, for every Freight", async () => {
    await bench.kargo.createStage("both", { origins: ["Warehouse/lamps", "Warehouse/glass"] });
    await bench.kargo.promote("both", [{ name: A }, { name: B, origin: "Warehouse/glass" }]);
    await bench.quiesce();
    await endRuns({ phase: "Running" });
    await endRuns({ phase: "Failed", message: "too slow" });
    expect(await told()).toEqual([
      "Normal FreightVerificationStarted Freight aaa",
      "Normal FreightVerificationStarted Freight bbb",
      "Warning FreightVerificationFailed Freight aaa",
      "Warning FreightVerificationFailed Freight bbb",
    ]);
    const failed = (await bench.kargo.listEvents()).find((event) => event.reason.endsWith("Failed"));
    expect(failed?.message).toBe("too slow");
    expect(failed?.metadata.annotations).toMatchObject({
      "event.kargo.akuity.io/stage-name": "both",
      "event.kargo.akuity.io/actor": "controller:tallyman",
      "event.kargo.akuity.io/verification-finish-time": expect.any(String),
      "event.kargo.akuity.io/analysis-run-name": expect.stringContaining("both."),
    });
  });

  it("are not repeated when the messages that caused them are delivered again", async () => {
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await endRuns({ phase: "Successful" });
    const before = await told();
    const { cluster, project, stage } = bench.key("dev");
    for (let i = 0; i < 5; i++) {
      for (const { kind, message } of [...bench.queue.accepted]) {
        bench.queue.sendText(
          kind,
          JSON.stringify({ ...message, id: `${message.id}-${i}` }),
          `${cluster}/${project}/${stage}`,
        );
      }
      await bench.quiesce();
    }
    expect(before).toEqual([
      "Normal FreightVerificationStarted Freight aaa",
      "Normal FreightVerificationSucceeded Freight aaa",
    ]);
    expect(await told()).toEqual(before);
  });

  it("tell on the Stage of a request that was refused", async () => {
    await bench.kargo.createStage("dev");
    const envelope = { id: "r-1", source: "test", time: new Date(0) };
    await bench.queue.send("reverify", [
      buildMessage("reverify", envelope, { project: PROJECT, stage: "dev", actor: "ada" }),
    ]);
    await bench.quiesce();
    expect(await told()).toEqual(["Warning VerificationRequestRefused Stage dev"]);
  });

  it.each([["reverify"], ["abort"]] as const)(
    "tell of a refused %s even if its first handler died right after it wrote the refusal",
    async (kind) => {
      await bench.kargo.createStage("dev");
      const points = createCrashPoints();
      const world = { ...bench.world, ledger: points.guard(bench.ledger, "ledger") };
      const handle = { reverify: handleReverify, abort: handleAbort }[kind];
      bench.wrap(kind, () => (message, delivery) => handle(world, bench.key("dev"), message, delivery));
      points.arm({ call: { reverify: 2, abort: 3 }[kind], when: "after" });
      const envelope = { id: "r-1", source: "test", time: new Date(0) };
      await bench.queue.send(kind, [buildMessage(kind, envelope, { project: PROJECT, stage: "dev" })]);
      await bench.drain(0);
      expect(points.calls.at(-1)).toBe("ledger.writeRequest");
      expect(await told()).toEqual([]);
      points.arm(undefined);
      await bench.quiesce();
      expect(await told()).toEqual(["Warning VerificationRequestRefused Stage dev"]);
    },
  );

  it("that cannot be written hold nothing up", async () => {
    bench.sandbox.faults.respond(503, 1_000, (request) => request.path.endsWith("/events"));
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await endRuns({ phase: "Successful" });
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Successful"]);
    expect(bench.queue.deadLetters).toEqual([]);
  });
});
