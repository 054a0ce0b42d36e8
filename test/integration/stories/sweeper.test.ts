import { describe, expect, it } from "vitest";
import { createCluster } from "../../../shared/cluster/cluster.ts";
import { createTransport } from "../../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../../shared/cluster/transport.ts";
import { sweepCluster } from "../../../shared/operations/sweep.ts";
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

  it.each(["analysisruns", "stages"])(
    "ends nothing when something else than the API server answers for %s",
    async (resource) => {
      await bench.kargo.promote("dev", [{ name: A }]);
      await bench.quiesce();
      const { cluster } = bench.key("dev");
      const real = createTransport({ server: bench.sandbox.url });
      const signedOut: KubernetesTransport = {
        ...real,
        request: (request) =>
          request.path.endsWith(`/${resource}`)
            ? Promise.resolve({ status: 200, headers: {}, body: "<html>sign in</html>" })
            : real.request(request),
      };
      const world = { ...bench.world, findCluster: () => createCluster(cluster, signedOut) };
      await expect(sweepCluster(world, cluster)).rejects.toThrow("which is no list");
      real.close();
      expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Pending"]);
    },
  );

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
