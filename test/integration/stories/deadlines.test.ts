import { describe, expect, it } from "vitest";
import { ABORT_ANNOTATION, DEADLINE_ANNOTATION } from "../../../shared/cluster/annotations.ts";
import { A, B, bench, onlyRun, send, setScene, shownPhases } from "./scene.ts";

setScene();

const MINUTE = 60_000;

async function createSoak(annotations: Record<string, string>): Promise<void> {
  await bench.kargo.createStage("soak", { annotations });
}
const start = async (health?: string): Promise<void> => {
  await bench.kargo.promote("soak", [{ name: A }], health === undefined ? {} : { health });
  await bench.quiesce();
};
const verifications = () => bench.verifications("soak");

describe("a deadline", () => {
  it("that has passed ends the verification as Error, and its run is terminated", async () => {
    await createSoak({ [DEADLINE_ANNOTATION]: "30m" });
    await start();
    const [run] = await bench.kargo.listRuns("soak");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Running" });
    await bench.quiesce();
    bench.clock.advance(29 * MINUTE);
    await bench.sweep();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Running"]);
    bench.clock.advance(2 * MINUTE);
    await bench.sweep();
    await bench.quiesce();
    expect(await verifications()).toMatchObject([
      {
        phase: "Error",
        reason: "DeadlineExceeded",
        message: "it had not ended within its deadline of 30m; its AnalysisRun was terminated",
      },
    ]);
    expect((await bench.kargo.listRuns("soak"))[0]?.spec.terminate).toBe(true);
    expect(await shownPhases("soak")).toEqual([["Error"]]);
  });

  it("ends a run that nobody picks up, and a late report of the terminated run changes nothing", async () => {
    await createSoak({ [DEADLINE_ANNOTATION]: "10m" });
    await start();
    bench.clock.advance(11 * MINUTE);
    await bench.sweep();
    const [run] = await bench.kargo.listRuns("soak");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Successful", message: "Run Terminated" });
    await bench.quiesce();
    expect(await verifications()).toMatchObject([{ phase: "Error", run: { phase: "Successful" } }]);
  });

  it("does not touch a result that was there first", async () => {
    await createSoak({ [DEADLINE_ANNOTATION]: "10m" });
    await start();
    // The event of the end is lost; the sweep comes after the deadline.
    bench.wrap("verify", () => async () => {});
    const [run] = await bench.kargo.listRuns("soak");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Failed", message: "no" });
    await bench.quiesce();
    bench.clock.advance(11 * MINUTE);
    await bench.sweep();
    expect(await verifications()).toMatchObject([{ phase: "Failed", message: "no" }]);
  });

  it("does not take an abort's place", async () => {
    await createSoak({ [DEADLINE_ANNOTATION]: "10m" });
    await start();
    const [verification] = await verifications();
    await bench.kargo.annotate("soak", ABORT_ANNOTATION, verification?.id ?? "");
    await bench.quiesce();
    bench.clock.advance(11 * MINUTE);
    await bench.sweep();
    expect(await verifications()).toMatchObject([{ phase: "Aborted", reason: "AbortRequested" }]);
  });

  it("leads to a verification that can be repeated", async () => {
    await createSoak({ [DEADLINE_ANNOTATION]: "10m" });
    await start();
    bench.clock.advance(11 * MINUTE);
    await bench.sweep();
    await send("reverify", "again", { stage: "soak", actor: "ada" });
    await bench.quiesce();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Error", "Pending"]);
  });

  it("that is no duration is ignored and named in the record", async () => {
    await createSoak({ [DEADLINE_ANNOTATION]: "half an hour" });
    await start();
    bench.clock.advance(600 * MINUTE);
    await bench.sweep();
    expect(await verifications()).toMatchObject([
      {
        phase: "Pending",
        message:
          'annotation tallyman.dev/deadline: "half an hour" is ignored; write a duration such as 30m or 1h30m, or 0 for none',
      },
    ]);
  });
});

describe("a start deadline", () => {
  const key = "tallyman.dev/start-deadline";

  it("that has passed ends what could not start as Error, with what it waited for", async () => {
    await createSoak({ [key]: "30m" });
    await start("Degraded");
    bench.clock.advance(29 * MINUTE);
    await bench.sweep();
    expect(await verifications()).toEqual([]);
    bench.clock.advance(2 * MINUTE);
    await bench.sweep();
    expect(await verifications()).toMatchObject([
      {
        phase: "Error",
        reason: "StartDeadlineExceeded",
        message: "could not start within 30m: the Stage's health is Degraded, not Healthy",
      },
    ]);
    expect(await shownPhases("soak")).toEqual([["Error"]]);
    expect(await bench.kargo.listRuns("soak")).toEqual([]);
    await bench.sweep();
    expect(await verifications()).toHaveLength(1);
  });

  it("is not undone by a late recovery, which takes a reverify", async () => {
    await createSoak({ [key]: "30m" });
    await start("Suspended");
    bench.clock.advance(31 * MINUTE);
    await bench.sweep();
    await bench.kargo.setHealth("soak", "Healthy");
    await bench.quiesce();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Error"]);
    await send("reverify", "again", { stage: "soak" });
    await bench.quiesce();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Error", "Pending"]);
  });

  it("counts anew for the Freight of the next Promotion", async () => {
    await createSoak({ [key]: "30m" });
    await start("Progressing");
    bench.clock.advance(20 * MINUTE);
    await bench.kargo.promote("soak", [{ name: B }], { health: "Progressing" });
    await bench.quiesce();
    bench.clock.advance(20 * MINUTE);
    await bench.sweep();
    expect((await verifications()).map((v) => [v.phase, v.reason])).toEqual([["Aborted", "Superseded"]]);
  });

  it("does not hold for a Stage that is only slow: healthy in time, it is verified", async () => {
    await createSoak({ [key]: "30m" });
    await start("Suspended");
    bench.clock.advance(10 * MINUTE);
    await bench.kargo.setHealth("soak", "Healthy");
    await bench.quiesce();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Pending"]);
  });
});

describe("without a deadline", () => {
  it("a verification may take for ever", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await bench.kargo.setRun(await onlyRun(), { phase: "Running" });
    await bench.quiesce();
    bench.clock.advance(365 * 24 * 60 * MINUTE);
    await bench.sweep();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Running"]);
  });
});
