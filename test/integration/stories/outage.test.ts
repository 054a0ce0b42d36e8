import { describe, expect, it } from "vitest";
import { isTerminal } from "../../../shared/domain/phase.ts";
import { A, B, bench, onlyRun, send, setScene } from "./scene.ts";

setScene();

describe("an answer of the API server that is lost", () => {
  it("after it created an AnalysisRun: the run is found by its name, and there is no second one", async () => {
    bench.sandbox.faults.loseAnswers(
      1,
      (request) => request.method === "POST" && request.path.endsWith("/analysisruns"),
    );
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.drain(0);
    await bench.settle();
    await bench.drain(0);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
    expect(await bench.verifications("dev")).toEqual([]);
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Pending"]);
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("after it terminated a run, wrote a status or an Event: it is done again, and shows once", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const run = await onlyRun();
    bench.sandbox.faults.loseAnswers(
      5,
      (request) => request.method !== "GET" && !request.path.endsWith("/analysistemplates"),
    );
    await send("abort", "stop", { actor: "bo" });
    await bench.quiesce();
    bench.sandbox.faults.clear();
    await bench.kargo.setRun(run, { phase: "Successful", message: "Run Terminated" });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([
      { phase: "Aborted", run: { phase: "Successful" } },
    ]);
    const reasons = (await bench.kargo.listEvents()).map((event) => event.reason).sort();
    expect(reasons).toEqual(["FreightVerificationAborted", "FreightVerificationStarted"]);
    expect(bench.queue.deadLetters).toEqual([]);
  });
});

describe("an outage of the API server for a minute", () => {
  it("ends nothing in Error and loses nothing", async () => {
    await bench.kargo.createStage("qa");
    await bench.kargo.promote("qa", [{ name: B }]);
    await bench.quiesce();
    const [other] = await bench.verifications("qa");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.settle();
    bench.sandbox.faults.outage(true);
    await send("abort", "dark-abort", { stage: "qa", verificationId: other?.id ?? "", actor: "bo" });
    await send("reverify", "dark-reverify", { stage: "qa" });
    await bench.drain(60_000);
    expect((await bench.verifications("dev")).filter((v) => isTerminal(v.phase))).toEqual([]);
    expect(bench.queue.deadLetters).toEqual([]);
    bench.sandbox.faults.outage(false);
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Pending"]);
    await bench.kargo.setRun(await onlyRun(), { phase: "Successful" });
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Successful"]);
    const qa = await bench.verifications("qa");
    expect(qa[0]).toMatchObject({ id: other?.id, phase: "Aborted" });
    expect(qa).toHaveLength(2);
    expect(bench.queue.deadLetters).toEqual([]);
  });
});
