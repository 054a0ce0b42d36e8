import { describe, expect, it } from "vitest";
import { ABORT_ANNOTATION } from "../../../shared/cluster/annotations.ts";
import { handleAbort } from "../../../shared/operations/message.ts";
import { createCrashPoints } from "../../engines/crash-points.ts";
import { A, B, bench, onlyRun, send, setScene, shownPhases } from "./scene.ts";

setScene();

describe("abort", () => {
  async function startRunning(): Promise<{ id: string; run: string }> {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const run = await onlyRun();
    await bench.kargo.setRun(run, { phase: "Running" });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    return { id: verification?.id ?? "", run };
  }

  it("wins over the Successful that the terminated run reports, and keeps the run's phase beside it", async () => {
    const { id, run } = await startRunning();
    await send("abort", "stop-1", { verificationId: id, actor: "bo", reason: "wrong image" });
    await bench.quiesce();
    expect((await bench.kargo.listRuns("dev"))[0]?.spec.terminate).toBe(true);
    await bench.kargo.setRun(run, { phase: "Successful", message: "Run Terminated" });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([
      {
        phase: "Aborted",
        reason: "AbortRequested",
        message: "Aborted by bo: wrong image",
        run: { phase: "Successful" },
      },
    ]);
    expect(await shownPhases("dev")).toEqual([["Aborted"]]);
    expect(await bench.kargo.getFreight(A)).not.toHaveProperty("status.verifiedIn.dev");
    expect(await bench.ledger.readRequest(bench.key("dev"), "stop-1")).toMatchObject({ outcome: "aborted" });
  });

  it("by annotation is done and the annotation removed", async () => {
    const { id } = await startRunning();
    await bench.kargo.annotate("dev", ABORT_ANNOTATION, JSON.stringify({ id, actor: "kubernetes:cy" }));
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([
      { phase: "Aborted", abort: { actor: "kubernetes:cy" } },
    ]);
    expect((await bench.kargo.getStage("dev")).metadata.annotations ?? {}).not.toHaveProperty([
      ABORT_ANNOTATION,
    ]);
  });

  it("that arrives after the end changes nothing and is recorded as too late", async () => {
    const { id, run } = await startRunning();
    await bench.kargo.setRun(run, { phase: "Successful" });
    await bench.quiesce();
    await send("abort", "late-1", { verificationId: id });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Successful" }]);
    expect(await bench.ledger.readRequest(bench.key("dev"), "late-1")).toMatchObject({
      outcome: "too-late",
      target: id,
    });
  });

  it("lets a result stand that the run had reached before anybody saw it", async () => {
    const { id, run } = await startRunning();
    bench.sandbox.faults.stallWatches(true);
    await bench.kargo.setRun(run, { phase: "Failed", message: "latency" });
    await send("abort", "race-1", { verificationId: id });
    await bench.drain();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Failed", message: "latency" }]);
    expect(await bench.ledger.readRequest(bench.key("dev"), "race-1")).toMatchObject({ outcome: "too-late" });
    bench.sandbox.faults.clear();
  });

  it("whose terminate call fails for a while stays recorded and is carried out later", async () => {
    const { id, run } = await startRunning();
    bench.sandbox.faults.respond(
      503,
      4,
      (request) => request.method === "PATCH" && request.path.includes("analysisruns"),
    );
    await send("abort", "flaky-1", { verificationId: id, actor: "bo" });
    await bench.drain(1_000);
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Running", abort: { actor: "bo" } }]);
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Aborted" }]);
    expect(
      (await bench.kargo.listRuns("dev")).find((each) => each.metadata.name === run)?.spec.terminate,
    ).toBe(true);
  });

  it("of a run that is gone ends Aborted", async () => {
    const { id, run } = await startRunning();
    bench.sandbox.faults.stallWatches(true);
    await bench.kargo.deleteRun(run);
    await send("abort", "gone-1", { verificationId: id });
    await bench.drain();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Aborted" }]);
    bench.sandbox.faults.clear();
  });

  it("without a target stops what was the latest when it came, and nothing that has begun since", async () => {
    const { id, run } = await startRunning();
    await send("reverify", "next-1");
    await bench.quiesce();
    const points = createCrashPoints();
    const world = { ...bench.world, ledger: points.guard(bench.ledger, "ledger") };
    bench.wrap("abort", () => (message, delivery) => handleAbort(world, bench.key("dev"), message, delivery));
    await send("abort", "stop-latest");
    // Dies when the verification has ended and before the request is settled; the sweeper then goes on.
    points.arm({ call: 6, when: "after" });
    await bench.drain(0);
    expect(points.calls.at(-1)).toBe("ledger.updateVerification");
    points.arm(undefined);
    await bench.sweep();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Aborted", "Pending"]);
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Aborted", "Pending"]);
    expect(await bench.ledger.readRequest(bench.key("dev"), "stop-latest")).toMatchObject({
      outcome: "aborted",
      target: id,
    });
    const told = (await bench.kargo.listRuns("dev")).filter((each) => each.spec.terminate === true);
    expect(told.map((each) => each.metadata.name)).toEqual([run]);
  });

  it("of a verification that is no longer the latest is refused, with the reason in the history", async () => {
    const { id } = await startRunning();
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    await send("abort", "old-1", { verificationId: id });
    await bench.quiesce();
    const history = await bench.ledger.listHistory(bench.key("dev"));
    expect(history.items).toContainEqual({
      kind: "request",
      request: expect.objectContaining({
        requestId: "old-1",
        outcome: "refused",
        message: expect.stringContaining("no longer the Stage's latest"),
      }),
    });
  });
});
