import { describe, expect, it } from "vitest";
import { Fault } from "../../../shared/domain/fault.ts";
import { A, B, bench, setScene } from "./scene.ts";

setScene();

/** Freight of which an Event says that it passed. */
const passed = async () =>
  (await bench.kargo.listEvents())
    .filter(({ metadata }) => metadata.annotations["event.kargo.akuity.io/stage-name"] === "fan")
    .map(({ involvedObject, reason }) => `${reason} ${involvedObject.name}`)
    .sort();
const success = (freight: string) => `FreightVerificationSucceeded ${freight}`;

describe("a Stage of control flow", () => {
  it("verifies Freight at once, with one Event each, and runs nothing", async () => {
    await bench.kargo.createStage("fan", { controlFlow: true });
    await bench.sweep();
    for (const freight of [A, B]) {
      expect(await bench.kargo.getFreight(freight)).toHaveProperty("status.verifiedIn.fan.verifiedAt");
    }
    expect(await passed()).toEqual([success(A), success(B)]);
    expect(await bench.kargo.listRuns("fan")).toEqual([]);
    expect(await bench.verifications("fan")).toEqual([]);
  });

  it("skips what is verified already: neither its time nor its Event comes again", async () => {
    await bench.kargo.createStage("fan", { controlFlow: true });
    await bench.sweep();
    const before = await bench.kargo.getFreight(A);
    bench.clock.advance(60_000);
    await bench.sweep();
    expect(await bench.kargo.getFreight(A)).toEqual(before);
    expect(await passed()).toHaveLength(2);
  });

  it("waits for the Stages before it", async () => {
    await bench.kargo.createStage("fan", { controlFlow: true, upstream: ["dev"] });
    await bench.sweep();
    expect(await passed()).toEqual([]);
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const [run] = await bench.kargo.listRuns("dev");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Successful" });
    await bench.quiesce();
    await bench.sweep();
    expect(await passed()).toEqual([success(A)]);
  });

  it("continues on a patch error, and marks that Freight with the next sweep", async () => {
    await bench.kargo.createStage("fan", { controlFlow: true });
    const cluster = bench.world.findCluster(bench.key("fan").cluster);
    const { patchStatus } = cluster;
    let away = true;
    Object.assign(cluster, {
      async patchStatus(...[kind, project, name, patch]: Parameters<typeof patchStatus>) {
        // The API server answers for one Freight and not for the other, which no real one can be made to do.
        if (away && name === A) throw new Fault("Transient", "the API server is away");
        return patchStatus(kind, project, name, patch);
      },
    });
    const report = await bench.sweep();
    expect(report.failures.join()).toContain(`Freight ${A}: the API server is away`);
    expect(await passed()).toEqual([success(B)]);
    away = false;
    await bench.sweep();
    expect(await passed()).toEqual([success(A), success(B)]);
  });

  it("is left alone where another verifier serves it", async () => {
    const annotations = { "tallyman.dev/mode": "companion" };
    await bench.kargo.createStage("fan", { controlFlow: true, annotations });
    await bench.sweep();
    expect(await passed()).toEqual([]);
  });
});
