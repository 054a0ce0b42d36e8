import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ABORT_ANNOTATION } from "../../../shared/cluster/annotations.ts";
import { createTransport } from "../../../shared/cluster/https-transport.ts";
import type { ClusterPolicy } from "../../../shared/domain/policy.ts";
import type { RunningEngine } from "../../engines/dynamodb-engines.ts";
import { eventually } from "../../engines/eventually.ts";
import { type BenchTop, startBenchTop, startEngine } from "../../harness/bench-top.ts";
import { assembleWorkbench, PROJECT, type Workbench } from "../../harness/workbench.ts";

const A = "a".repeat(40);

let engine: RunningEngine;
let blue: BenchTop;
let unlabelled: Workbench;
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());

/** Two installations in one cluster, each with a ledger of its own. */
beforeEach(async () => {
  const policy: ClusterPolicy = { shard: "blue" };
  blue = await startBenchTop(engine, `blue-${++counter}`, { policy });
  const transport = createTransport({ server: blue.sandbox.url });
  unlabelled = assembleWorkbench({
    engine,
    cluster: `rest-${counter}`,
    transport,
    others: transport,
    policy: { shard: "" },
  });
  await blue.kargo.createTemplate("smoke");
  await blue.kargo.createFreight(A);
  await blue.kargo.createStage("mine", { shard: "blue" });
  await blue.kargo.createStage("theirs", { shard: "green" });
  await blue.kargo.createStage("plain");
});
afterEach(async () => {
  await unlabelled.stop();
  await blue.stop();
});

async function quiesceBoth(): Promise<void> {
  await blue.quiesce();
  await eventually("the other installation has listed everything", () => unlabelled.forwarder.isSynced());
  const { resourceVersion } = blue.sandbox.store.stats();
  await eventually("the other installation has seen everything", () =>
    Object.values(unlabelled.forwarder.resourceVersions()).every(
      (seen) => BigInt(seen) >= BigInt(resourceVersion),
    ),
  );
  unlabelled.clock.advance(1_000);
  await unlabelled.drain();
  await blue.quiesce();
}

const count = async (bench: Workbench, stage: string) => (await bench.verifications(stage)).length;

describe("an installation for a shard", () => {
  it("verifies its own shard's Stages; another shard's and unlabelled ones are none of its business", async () => {
    for (const stage of ["mine", "theirs", "plain"]) await blue.kargo.promote(stage, [{ name: A }]);
    await quiesceBoth();
    expect([await count(blue, "mine"), await count(blue, "theirs"), await count(blue, "plain")]).toEqual([
      1, 0, 0,
    ]);
    expect(await blue.kargo.listRuns()).toHaveLength(2);
  });

  it("for Stages without a shard verifies the unlabelled only", async () => {
    for (const stage of ["mine", "theirs", "plain"]) await blue.kargo.promote(stage, [{ name: A }]);
    await quiesceBoth();
    const counts = ["mine", "theirs", "plain"].map((stage) => count(unlabelled, stage));
    expect(await Promise.all(counts)).toEqual([0, 0, 1]);
  });

  it("enters nothing of another installation's AnalysisRuns, by events or by a sweep", async () => {
    await blue.kargo.promote("mine", [{ name: A }]);
    await quiesceBoth();
    const [run] = await blue.kargo.listRuns("mine");
    await blue.kargo.setRun(run?.metadata.name ?? "", { phase: "Running" });
    await quiesceBoth();
    await unlabelled.sweep();
    expect(await count(unlabelled, "mine")).toBe(0);
    expect((await blue.verifications("mine")).map((v) => v.phase)).toEqual(["Running"]);
  });

  it("leaves another shard's annotations alone", async () => {
    await blue.kargo.promote("theirs", [{ name: A }]);
    await blue.kargo.annotate("theirs", ABORT_ANNOTATION, "some-verification");
    await quiesceBoth();
    const { metadata } = await blue.kargo.getStage("theirs");
    expect(metadata.annotations).toHaveProperty([ABORT_ANNOTATION], "some-verification");
  });

  it("refuses a request by hand for another shard's Stage, and says whose it is", async () => {
    await blue.kargo.promote("theirs", [{ name: A }]);
    await blue.queue.send("reverify", [
      {
        specversion: "1.0",
        id: "by-hand",
        source: "test",
        type: "dev.tallyman.reverify",
        data: { project: PROJECT, stage: "theirs", actor: "ada" },
      },
    ]);
    await quiesceBoth();
    expect(await blue.ledger.readRequest(blue.key("theirs"), "by-hand")).toMatchObject({
      outcome: "refused",
      message: "the Stage is of shard green, and this installation is for shard blue",
    });
  });

  it("follows to its end what runs in a Stage that moves to another shard", async () => {
    await blue.kargo.promote("mine", [{ name: A }]);
    await quiesceBoth();
    const transport = createTransport({ server: blue.sandbox.url });
    await transport.request({
      method: "PATCH",
      path: `/apis/kargo.akuity.io/v1alpha1/namespaces/${PROJECT}/stages/mine`,
      body: { metadata: { labels: { "kargo.akuity.io/shard": "green" } }, spec: { shard: "green" } },
    });
    await blue.sweep();
    const [run] = await blue.kargo.listRuns("mine");
    await blue.kargo.setRun(run?.metadata.name ?? "", { phase: "Failed", message: "no" });
    await quiesceBoth();
    expect((await blue.verifications("mine")).map((v) => v.phase)).toEqual(["Failed"]);
  });
});
