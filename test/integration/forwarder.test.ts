import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createForwarder, type Forwarder } from "../../functions/forwarder/forwarder.ts";
import { runSession } from "../../functions/forwarder/session.ts";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../../shared/cluster/annotations.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { Fault } from "../../shared/domain/fault.ts";
import { DEFAULT_POLICY } from "../../shared/domain/policy.ts";
import { createCheckpointStore } from "../../shared/ledger/checkpoint.ts";
import type { Message, MessageKind } from "../../shared/messages/schema.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import { silentLog, silentMeter } from "../../shared/runtime/telemetry.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { eventually } from "../engines/eventually.ts";
import { createVirtualClock } from "../engines/virtual-clock.ts";
import { createVirtualQueue } from "../engines/virtual-queue.ts";
import { type BenchTop, startBenchTop, startEngine } from "../harness/bench-top.ts";

const A = "a".repeat(40);

let engine: RunningEngine;
let bench: BenchTop;
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());
beforeEach(async () => {
  bench = await startBenchTop(engine, `watchtower-${++counter}`);
  await bench.kargo.createTemplate("smoke");
  await bench.kargo.createFreight(A);
});
afterEach(() => bench.stop());

/** A second forwarder of the bench's cluster, with a queue of its own to look at. */
function another() {
  const { cluster } = bench.key("any");
  const clock = createVirtualClock();
  const queue = createVirtualQueue(clock, cluster);
  const options = {
    cluster,
    policy: DEFAULT_POLICY,
    transport: createTransport({ server: bench.sandbox.url }),
    queue,
    clock: systemClock,
    random: Math.random,
    log: silentLog,
    meter: silentMeter,
    reflector: { backoffBaseMs: 5, backoffCapMs: 20 },
  };
  const loadOpen = async () => new Set((await bench.ledger.listOpen(cluster)).items.map((v) => v.id));
  return { queue, options, loadOpen };
}

async function untilSynced(forwarder: Forwarder): Promise<void> {
  await eventually("the forwarder has listed everything", () => forwarder.isSynced());
}

describe("the forwarder", () => {
  it("sends nothing at its start about what is settled", async () => {
    const stages = Array.from({ length: 30 }, (_, i) => `settled-${i}`);
    for (const stage of stages) {
      await bench.kargo.createStage(stage);
      await bench.kargo.promote(stage, [{ name: A }]);
    }
    await bench.quiesce();
    for (const run of await bench.kargo.listRuns())
      await bench.kargo.setRun(run.metadata.name, { phase: "Successful" });
    await bench.quiesce();
    const { queue, options, loadOpen } = another();
    const forwarder = createForwarder({ ...options, loadOpen });
    const stop = new AbortController();
    const work = forwarder.run(stop.signal);
    await untilSynced(forwarder);
    stop.abort();
    await work;
    expect(queue.accepted).toEqual([]);
  });

  it("tells of a run that began and ended before a late first list", async () => {
    const { queue, options, loadOpen } = another();
    let away = true;
    const attempts: string[] = [];
    const transport: KubernetesTransport = {
      ...options.transport,
      async request(request) {
        if (!request.path.endsWith("/analysisruns") || !away) return options.transport.request(request);
        attempts.push(request.path);
        throw new Fault("Transient", "the API server is away");
      },
    };
    const forwarder = createForwarder({ ...options, transport, loadOpen });
    const stop = new AbortController();
    const work = forwarder.run(stop.signal);
    await eventually("the first list has been tried", () => attempts.length > 0);
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const [run] = await bench.kargo.listRuns("dev");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Successful" });
    away = false;
    await untilSynced(forwarder);
    stop.abort();
    await work;
    expect(queue.accepted.map(({ message }) => message.data.observed)).toContainEqual(
      expect.objectContaining({ kind: "AnalysisRun", phase: "Successful" }),
    );
  });

  it("sends nothing for a change that only touches bookkeeping", async () => {
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const before = bench.queue.accepted.length;
    await bench.kargo.annotate("dev", "example.test/touched", "yes");
    await bench.kargo.annotate("dev", "example.test/touched", "again");
    await bench.quiesce();
    expect(bench.queue.accepted).toHaveLength(before);
  });

  it("sends one message for a Stage whose health flaps while its verification runs", async () => {
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    for (const health of ["Progressing", "Healthy", "Progressing", "Healthy"])
      await bench.kargo.setHealth("dev", health);
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("whose batch SQS accepted without an answer sends it again, and nothing is done twice", async () => {
    await bench.kargo.createStage("dev");
    const sent: number[] = [];
    const { send } = bench.queue;
    // The forwarder's answers are lost now and then, so late that the queue's own deduplication has forgotten.
    const lossy = async (kind: MessageKind, messages: readonly Message[]): Promise<void> => {
      await send(kind, messages);
      sent.push(messages.length);
      if (sent.length % 2 === 1) {
        bench.clock.advance(301_000);
        throw new Fault("Transient", "the answer of SQS was lost");
      }
    };
    bench.queue.send = lossy;
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const [run] = await bench.kargo.listRuns("dev");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Successful" });
    await bench.quiesce();
    const ids = bench.queue.accepted.map(({ message }) => message.id);
    expect(ids.length).toBeGreaterThan(new Set(ids).size);
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Successful" }]);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
    expect((await bench.kargo.listEvents()).map((event) => event.reason).sort()).toEqual([
      "FreightVerificationStarted",
      "FreightVerificationSucceeded",
    ]);
  });

  it("beside a second one that sends the same under other ids: one command, one verification, one Event", async () => {
    await bench.kargo.createStage("dev");
    const { options, loadOpen } = another();
    const twin = createForwarder({
      ...options,
      loadOpen,
      queue: {
        ...bench.queue,
        send: (kind, messages) =>
          bench.queue.send(
            kind,
            messages.map((message) => ({ ...message, id: `${message.id}-twin`, source: "twin" })),
          ),
      },
    });
    const stop = new AbortController();
    const work = twin.run(stop.signal);
    await untilSynced(twin);
    /** Quiet only when both have seen all there is. */
    const quiesce = async () => {
      for (let before = -1; before !== bench.queue.accepted.length; ) {
        before = bench.queue.accepted.length;
        const target = BigInt(bench.sandbox.store.stats().resourceVersion);
        await eventually("the second forwarder has caught up", () => {
          const seen = twin.resourceVersions();
          return ["stages", "analysisruns"].every((each) => BigInt(seen[each] ?? "0") >= target);
        });
        await bench.quiesce();
      }
    };
    await bench.kargo.promote("dev", [{ name: A }]);
    await quiesce();
    const [first] = await bench.verifications("dev");
    await bench.kargo.setRun(first?.run?.name ?? "", { phase: "Failed", message: "no" });
    await quiesce();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, first?.id ?? "");
    await quiesce();
    const [, second] = await bench.verifications("dev");
    await bench.kargo.annotate("dev", ABORT_ANNOTATION, second?.id ?? "");
    await quiesce();
    stop.abort();
    await work;
    expect(bench.queue.accepted.filter(({ message }) => message.source === "twin")).not.toEqual([]);
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Failed", "Aborted"]);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(2);
    const reasons = (await bench.kargo.listEvents()).map((event) => event.reason);
    expect(reasons.filter((reason) => reason.startsWith("FreightVerification")).sort()).toEqual([
      "FreightVerificationAborted",
      "FreightVerificationFailed",
      "FreightVerificationStarted",
      "FreightVerificationStarted",
    ]);
  });

  it("does not advance its checkpoint before SQS has accepted", async () => {
    await bench.kargo.createStage("dev");
    const { queue, options, loadOpen } = another();
    const forwarder = createForwarder({ ...options, loadOpen });
    const stop = new AbortController();
    const work = forwarder.run(stop.signal);
    await untilSynced(forwarder);
    const before = BigInt(forwarder.resourceVersions().stages ?? "0");
    queue.refuse(new Fault("Transient", "SQS is away"));
    await bench.kargo.promote("dev", [{ name: A }], { health: null });
    const written = BigInt((await bench.kargo.getStage("dev")).metadata.resourceVersion);
    await bench.settle();
    const during = BigInt(forwarder.resourceVersions().stages ?? "0");
    expect(during).toBeGreaterThanOrEqual(before);
    expect(during).toBeLessThan(written);
    queue.refuse(undefined);
    await eventually("the message was accepted", () => queue.accepted.length > 0);
    await eventually(
      "the checkpoint followed",
      () => BigInt(forwarder.resourceVersions().stages ?? "0") >= written,
    );
    stop.abort();
    await work;
  });

  it("counts nothing as sent when it is stopped while SQS is away", async () => {
    await bench.kargo.createStage("dev");
    const { queue, options, loadOpen } = another();
    const forwarder = createForwarder({ ...options, loadOpen });
    const stop = new AbortController();
    const work = forwarder.run(stop.signal);
    await untilSynced(forwarder);
    queue.refuse(new Fault("Transient", "SQS is away"));
    await bench.kargo.promote("dev", [{ name: A }], { health: null });
    const written = BigInt((await bench.kargo.getStage("dev")).metadata.resourceVersion);
    await bench.settle();
    stop.abort();
    await work;
    expect(BigInt(forwarder.resourceVersions().stages ?? "0")).toBeLessThan(written);
  });
});

describe("windows of a forwarder", () => {
  it("go on where the one before stopped, and miss nothing in between, deletions included", async () => {
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const { queue, options } = another();
    const checkpoints = createCheckpointStore(engine.client, engine.table);
    const session = { ...options, ledger: bench.ledger, checkpoints, resume: true, exclusive: true };
    async function window(owner: string): Promise<boolean> {
      const stop = new AbortController();
      let running: Forwarder | undefined;
      const work = runSession(
        { ...session, owner, onRunning: (forwarder) => (running = forwarder) },
        stop.signal,
      );
      const target = BigInt(bench.sandbox.store.stats().resourceVersion);
      await eventually("the window has caught up", () => {
        const seen = running?.resourceVersions() ?? {};
        return ["stages", "analysisruns"].every((each) => BigInt(seen[each] ?? "0") >= target);
      });
      stop.abort();
      return work;
    }
    expect(await window("one")).toBe(true);
    const listed = queue.accepted.length;
    const [run] = await bench.kargo.listRuns("dev");
    await bench.kargo.deleteRun(run?.metadata.name ?? "");
    expect(await window("one")).toBe(true);
    const observed = queue.accepted.slice(listed).map((each) => each.message.data.observed);
    expect(observed).toMatchObject([{ kind: "AnalysisRun", deleted: true }]);
  });

  it("do not overlap: one that finds the lease held leaves at once", async () => {
    const { options } = another();
    const checkpoints = createCheckpointStore(engine.client, engine.table);
    const session = { ...options, ledger: bench.ledger, checkpoints, resume: true, exclusive: true };
    const stop = new AbortController();
    const first = runSession({ ...session, owner: "one" }, stop.signal);
    await eventually("the first has its lease", () => true);
    while ((await checkpoints.read(options.cluster)) === undefined) await systemClock.sleep(1);
    expect(await runSession({ ...session, owner: "two" }, new AbortController().signal)).toBe(false);
    stop.abort();
    expect(await first).toBe(true);
  });
});
