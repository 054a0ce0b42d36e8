import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { buildMessage } from "../../../shared/messages/codec.ts";
import type { MessageData, MessageKind } from "../../../shared/messages/schema.ts";
import type { RunningEngine } from "../../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop, startEngine } from "../../harness/bench-top.ts";
import type { HistoryItem } from "../../harness/kargo-actor.ts";
import { PROJECT } from "../../harness/workbench.ts";

export const A = "a".repeat(40);
export const B = "b".repeat(40);

/** A bench with a Stage `dev`, two pieces of Freight and a template, new for each test. */
export let bench: BenchTop;

/** Sets the scene for every test of the file that calls it. */
export function setScene(): void {
  let engine: RunningEngine;
  let counter = 0;
  beforeAll(async () => {
    engine = await startEngine();
  });
  afterAll(() => engine.stop());
  beforeEach(async () => {
    bench = await startBenchTop(engine, `harbour-${++counter}`);
    await bench.kargo.createTemplate("smoke");
    await bench.kargo.createFreight(A);
    await bench.kargo.createFreight(B);
    await bench.kargo.createStage("dev");
  });
  afterEach(() => bench.stop());
}

/** What a Stage's status shows: per FreightCollection, newest first, the phases of its verifications. */
export async function shownPhases(stage: string): Promise<string[][]> {
  const { status } = await bench.kargo.getStage(stage);
  return (status?.freightHistory ?? []).map((item: HistoryItem) =>
    (item.verificationHistory ?? []).map((each) => each.phase),
  );
}

export async function send(kind: MessageKind, id: string, data: Partial<MessageData> = {}): Promise<void> {
  const envelope = { id, source: "test/somebody", time: new Date(bench.clock.now()) };
  await bench.queue.send(kind, [buildMessage(kind, envelope, { project: PROJECT, stage: "dev", ...data })]);
}

export async function onlyRun() {
  const [run, ...others] = await bench.kargo.listRuns("dev");
  expect(others).toEqual([]);
  if (run === undefined) throw new Error("no AnalysisRun");
  return run.metadata.name;
}
