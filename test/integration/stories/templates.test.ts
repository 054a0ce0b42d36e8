import { describe, expect, it } from "vitest";
import { A, B, bench, onlyRun, send, setScene } from "./scene.ts";

setScene();

const probe = (url: string) => [{ name: "probe", provider: { web: { url } } }];
const OLD = probe("http://127.0.0.1:1");
const NEW = probe("http://127.0.0.1:2");

const verifications = (stage = "dev") => bench.verifications(stage);
const drifted = async (stage = "dev") => (await verifications(stage)).map((v) => v.drift !== undefined);

/** The head itself: a listing does not copy what a run was made of. */
const templatesOf = async (stage: string, index: number) => {
  const id = (await verifications(stage))[index]?.id ?? "";
  return (await bench.ledger.readVerification(bench.key(stage), id))?.verification.templates;
};

async function verify(stage = "dev"): Promise<void> {
  await bench.kargo.promote(stage, [{ name: A }]);
  await bench.quiesce();
  const [run] = await bench.kargo.listRuns(stage);
  await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Successful" });
  await bench.quiesce();
}

describe("a verification", () => {
  it("keeps of what templates it was made: name, generation and hash, nested ones too", async () => {
    await bench.kargo.createClusterTemplate("inner", { metrics: probe("http://127.0.0.1:9") });
    await bench.kargo.createTemplate("outer", {
      templates: [{ templateName: "inner", clusterScope: true }],
      metrics: [{ name: "own", provider: { web: { url: "http://127.0.0.1:1" } } }],
    });
    await bench.kargo.createStage("qa", { verification: { analysisTemplates: [{ name: "outer" }] } });
    await verify("qa");
    expect(await templatesOf("qa", 0)).toEqual([
      {
        kind: "AnalysisTemplate",
        name: "outer",
        generation: 1,
        hash: expect.stringMatching(/^[0-9a-f]{12}$/),
      },
      { kind: "ClusterAnalysisTemplate", name: "inner", generation: 1, hash: expect.any(String) },
    ]);
    const [run] = await bench.kargo.listRuns("qa");
    expect(run?.metadata.annotations).toHaveProperty(["tallyman.dev/templates"]);
  });
});

describe("a change of a template", () => {
  it("marks the last verification of every Stage that uses it, and of no other", async () => {
    await bench.kargo.createTemplate("other");
    await bench.kargo.createStage("qa");
    await bench.kargo.createStage("uat", { verification: { analysisTemplates: [{ name: "other" }] } });
    for (const stage of ["dev", "qa", "uat"]) await verify(stage);
    await bench.kargo.changeTemplate("smoke", NEW);
    await bench.quiesce();
    expect([await drifted("dev"), await drifted("qa"), await drifted("uat")]).toEqual([
      [true],
      [true],
      [false],
    ]);
    expect((await verifications())[0]?.drift).toMatchObject({
      templates: [{ kind: "AnalysisTemplate", name: "smoke", generation: 2 }],
    });
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("of a template that another one nests marks what was made of that one", async () => {
    await bench.kargo.createTemplate("inner", { metrics: OLD });
    await bench.kargo.createTemplate("outer", {
      templates: [{ templateName: "inner" }],
      metrics: [{ name: "own", provider: { web: { url: "http://127.0.0.1:1" } } }],
    });
    await bench.kargo.createStage("qa", { verification: { analysisTemplates: [{ name: "outer" }] } });
    await verify("qa");
    await bench.kargo.changeTemplate("inner", NEW);
    await bench.quiesce();
    expect(await drifted("qa")).toEqual([true]);
  });

  it("that is taken back takes the mark away", async () => {
    await verify();
    await bench.kargo.changeTemplate("smoke", NEW);
    await bench.quiesce();
    await bench.kargo.changeTemplate("smoke", OLD);
    await bench.quiesce();
    expect(await drifted()).toEqual([false]);
  });

  it("that only touches metadata is none", async () => {
    await verify();
    const before = bench.queue.accepted.length;
    await bench.kargo.changeTemplate("smoke", OLD);
    await bench.quiesce();
    expect(bench.queue.accepted.length).toBe(before);
    expect(await drifted()).toEqual([false]);
  });

  it("that nobody saw is found by the next sweep", async () => {
    await verify();
    bench.wrap("verify", () => async () => {});
    await bench.kargo.changeTemplate("smoke", NEW);
    await bench.quiesce();
    expect(await drifted()).toEqual([false]);
    await bench.sweep();
    expect(await drifted()).toEqual([true]);
    const { drift } = (await verifications())[0] ?? {};
    bench.clock.advance(60_000);
    await bench.sweep();
    expect((await verifications())[0]?.drift).toEqual(drift);
  });

  it("does not mark a verification that was made with it", async () => {
    await verify();
    await bench.kargo.changeTemplate("smoke", NEW);
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    await bench.sweep();
    expect((await drifted()).at(-1)).toBe(false);
  });
});

describe("a Stage that asks to be verified again when its templates change", () => {
  const annotations = { "tallyman.dev/on-template-change": "reverify" };

  it("is, once for each change, by whatever ways the change is seen", async () => {
    await bench.kargo.createStage("qa", { annotations });
    await verify("qa");
    await bench.kargo.changeTemplate("smoke", NEW);
    await bench.quiesce();
    for (let i = 0; i < 3; i++) {
      await bench.sweep();
      await bench.quiesce();
    }
    const [first, second, ...others] = await verifications("qa");
    expect(others).toEqual([]);
    expect(second).toMatchObject({
      actor: "template-change",
      cause: { kind: "reverify", of: first?.id },
    });
    expect(await templatesOf("qa", 1)).toMatchObject([{ generation: 2 }]);
    expect(second?.drift).toBeUndefined();
  });

  it("waits for a verification that still runs", async () => {
    await bench.kargo.createStage("qa", { annotations });
    await bench.kargo.promote("qa", [{ name: A }]);
    await bench.quiesce();
    await bench.kargo.changeTemplate("smoke", NEW);
    await bench.quiesce();
    expect(await bench.kargo.listRuns("qa")).toHaveLength(1);
    const [run] = await bench.kargo.listRuns("qa");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Failed" });
    await bench.quiesce();
    expect((await verifications("qa")).map((v) => v.phase)).toEqual(["Failed", "Pending"]);
  });

  it("does not come true for a Stage that does not ask", async () => {
    await verify();
    await bench.kargo.changeTemplate("smoke", NEW);
    await bench.quiesce();
    await bench.sweep();
    await onlyRun();
    await send("reverify", "by-hand");
    await bench.quiesce();
    expect(await verifications()).toHaveLength(2);
  });
});
