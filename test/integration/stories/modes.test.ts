import { describe, expect, it } from "vitest";
import { createTransport } from "../../../shared/cluster/https-transport.ts";
import { createKargoVerifier } from "../../harness/kargo-verifier.ts";
import { assembleWorkbench, PROJECT } from "../../harness/workbench.ts";
import { A, B, bench, send, setScene, shownPhases } from "./scene.ts";

setScene();

const MODE = "tallyman.dev/mode";
const verifier = () =>
  createKargoVerifier(createTransport({ server: bench.sandbox.url }), PROJECT, bench.clock);
const events = async () =>
  (await bench.kargo.listEventsOf("Stage")).filter(({ reason }) => reason === "SecondVerifier");

describe("a Stage in companion mode, in a managed cluster", () => {
  it("is left to its own verifier, and its neighbours are not", async () => {
    const kargo = verifier();
    await bench.kargo.createStage("theirs", { annotations: { [MODE]: "companion" } });
    for (const stage of ["dev", "theirs"]) await bench.kargo.promote(stage, [{ name: A }]);
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
    expect(await bench.kargo.listRuns("theirs")).toEqual([]);
    await kargo.reconcile("theirs");
    await bench.quiesce();
    expect(await bench.verifications("theirs")).toMatchObject([
      { phase: "Pending", cause: { kind: "observed" } },
    ]);
    await send("reverify", "again", { stage: "theirs", actor: "ada" });
    await bench.quiesce();
    const { metadata } = await bench.kargo.getStage("theirs");
    expect(metadata.annotations).toHaveProperty(["kargo.akuity.io/reverify"]);
  });

  it("that becomes managed is not verified again for what was verified, and is for new Freight", async () => {
    const kargo = verifier();
    await bench.kargo.createStage("theirs", { annotations: { [MODE]: "companion" } });
    await bench.kargo.promote("theirs", [{ name: A }]);
    await kargo.reconcile("theirs");
    await bench.quiesce();
    const [run] = await bench.kargo.listRuns("theirs");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Successful" });
    await kargo.reconcile("theirs");
    await bench.quiesce();
    await bench.kargo.annotate("theirs", MODE, null);
    await bench.quiesce();
    await bench.sweep();
    await bench.quiesce();
    expect(await bench.kargo.listRuns("theirs")).toHaveLength(1);
    expect(await events()).toEqual([]);
    await bench.kargo.promote("theirs", [{ name: B }]);
    await bench.quiesce();
    expect(await bench.kargo.listRuns("theirs")).toHaveLength(2);
    expect((await bench.verifications("theirs")).map((v) => v.cause.kind)).toEqual(["observed", "promotion"]);
  });

  it("and the other way round: a managed Stage in a cluster of another verifier", async () => {
    const transport = createTransport({ server: bench.sandbox.url });
    const beside = assembleWorkbench({
      engine: bench.engine,
      cluster: `${bench.key("dev").cluster}-beside`,
      transport,
      others: transport,
      policy: { mode: "companion", shard: "ours" },
    });
    await bench.kargo.createStage("ours", { annotations: { [MODE]: "managed" }, shard: "ours" });
    await bench.kargo.promote("ours", [{ name: A }]);
    await beside.until("the Stage is verified", async () => (await beside.verifications("ours")).length > 0);
    expect(await beside.verifications("ours")).toMatchObject([{ cause: { kind: "promotion" } }]);
    await beside.stop();
  });
});

describe("a second verifier on a managed Stage", () => {
  it("that was first for a Freight is noticed, recorded and told of once, and nothing is doubled", async () => {
    const kargo = verifier();
    await bench.kargo.promote("dev", [{ name: A }], { health: "Progressing" });
    await bench.quiesce();
    await bench.kargo.patchStatus("dev", { health: { status: "Healthy" } });
    await kargo.reconcile("dev");
    await bench.quiesce();
    for (let i = 0; i < 3; i++) await bench.sweep();
    const runs = await bench.kargo.listRuns("dev");
    const foreign = (await bench.verifications("dev")).filter((v) => v.cause.kind === "observed");
    // Whoever came first: there is one run a verification, and the other verifier's is in the ledger.
    expect(foreign).toHaveLength(1);
    expect(await bench.verifications("dev")).toHaveLength(runs.length);
    expect(await events()).toMatchObject([
      { type: "Warning", message: expect.stringContaining(foreign[0]?.id ?? "no id") },
    ]);
  });

  it("that comes later on the same Freight is noticed by the next sweep, and its entry stays as it is", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const { status } = await bench.kargo.getStage("dev");
    const [current] = status?.freightHistory ?? [];
    const entry = { id: "somebody-elses", phase: "Running", startTime: "2030-01-01T00:00:00Z" };
    await bench.kargo.patchStatus("dev", {
      freightHistory: [{ ...current, verificationHistory: [entry, ...(current?.verificationHistory ?? [])] }],
    });
    await send("verify", "look", {});
    await bench.quiesce();
    expect((await events()).length).toBe(1);
    expect((await shownPhases("dev"))[0]?.[0]).toBe("Running");
    expect((await bench.verifications("dev")).map((v) => v.id)).toContain("somebody-elses");
  });
});
