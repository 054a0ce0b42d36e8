import { describe, expect, it } from "vitest";
import { A, bench, onlyRun, setScene, shownPhases } from "./scene.ts";

setScene();

describe("the sweeper", () => {
  it("closes what a lost event left open", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    bench.wrap("verify", () => async () => {});
    await bench.kargo.setRun(await onlyRun(), { phase: "Successful" });
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Pending"]);
    expect(await bench.sweep()).toMatchObject({ open: 1, repaired: 1, failures: [] });
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Successful"]);
    expect(await shownPhases("dev")).toEqual([["Successful"]]);
    expect(await bench.sweep()).toEqual({ open: 0, repaired: 0, failures: [] });
  });

  it("ends what lost its AnalysisRun or its Stage", async () => {
    await bench.kargo.createStage("doomed");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.kargo.promote("doomed", [{ name: A }]);
    await bench.quiesce();
    bench.wrap("verify", () => async () => {});
    await bench.kargo.deleteRun(await onlyRun());
    await bench.kargo.deleteStage("doomed");
    await bench.sweep();
    expect(await bench.verifications("dev")).toMatchObject([
      { phase: "Error", reason: "AnalysisRunDeleted" },
    ]);
    expect(await bench.verifications("doomed")).toMatchObject([{ phase: "Error", reason: "StageDeleted" }]);
  });

  it("starts what is due when the Stage's event was lost, and carries out an abort that was left half done", async () => {
    bench.wrap("verify", () => async () => {});
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("dev")).toEqual([]);
    await bench.sweep();
    const [verification] = await bench.verifications("dev");
    expect(verification?.phase).toBe("Pending");
    const current = await bench.ledger.readVerification(bench.key("dev"), verification?.id ?? "");
    if (current === undefined) throw new Error("gone");
    const abort = { requestId: "half", at: bench.clock.now(), actor: "bo" };
    await bench.ledger.updateVerification({ ...current.verification, abort }, current.revision);
    await bench.sweep();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Aborted"]);
    expect((await bench.kargo.listRuns("dev"))[0]?.spec.terminate).toBe(true);
  });
});
