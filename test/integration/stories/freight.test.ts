import { describe, expect, it } from "vitest";
import { A, B, bench, onlyRun, send, setScene, shownPhases } from "./scene.ts";

setScene();

describe("one Freight", () => {
  it("is verified from the watch event to the outcome, in the ledger, the Stage and the Freight", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const run = await onlyRun();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Pending"]);
    expect(await shownPhases("dev")).toEqual([["Pending"]]);

    await bench.kargo.setRun(run, { phase: "Running" });
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Running"]);
    expect(await shownPhases("dev")).toEqual([["Running"]]);

    await bench.kargo.setRun(run, { phase: "Successful", completedAt: "2030-01-01T00:01:00Z" });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    expect(verification).toMatchObject({ phase: "Successful", run: { name: run, phase: "Successful" } });
    expect(verification?.finishedAt).toBeGreaterThanOrEqual(
      verification?.createdAt ?? Number.POSITIVE_INFINITY,
    );
    expect(await shownPhases("dev")).toEqual([["Successful"]]);
    const { status } = await bench.kargo.getStage("dev");
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Verified", status: "True" }));
    expect(await bench.kargo.getFreight(A)).toMatchObject({
      status: { verifiedIn: { dev: { verifiedAt: expect.any(String) } } },
    });
  });

  it("waits until the Stage is healthy, and says so", async () => {
    await bench.kargo.promote("dev", [{ name: A }], { health: "Progressing" });
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toEqual([]);
    expect((await bench.ledger.readStage(bench.key("dev"))).awaiting?.reason).toContain("not Healthy");
    await bench.kargo.setHealth("dev", "Healthy");
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("is not verified on a Healthy that Argo CD observed before the sync ended, and is once it has looked again", async () => {
    const observed = (reconciledAt: string) => ({
      health: {
        status: "Healthy",
        output: [
          {
            applicationStatuses: [
              { Name: "lamp", operationState: { finishedAt: "2030-01-01T10:00:05Z" }, reconciledAt },
            ],
          },
        ],
      },
    });
    await bench.kargo.promote("dev", [{ name: A }], { health: null });
    await bench.kargo.patchStatus("dev", observed("2030-01-01T10:00:00Z"));
    await bench.quiesce();
    expect(await bench.verifications("dev")).toEqual([]);
    expect((await bench.ledger.readStage(bench.key("dev"))).awaiting?.reason).toContain("Application lamp");
    // Healthy before, Healthy after: only the time of the look differs.
    await bench.kargo.patchStatus("dev", observed("2030-01-01T10:00:06Z"));
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(1);
  });

  it("that was replaced before it was healthy leaves a record that says Superseded", async () => {
    await bench.kargo.promote("dev", [{ name: A }], { health: null });
    await bench.quiesce();
    const by = await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    const [first, second] = await bench.verifications("dev");
    expect(first).toMatchObject({ phase: "Aborted", reason: "Superseded" });
    expect(first?.message).toContain(by);
    expect(second).toMatchObject({ phase: "Pending" });
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("that came and went while nobody watched leaves a record that says Superseded", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    bench.sandbox.faults.stallWatches(true);
    bench.clock.advance(1_000);
    const unseen = await bench.kargo.promote("dev", [{ name: B }]);
    bench.clock.advance(1_000);
    const current = await bench.kargo.promote("dev", [{ name: A }]);
    // A relist shows the Stage as it is now; what was between is only in its history.
    bench.sandbox.faults.stallWatches(false);
    bench.sandbox.store.compact();
    bench.sandbox.faults.dropWatches();
    await bench.quiesce();
    const [first, second, third] = await bench.verifications("dev");
    expect(first?.phase).toBe("Pending");
    expect(second).toMatchObject({ promotion: unseen, phase: "Aborted", reason: "Superseded" });
    expect(second?.message).toContain(current);
    expect(third).toMatchObject({ promotion: current, phase: "Pending" });
    expect(await shownPhases("dev")).toEqual([["Pending"], ["Aborted"], ["Pending"]]);
  });

  it("promoted again gets a verification and an AnalysisRun of its own", async () => {
    for (let i = 0; i < 2; i++) {
      await bench.kargo.promote("dev", [{ name: A }]);
      await bench.quiesce();
    }
    expect(await bench.verifications("dev")).toHaveLength(2);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(2);
  });

  it("of a Stage without verification is Successful at once, without a run", async () => {
    await bench.kargo.createStage("plain", { verification: null });
    await bench.kargo.promote("plain", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("plain")).toMatchObject([
      { phase: "Successful", reason: "NoVerificationConfigured" },
    ]);
    expect(await shownPhases("plain")).toEqual([["Successful"]]);
    expect(await bench.kargo.listRuns("plain")).toEqual([]);
  });
});

describe("a Stage that holds Freight from some of its origins only", () => {
  const origins = ["Warehouse/lamps", "Warehouse/glass"];

  it("is verified as it is, and the record names what is missing", async () => {
    await bench.kargo.createStage("partial", { origins });
    await bench.kargo.promote("partial", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("partial")).toMatchObject([
      { phase: "Pending", missingOrigins: ["Warehouse/glass"], message: "no Freight from Warehouse/glass" },
    ]);
  });

  it("is held where its policy says so, until the missing Freight has come", async () => {
    await bench.kargo.createStage("held", {
      origins,
      annotations: { "tallyman.dev/missing-freight": "hold" },
    });
    await bench.kargo.promote("held", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("held")).toEqual([]);
    const { awaiting } = await bench.ledger.readStage(bench.key("held"));
    expect(awaiting?.reason).toContain("no Freight from Warehouse/glass yet");
    await bench.kargo.promote("held", [{ name: A }, { name: B, origin: "Warehouse/glass" }]);
    await bench.quiesce();
    const [replaced, whole] = await bench.verifications("held");
    expect(replaced).toMatchObject({ phase: "Aborted", reason: "Superseded" });
    expect(whole).toMatchObject({ phase: "Pending", missingOrigins: [] });
    const together = await bench.ledger.listByCollection(
      bench.key("held").cluster,
      bench.key("held").project,
      {
        id: whole?.collection.id ?? "",
        freight: [A, B],
      },
    );
    expect(together.items.map((v) => v.id)).toEqual([whole?.id]);
  });
});

describe("several promotions before a verification ends", () => {
  it("A, B and A again: each verification reaches its own end, none stays Running, and reverify works throughout", async () => {
    for (const name of [A, B, A]) {
      await bench.kargo.promote("dev", [{ name }]);
      await bench.quiesce();
      for (const run of await bench.kargo.listRuns("dev")) {
        if ((run.status?.phase ?? "") === "")
          await bench.kargo.setRun(run.metadata.name, { phase: "Running" });
      }
      await bench.quiesce();
    }
    const started = await bench.verifications("dev");
    expect(started.map((v) => v.phase)).toEqual(["Running", "Running", "Running"]);
    const runs = started.map((v) => v.run?.name ?? "");
    expect(new Set(runs).size).toBe(3);

    // The current one is repeated while the older ones still run.
    const current = started[2];
    await bench.kargo.setRun(runs[2] ?? "", { phase: "Failed", message: "no" });
    await bench.quiesce();
    await send("reverify", "again-1", { verificationId: current?.id ?? "", actor: "ada" });
    await bench.quiesce();
    const all = await bench.verifications("dev");
    expect(all).toHaveLength(4);
    const successor = all.find((v) => v.cause.kind === "reverify");
    expect(successor).toMatchObject({ phase: "Pending", actor: "ada" });

    await bench.kargo.setRun(runs[0] ?? "", { phase: "Successful" });
    await bench.kargo.setRun(runs[1] ?? "", { phase: "Failed", message: "worse" });
    await bench.kargo.setRun(successor?.run?.name ?? "", { phase: "Successful" });
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => [v.collection.freight[0]?.name, v.phase])).toEqual([
      [A, "Successful"],
      [B, "Failed"],
      [A, "Failed"],
      [A, "Successful"],
    ]);
    expect(await shownPhases("dev")).toEqual([["Successful", "Failed"], ["Failed"], ["Successful"]]);
  });
});

describe("Freight that is replaced while its verification runs", () => {
  async function replace(annotations: Record<string, string>) {
    await bench.kargo.createStage("busy", { annotations });
    await bench.kargo.promote("busy", [{ name: A }]);
    await bench.quiesce();
    const by = await bench.kargo.promote("busy", [{ name: B }]);
    await bench.quiesce();
    return { by, verifications: await bench.verifications("busy") };
  }

  it("is followed to its end by default", async () => {
    const { verifications } = await replace({});
    expect(verifications.map((v) => v.phase)).toEqual(["Pending", "Pending"]);
  });

  it("is aborted where the Stage's policy says so, and its run is told", async () => {
    const { by, verifications } = await replace({ "tallyman.dev/on-supersede": "abort" });
    expect(verifications).toMatchObject([
      { phase: "Aborted", reason: "Superseded", message: expect.stringContaining(by) },
      { phase: "Pending" },
    ]);
    const runs = await bench.kargo.listRuns("busy");
    expect(runs.find((run) => run.metadata.name === verifications[0]?.run?.name)?.spec.terminate).toBe(true);
    expect(
      runs.find((run) => run.metadata.name === verifications[1]?.run?.name)?.spec.terminate,
    ).toBeUndefined();
    expect(await shownPhases("busy")).toEqual([["Pending"], ["Aborted"]]);
  });
});
