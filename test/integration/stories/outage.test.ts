import { describe, expect, it } from "vitest";
import { isTerminal } from "../../../shared/domain/phase.ts";
import { A, B, bench, onlyRun, send, setScene } from "./scene.ts";

setScene();

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
