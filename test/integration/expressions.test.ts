import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop, startEngine } from "../harness/bench-top.ts";

/** Arguments of a verification that name what the Freight consists of, from the watch event to the AnalysisRun. */
const FIRST = "a".repeat(40);
const SECOND = "b".repeat(40);
const LAMP = "registry.example.test/harbour/lamp";
const GIT = "https://git.example.test/harbour/lamp.git";

const wrap = (body: string): string => `\${{ ${body} }}`;

let engine: RunningEngine;
let bench: BenchTop;
let counter = 0;

beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());
beforeEach(async () => {
  bench = await startBenchTop(engine, `expressions-${++counter}`);
  await bench.kargo.createTemplate("smoke", {
    args: [{ name: "image" }, { name: "commit" }],
    metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1" } } }],
  });
  await bench.kargo.createFreight(FIRST);
  await bench.kargo.createFreight(SECOND);
  await bench.kargo.createStage("dev", {
    vars: [{ name: "lamp", value: LAMP }],
    verification: {
      analysisTemplates: [{ name: "smoke" }],
      args: [
        { name: "image", value: `${wrap("vars.lamp")}:${wrap("imageFrom(vars.lamp).Tag")}` },
        { name: "commit", value: wrap(`quote(commitFrom("${GIT}")?.ID[:7] ?? "none")`) },
      ],
    },
  });
});
afterEach(() => bench.stop());

async function argsOf(): Promise<(readonly unknown[] | undefined)[]> {
  return (await bench.kargo.listRuns("dev")).map((run) => run.spec.args);
}

describe("an AnalysisRun's arguments", () => {
  it("hold the tag of the image that was promoted, and of the next one after it", async () => {
    const images = [{ repoURL: LAMP, tag: "v1.4.2", digest: "sha256:abc" }];
    const commits = [{ repoURL: GIT, id: "ab12345".repeat(5) }];
    await bench.kargo.promote("dev", [{ name: FIRST, images, commits }]);
    await bench.quiesce();
    const first = [
      { name: "image", value: `${LAMP}:v1.4.2` },
      { name: "commit", value: "ab12345" },
    ];
    expect(await argsOf()).toEqual([first]);

    await bench.kargo.promote("dev", [{ name: SECOND, images: [{ repoURL: LAMP, tag: "v1.5.0" }] }]);
    await bench.quiesce();
    const second = [
      { name: "image", value: `${LAMP}:v1.5.0` },
      { name: "commit", value: "none" },
    ];
    expect(await argsOf()).toHaveLength(2);
    expect(await argsOf()).toEqual(expect.arrayContaining([first, second]));
    // The ledger holds names and origins, whatever the Freight consists of.
    for (const { collection } of await bench.verifications("dev")) {
      expect(collection.freight.map((freight) => Object.keys(freight).sort())).toEqual([["name", "origin"]]);
    }
  });

  it("that ask for what the Freight has not make an Error that names argument and image, and no AnalysisRun", async () => {
    await bench.kargo.promote("dev", [{ name: FIRST }]);
    await bench.quiesce();
    expect(await argsOf()).toEqual([]);
    const [verification] = await bench.verifications("dev");
    expect(verification).toMatchObject({ phase: "Error", reason: "CannotBuild" });
    expect(verification?.message).toContain('argument "image"');
    expect(verification?.message).toContain(`no Freight with image ${LAMP}`);
  });
});
