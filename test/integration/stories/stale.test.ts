import { describe, expect, it } from "vitest";
import { createTransport } from "../../../shared/cluster/https-transport.ts";
import { PROJECT } from "../../harness/workbench.ts";
import { A, bench, setScene } from "./scene.ts";

setScene();

/** A Promotion that has succeeded, of which the Stage's status says nothing. */
async function succeedUnseen(name: string): Promise<void> {
  const transport = createTransport({ server: bench.sandbox.url });
  const path = `/apis/kargo.akuity.io/v1alpha1/namespaces/${PROJECT}/promotions`;
  const object = {
    apiVersion: "kargo.akuity.io/v1alpha1",
    kind: "Promotion",
    metadata: { name },
    spec: { stage: "dev", freight: A, steps: [{ uses: "argocd-update" }] },
  };
  await transport.request({ method: "POST", path, body: object });
  const status = {
    phase: "Succeeded",
    finishedAt: new Date(bench.clock.now()).toISOString(),
    freightCollection: { id: "c", items: {} },
  };
  await transport.request({ method: "PATCH", path: `${path}/${name}/status`, body: { status } });
  transport.close();
}

const told = async () =>
  (await bench.kargo.listEventsOf("Stage")).filter(({ reason }) => reason === "StaleStage");

/** Each Project has its turn once an hour. */
async function sweepForAnHour(): Promise<void> {
  for (let minute = 0; minute < 60; minute++) {
    bench.clock.advance(60_000);
    await bench.sweep();
  }
}

describe("a Stage whose status stays on the old Freight although a Promotion succeeded", () => {
  it("is told of, once, and its old Freight is not verified for that Promotion", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await succeedUnseen("dev.01jd0000000000000000000009.bbbbbbb");
    await sweepForAnHour();
    await sweepForAnHour();
    expect(await told()).toMatchObject([
      { type: "Warning", message: expect.stringContaining("dev.01jd0000000000000000000009.bbbbbbb") },
    ]);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("is no news where the status has moved on", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await sweepForAnHour();
    expect(await told()).toEqual([]);
  });
});

describe("an AnalysisRun that calls itself Successful although no measurement was", () => {
  const metric = (name: string, dryRun: boolean, successful: number) => ({
    name,
    phase: "Successful",
    dryRun,
    count: 5,
    successful,
    failed: 3,
    error: 2,
  });
  const end = async (...metricResults: object[]) => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const [run] = await bench.kargo.listRuns("dev");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Successful", metricResults });
    await bench.quiesce();
    return (await bench.verifications("dev"))[0];
  };

  it("is taken at its word, and its verification is marked as unsupported", async () => {
    expect(await end(metric("job", false, 0))).toMatchObject({
      phase: "Successful",
      reason: "Unsupported",
      message: expect.stringContaining("although none of its measurements was"),
    });
  });

  it("is clean with one that was, and where only dry runs failed", async () => {
    const verification = await end(metric("job", false, 1), metric("trial", true, 0));
    expect(verification?.phase).toBe("Successful");
    expect(verification?.reason).toBeUndefined();
  });
});
