import { describe, expect, it } from "vitest";
import { A, B, bench, setScene } from "./scene.ts";

setScene();

const verifiedIn = async (freight: string) =>
  ((await bench.kargo.getFreight(freight)) as { status?: { verifiedIn?: Record<string, object> } }).status
    ?.verifiedIn ?? {};

async function start(...freight: { name: string; origin?: string }[]): Promise<string> {
  await bench.kargo.promote("dev", freight);
  await bench.quiesce();
  const runs = await bench.kargo.listRuns("dev");
  return runs.at(-1)?.metadata.name ?? "";
}

async function end(run: string, phase = "Successful"): Promise<void> {
  await bench.kargo.setRun(run, { phase });
  await bench.quiesce();
}

describe("a verification that passed", () => {
  it("marks every Freight of its collection", async () => {
    await end(await start({ name: A, origin: "Warehouse/lamps" }, { name: B, origin: "Warehouse/bells" }));
    expect(await verifiedIn(A)).toHaveProperty("dev");
    expect(await verifiedIn(B)).toHaveProperty("dev");
  });

  it("marks its Freight although the Stage is unhealthy by then: it was healthy at the start, and that counts", async () => {
    const run = await start({ name: A });
    await bench.kargo.setHealth("dev", "Unhealthy");
    await end(run);
    expect(await verifiedIn(A)).toHaveProperty("dev");
  });

  it("keeps the first time when it is repeated, and loses nothing when the repetition fails", async () => {
    await end(await start({ name: A }));
    const before = await verifiedIn(A);
    bench.clock.advance(60_000);
    await end(await start({ name: A }), "Failed");
    bench.clock.advance(60_000);
    await end(await start({ name: A }));
    expect(await verifiedIn(A)).toEqual(before);
  });

  it("marks what is left when one of its Freight is gone", async () => {
    const run = await start({ name: A, origin: "Warehouse/lamps" }, { name: B, origin: "Warehouse/bells" });
    await bench.kargo.deleteFreight(A);
    await end(run);
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Successful"]);
    expect(await verifiedIn(B)).toHaveProperty("dev");
    expect(bench.queue.deadLetters).toEqual([]);
  });
});

describe("a verification that did not pass", () => {
  it.each(["Failed", "Error", "Inconclusive"])("with %s marks nothing", async (phase) => {
    await end(await start({ name: A }), phase);
    expect(await verifiedIn(A)).toEqual({});
  });
});

describe("Freight that is gone before its verification can start", () => {
  it("is an Error that names it", async () => {
    await bench.kargo.deleteFreight(A);
    await start({ name: A });
    expect(await bench.verifications("dev")).toMatchObject([
      { phase: "Error", reason: "CannotBuild", message: expect.stringContaining(`Freight lighthouse/${A}`) },
    ]);
  });
});
