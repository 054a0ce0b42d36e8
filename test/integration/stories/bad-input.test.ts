import { describe, expect, it } from "vitest";
import { PROJECT } from "../../harness/workbench.ts";
import { A, bench, onlyRun, send, setScene, shownPhases } from "./scene.ts";

setScene();

describe("bad input has a named outcome", () => {
  it("a template that does not exist: Error naming it", async () => {
    await bench.kargo.createStage("lost", { verification: { analysisTemplates: [{ name: "nowhere" }] } });
    await bench.kargo.promote("lost", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("lost")).toMatchObject([
      {
        phase: "Error",
        reason: "CannotBuild",
        message: `AnalysisTemplate ${PROJECT}/nowhere does not exist`,
      },
    ]);
    expect(await shownPhases("lost")).toEqual([["Error"]]);
  });

  it("an argument without a value: Error naming it", async () => {
    await bench.kargo.createTemplate("needy", {
      args: [{ name: "service" }],
      metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1" } } }],
    });
    await bench.kargo.createStage("needy", { verification: { analysisTemplates: [{ name: "needy" }] } });
    await bench.kargo.promote("needy", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("needy")).toMatchObject([
      { phase: "Error", message: expect.stringContaining("service") },
    ]);
  });

  it("a poison message: dead letter with its reasons, the group goes on", async () => {
    bench.queue.sendText("verify", "{nonsense", `${bench.key("dev").cluster}/${PROJECT}/dev`);
    bench.queue.sendText(
      "verify",
      JSON.stringify({ specversion: "1.0", type: "dev.tallyman.verify" }),
      "elsewhere",
    );
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    expect(bench.queue.deadLetters.map((letter) => letter.receiveCount)).toEqual([1, 1]);
    expect(bench.queue.deadLetters[0]?.reasons[0]).toContain("not JSON");
    expect(bench.queue.deadLetters[1]?.reasons.join()).toMatch(/id: .*source: .*data: /);
    expect(await bench.verifications("dev")).toHaveLength(1);
  });

  it("an AnalysisRun of 2 MB: its end is recorded, bounded", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const measurements = Array.from({ length: 4_000 }, (_, i) => ({
      phase: "Error",
      message: `refused ${i} ${"x".repeat(200)}`,
    }));
    await bench.kargo.setRun(await onlyRun(), {
      phase: "Error",
      message: "too many errors",
      metricResults: [{ name: "probe", phase: "Error", error: 4_000, count: 4_000, measurements }],
    });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    expect(verification).toMatchObject({ phase: "Error", message: "too many errors" });
    const description = await bench.ledger.describeVerification(bench.key("dev"), verification?.id ?? "");
    expect(description?.transitions.at(-1)?.run?.metrics[0]).toMatchObject({ error: 4_000 });
    expect(JSON.stringify(description).length).toBeLessThan(100_000);
  });

  it("a message for a cluster that is not ours: dead letter naming it", async () => {
    await send("verify", "stray-1", { cluster: "elsewhere" });
    await bench.quiesce();
    expect(bench.queue.deadLetters[0]?.reasons[0]).toContain("elsewhere");
  });

  it("a reverify of a Stage that does not exist: refused, in the history", async () => {
    await send("reverify", "ghost-1", { stage: "ghost", actor: "ada" });
    await bench.quiesce();
    expect(await bench.ledger.readRequest(bench.key("ghost"), "ghost-1")).toMatchObject({
      outcome: "refused",
    });
  });
});
