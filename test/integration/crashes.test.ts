import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { MessageKind } from "../../shared/messages/schema.ts";
import { handleAbort, handleReverify, handleVerify } from "../../shared/operations/message.ts";
import { type CrashPlan, createCrashPoints } from "../engines/crash-points.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop, startEngine } from "../harness/bench-top.ts";
import { PROJECT } from "../harness/workbench.ts";

const A = "a".repeat(40);

let engine: RunningEngine;
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());

/** What must be the same whether or not a handler died: everything but ids that hang on the cluster's uids. */
async function describeOutcome(bench: BenchTop) {
  const verifications = await bench.verifications("dev");
  const runs = await bench.kargo.listRuns("dev");
  const stage = await bench.kargo.getStage("dev");
  const history = await bench.ledger.listHistory(bench.key("dev"));
  const details = await Promise.all(verifications.map((v) => bench.ledger.describeVerification(v.key, v.id)));
  return {
    verifications: verifications.map((v) => [v.cause.kind, v.phase, v.reason, v.actor, v.run?.phase]),
    transitions: details.map((each) => each?.transitions.map((t) => t.phase)),
    // Names are derived from uids, so their order says nothing.
    runs: runs.map((run) => `${run.status?.phase} terminate=${run.spec.terminate ?? false}`).sort(),
    shown: stage.status?.freightHistory?.map((item) => item.verificationHistory?.map((each) => each.phase)),
    verifiedIn: Object.hasOwn((await bench.kargo.getFreight(A)).status ?? {}, "verifiedIn"),
    requests: history.items.flatMap((e) =>
      e.kind === "request" ? [[e.request.requestId, e.request.outcome]] : [],
    ),
    latest: (await bench.ledger.readStage(bench.key("dev"))).latest !== undefined,
    deadLetters: bench.queue.deadLetters.length,
  };
}

/**
 * Tells a story in which each step's messages are handled by something that may die at the planned call of the
 * planned step, and comes back by redelivery alone.
 */
async function tell(step: number, plan: CrashPlan | undefined) {
  const bench = await startBenchTop(engine, `wreck-${++counter}`);
  const points = createCrashPoints();
  const cluster = points.guard(bench.world.findCluster(bench.key("dev").cluster), "cluster");
  const world = { ...bench.world, ledger: points.guard(bench.ledger, "ledger"), findCluster: () => cluster };
  const key = bench.key("dev");
  bench.wrap("verify", () => (message, delivery) => handleVerify(world, key, message, delivery));
  bench.wrap("reverify", () => (message, delivery) => handleReverify(world, key, message, delivery));
  bench.wrap("abort", () => (message, delivery) => handleAbort(world, key, message, delivery));

  const send = (kind: MessageKind, id: string, verificationId?: string) =>
    bench.queue.send(kind, [
      buildMessage(
        kind,
        { id, source: "test", time: new Date(bench.clock.now()) },
        {
          project: PROJECT,
          stage: "dev",
          actor: "ada",
          ...(verificationId === undefined ? {} : { verificationId }),
        },
      ),
    ]);
  const lastRun = async (): Promise<string> => {
    const last = (await bench.verifications("dev")).at(-1)?.run?.name;
    if (last === undefined) throw new Error("no run");
    return last;
  };
  const steps: (() => Promise<unknown>)[] = [
    () => bench.kargo.promote("dev", [{ name: A }]),
    async () => bench.kargo.setRun(await lastRun(), { phase: "Running" }),
    () => send("reverify", "waits"),
    async () => bench.kargo.setRun(await lastRun(), { phase: "Successful" }),
    async () => bench.kargo.setRun(await lastRun(), { phase: "Running" }),
    () => send("abort", "stops"),
    async () => bench.kargo.setRun(await lastRun(), { phase: "Successful", message: "Run Terminated" }),
    () => send("reverify", "again"),
    async () => bench.kargo.setRun(await lastRun(), { phase: "Failed", message: "no" }),
  ];
  try {
    await bench.kargo.createTemplate("smoke");
    await bench.kargo.createFreight(A);
    await bench.kargo.createStage("dev");
    let calls: readonly string[] = [];
    for (const [index, act] of steps.entries()) {
      bench.clock.advance(1_000);
      await act();
      await bench.settle();
      points.arm(index === step ? plan : undefined);
      // The first delivery may die; whoever takes over is another process, with nothing armed.
      await bench.drain(0);
      const struck = points.struck();
      if (index === step) calls = [...points.calls];
      points.arm(undefined);
      await bench.quiesce();
      if (index === step && plan !== undefined && !struck) return { outcome: undefined, calls };
    }
    return { outcome: await describeOutcome(bench), calls };
  } finally {
    await bench.stop();
  }
}

const STEPS = [
  "the start of a verification",
  "the run's first sign of life",
  "a reverify that has to wait",
  "the end that the reverify waited for",
  "the successor's first sign of life",
  "an abort",
  "the terminated run's own end",
  "a reverify of what was aborted",
  "a failure",
];

describe("a handler that dies", () => {
  it.each(STEPS.map((name, index) => [name, index] as const))(
    "before or after any call during %s leaves what an undisturbed one leaves",
    async (_name, step) => {
      const undisturbed = await tell(step, undefined);
      expect(undisturbed.outcome?.verifications).toEqual([
        ["promotion", "Successful", undefined, undefined, "Successful"],
        ["request", "Aborted", "AbortRequested", "ada", "Successful"],
        ["request", "Failed", undefined, "ada", "Failed"],
      ]);
      expect(undisturbed.outcome?.runs).toHaveLength(3);
      for (let call = 1; call <= undisturbed.calls.length; call++) {
        for (const when of ["before", "after"] as const) {
          const { outcome } = await tell(step, { call, when });
          expect(outcome, `died ${when} ${undisturbed.calls[call - 1]}`).toEqual(undisturbed.outcome);
        }
      }
    },
    120_000,
  );
});
