import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../../shared/cluster/annotations.ts";
import { arbitraryRandom } from "../engines/arbitrary-random.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import type { Disorder } from "../engines/virtual-queue.ts";
import { type BenchTop, startBenchTop, startEngine } from "../harness/bench-top.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);
const STAGES = ["dev", "qa", "prod"];
/** Time in which a step's first copies are handled; the second ones come up to hours later. */
const STEP_MS = 600_000;
const COPIES_MS = 7_200_000;

let engine: RunningEngine;
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());

/** One story in three Stages at once; every step's messages are in flight together. */
async function tell(disorder: Disorder | undefined) {
  const bench = await startBenchTop(engine, `tide-${++counter}`, { disorder });
  const { kargo } = bench;
  const inEachStage = (act: (stage: string) => Promise<unknown>) => Promise.all(STAGES.map(act));
  const step = async (act: (stage: string) => Promise<unknown>): Promise<void> => {
    bench.clock.advance(1_000);
    await inEachStage(act);
    // Until this step's own messages are done; copies of older ones drop in between.
    for (let quiet = false; !quiet; ) {
      await bench.settle();
      const before = bench.queue.accepted.length;
      await bench.drain(STEP_MS);
      await bench.settle();
      quiet = bench.queue.accepted.length === before;
    }
  };
  const latest = async (stage: string) => {
    const last = (await bench.verifications(stage)).at(-1);
    if (last?.run === undefined) throw new Error(`${stage}: no run`);
    return { id: last.id, run: last.run.name };
  };
  const measured = (count: number) => ({
    phase: "Running",
    metricResults: [{ name: "probe", phase: "Running", count, successful: count, measurements: [] }],
  });
  try {
    await kargo.createTemplate("smoke");
    await kargo.createFreight(A);
    await kargo.createFreight(B);
    await inEachStage((stage) => kargo.createStage(stage));
    await step((stage) => kargo.promote(stage, [{ name: A }]));
    await step(async (stage) => {
      const { run } = await latest(stage);
      // Several sights of one run in flight at once: the newest has to win, whichever comes first.
      for (const count of [0, 1, 2, 3]) {
        await kargo.setRun(run, measured(count));
        await bench.settle();
      }
    });
    await step(async (stage) => kargo.annotate(stage, REVERIFY_ANNOTATION, (await latest(stage)).id));
    await step(async (stage) => kargo.setRun((await latest(stage)).run, { phase: "Failed", message: "no" }));
    await step(async (stage) => kargo.setRun((await latest(stage)).run, measured(1)));
    await step(async (stage) =>
      kargo.annotate(stage, ABORT_ANNOTATION, JSON.stringify({ id: (await latest(stage)).id, actor: "bo" })),
    );
    await step(async (stage) =>
      kargo.setRun((await latest(stage)).run, { phase: "Successful", message: "Run Terminated" }),
    );
    await step((stage) => kargo.promote(stage, [{ name: B }]));
    await step(async (stage) => kargo.setRun((await latest(stage)).run, { phase: "Successful" }));
    // All copies, however late.
    await bench.drain(10 * COPIES_MS);
    await bench.settle();
    return { outcome: await Promise.all(STAGES.map((stage) => describeStage(bench, stage))), bench };
  } finally {
    await bench.stop();
  }
}

/** What the ledger and the cluster hold, without what hangs on time and on the cluster's uids. */
async function describeStage(bench: BenchTop, stage: string) {
  const { items } = await bench.ledger.listHistory(bench.key(stage), { limit: 1000 });
  const verifications = await bench.verifications(stage);
  const details = await Promise.all(verifications.map((v) => bench.ledger.describeVerification(v.key, v.id)));
  const { status } = await bench.kargo.getStage(stage);
  return {
    verifications: verifications.map((v) => ({
      cause: v.cause.kind,
      freight: v.collection.freight.map((f) => f.name),
      outcome: [v.phase, v.reason, v.message, v.abort?.actor, v.run?.phase],
    })),
    transitions: details.map((each) => each?.transitions.map((t) => t.phase)),
    counts: details.map((each) => each?.verification.counts?.count),
    requests: items
      .flatMap((e) => (e.kind === "request" ? [`${e.request.kind} ${e.request.outcome}`] : []))
      .sort(),
    shown: status?.freightHistory?.map((item) => item.verificationHistory?.map((each) => each.phase)),
    runs: (await bench.kargo.listRuns(stage)).length,
    open: (await bench.ledger.listOpen(bench.key(stage).cluster)).items.length,
    deadLetters: bench.queue.deadLetters.map((letter) => letter.reasons),
  };
}

describe("every message delivered twice and in any order", () => {
  it("leaves the ledger that once and in order leaves", async () => {
    const { outcome: inOrder } = await tell(undefined);
    expect(inOrder[0]?.verifications.map((v) => v.outcome[0])).toEqual(["Failed", "Aborted", "Successful"]);
    expect(inOrder[0]?.open).toBe(0);
    await fc.assert(
      fc.asyncProperty(arbitraryRandom, async (random) => {
        const { outcome } = await tell({ random, copiesWithinMs: COPIES_MS });
        expect(outcome).toEqual(inOrder);
      }),
      { numRuns: 12 },
    );
  });
});
