import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../../shared/cluster/annotations.ts";
import { isTerminal } from "../../shared/domain/phase.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { MessageData, MessageKind } from "../../shared/messages/schema.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop, startEngine } from "../harness/bench-top.ts";
import type { HistoryItem } from "../harness/kargo-actor.ts";
import { PROJECT } from "../harness/workbench.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);

let engine: RunningEngine;
let bench: BenchTop;
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

/** What a Stage's status shows: per FreightCollection, newest first, the phases of its verifications. */
async function shownPhases(stage: string): Promise<string[][]> {
  const { status } = await bench.kargo.getStage(stage);
  return (status?.freightHistory ?? []).map((item: HistoryItem) =>
    (item.verificationHistory ?? []).map((each) => each.phase),
  );
}

async function send(kind: MessageKind, id: string, data: Partial<MessageData> = {}): Promise<void> {
  const envelope = { id, source: "test/somebody", time: new Date(bench.clock.now()) };
  await bench.queue.send(kind, [buildMessage(kind, envelope, { project: PROJECT, stage: "dev", ...data })]);
}

async function onlyRun() {
  const [run, ...others] = await bench.kargo.listRuns("dev");
  expect(others).toEqual([]);
  if (run === undefined) throw new Error("no AnalysisRun");
  return run.metadata.name;
}

describe("one Freight", () => {
  it("is verified from the watch event to the outcome, in the ledger, the Stage and the Freight", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const run = await onlyRun();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Pending"]);
    expect(await shownPhases("dev")).toEqual([["Pending"]]);

    await bench.kargo.setRun(run, { phase: "Running" });
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Running"]);
    expect(await shownPhases("dev")).toEqual([["Running"]]);

    await bench.kargo.setRun(run, { phase: "Successful", completedAt: "2030-01-01T00:01:00Z" });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    expect(verification).toMatchObject({ phase: "Successful", run: { name: run, phase: "Successful" } });
    expect(verification?.finishedAt).toBeGreaterThanOrEqual(
      verification?.createdAt ?? Number.POSITIVE_INFINITY,
    );
    expect(await shownPhases("dev")).toEqual([["Successful"]]);
    const { status } = await bench.kargo.getStage("dev");
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Verified", status: "True" }));
    expect(await bench.kargo.getFreight(A)).toMatchObject({
      status: { verifiedIn: { dev: { verifiedAt: expect.any(String) } } },
    });
  });

  it("waits until the Stage is healthy, and says so", async () => {
    await bench.kargo.promote("dev", [{ name: A }], { health: "Progressing" });
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toEqual([]);
    expect((await bench.ledger.readStage(bench.key("dev"))).awaiting?.reason).toContain("not Healthy");
    await bench.kargo.setHealth("dev", "Healthy");
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("that was replaced before it was healthy leaves a record that says Superseded", async () => {
    await bench.kargo.promote("dev", [{ name: A }], { health: null });
    await bench.quiesce();
    const by = await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    const [first, second] = await bench.verifications("dev");
    expect(first).toMatchObject({ phase: "Aborted", reason: "Superseded" });
    expect(first?.message).toContain(by);
    expect(second).toMatchObject({ phase: "Pending" });
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("that came and went while nobody watched leaves a record that says Superseded", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    bench.sandbox.faults.stallWatches(true);
    bench.clock.advance(1_000);
    const unseen = await bench.kargo.promote("dev", [{ name: B }]);
    bench.clock.advance(1_000);
    const current = await bench.kargo.promote("dev", [{ name: A }]);
    // A relist shows the Stage as it is now; what was between is only in its history.
    bench.sandbox.faults.stallWatches(false);
    bench.sandbox.store.compact();
    bench.sandbox.faults.dropWatches();
    await bench.quiesce();
    const [first, second, third] = await bench.verifications("dev");
    expect(first?.phase).toBe("Pending");
    expect(second).toMatchObject({ promotion: unseen, phase: "Aborted", reason: "Superseded" });
    expect(second?.message).toContain(current);
    expect(third).toMatchObject({ promotion: current, phase: "Pending" });
    expect(await shownPhases("dev")).toEqual([["Pending"], ["Aborted"], ["Pending"]]);
  });

  it("promoted again gets a verification and an AnalysisRun of its own", async () => {
    for (let i = 0; i < 2; i++) {
      await bench.kargo.promote("dev", [{ name: A }]);
      await bench.quiesce();
    }
    expect(await bench.verifications("dev")).toHaveLength(2);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(2);
  });

  it("of a Stage without verification is Successful at once, without a run", async () => {
    await bench.kargo.createStage("plain", { verification: null });
    await bench.kargo.promote("plain", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("plain")).toMatchObject([
      { phase: "Successful", reason: "NoVerificationConfigured" },
    ]);
    expect(await shownPhases("plain")).toEqual([["Successful"]]);
    expect(await bench.kargo.listRuns("plain")).toEqual([]);
  });
});

describe("several promotions before a verification ends", () => {
  it("A, B and A again: each verification reaches its own end, none stays Running, and reverify works throughout", async () => {
    for (const name of [A, B, A]) {
      await bench.kargo.promote("dev", [{ name }]);
      await bench.quiesce();
      for (const run of await bench.kargo.listRuns("dev")) {
        if ((run.status?.phase ?? "") === "")
          await bench.kargo.setRun(run.metadata.name, { phase: "Running" });
      }
      await bench.quiesce();
    }
    const started = await bench.verifications("dev");
    expect(started.map((v) => v.phase)).toEqual(["Running", "Running", "Running"]);
    const runs = started.map((v) => v.run?.name ?? "");
    expect(new Set(runs).size).toBe(3);

    // The current one is repeated while the older ones still run.
    const current = started[2];
    await bench.kargo.setRun(runs[2] ?? "", { phase: "Failed", message: "no" });
    await bench.quiesce();
    await send("reverify", "again-1", { verificationId: current?.id ?? "", actor: "ada" });
    await bench.quiesce();
    const all = await bench.verifications("dev");
    expect(all).toHaveLength(4);
    const successor = all.find((v) => v.cause.kind === "reverify");
    expect(successor).toMatchObject({ phase: "Pending", actor: "ada" });

    await bench.kargo.setRun(runs[0] ?? "", { phase: "Successful" });
    await bench.kargo.setRun(runs[1] ?? "", { phase: "Failed", message: "worse" });
    await bench.kargo.setRun(successor?.run?.name ?? "", { phase: "Successful" });
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => [v.collection.freight[0]?.name, v.phase])).toEqual([
      [A, "Successful"],
      [B, "Failed"],
      [A, "Failed"],
      [A, "Successful"],
    ]);
    expect(await shownPhases("dev")).toEqual([["Successful", "Failed"], ["Failed"], ["Successful"]]);
  });
});

describe("abort", () => {
  async function startRunning(): Promise<{ id: string; run: string }> {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const run = await onlyRun();
    await bench.kargo.setRun(run, { phase: "Running" });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    return { id: verification?.id ?? "", run };
  }

  it("wins over the Successful that the terminated run reports, and keeps the run's phase beside it", async () => {
    const { id, run } = await startRunning();
    await send("abort", "stop-1", { verificationId: id, actor: "bo", reason: "wrong image" });
    await bench.quiesce();
    expect((await bench.kargo.listRuns("dev"))[0]?.spec.terminate).toBe(true);
    await bench.kargo.setRun(run, { phase: "Successful", message: "Run Terminated" });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([
      {
        phase: "Aborted",
        reason: "AbortRequested",
        message: "Aborted by bo: wrong image",
        run: { phase: "Successful" },
      },
    ]);
    expect(await shownPhases("dev")).toEqual([["Aborted"]]);
    expect(await bench.kargo.getFreight(A)).not.toHaveProperty("status.verifiedIn.dev");
    expect(await bench.ledger.readRequest(bench.key("dev"), "stop-1")).toMatchObject({ outcome: "aborted" });
  });

  it("by annotation is done and the annotation removed", async () => {
    const { id } = await startRunning();
    await bench.kargo.annotate("dev", ABORT_ANNOTATION, JSON.stringify({ id, actor: "kubernetes:cy" }));
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([
      { phase: "Aborted", abort: { actor: "kubernetes:cy" } },
    ]);
    expect((await bench.kargo.getStage("dev")).metadata.annotations ?? {}).not.toHaveProperty([
      ABORT_ANNOTATION,
    ]);
  });

  it("that arrives after the end changes nothing and is recorded as too late", async () => {
    const { id, run } = await startRunning();
    await bench.kargo.setRun(run, { phase: "Successful" });
    await bench.quiesce();
    await send("abort", "late-1", { verificationId: id });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Successful" }]);
    expect(await bench.ledger.readRequest(bench.key("dev"), "late-1")).toMatchObject({
      outcome: "too-late",
      target: id,
    });
  });

  it("lets a result stand that the run had reached before anybody saw it", async () => {
    const { id, run } = await startRunning();
    bench.sandbox.faults.stallWatches(true);
    await bench.kargo.setRun(run, { phase: "Failed", message: "latency" });
    await send("abort", "race-1", { verificationId: id });
    await bench.drain();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Failed", message: "latency" }]);
    expect(await bench.ledger.readRequest(bench.key("dev"), "race-1")).toMatchObject({ outcome: "too-late" });
    bench.sandbox.faults.clear();
  });

  it("whose terminate call fails for a while stays recorded and is carried out later", async () => {
    const { id, run } = await startRunning();
    bench.sandbox.faults.respond(
      503,
      4,
      (request) => request.method === "PATCH" && request.path.includes("analysisruns"),
    );
    await send("abort", "flaky-1", { verificationId: id, actor: "bo" });
    await bench.drain(1_000);
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Running", abort: { actor: "bo" } }]);
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Aborted" }]);
    expect(
      (await bench.kargo.listRuns("dev")).find((each) => each.metadata.name === run)?.spec.terminate,
    ).toBe(true);
  });

  it("of a run that is gone ends Aborted", async () => {
    const { id, run } = await startRunning();
    bench.sandbox.faults.stallWatches(true);
    await bench.kargo.deleteRun(run);
    await send("abort", "gone-1", { verificationId: id });
    await bench.drain();
    expect(await bench.verifications("dev")).toMatchObject([{ phase: "Aborted" }]);
    bench.sandbox.faults.clear();
  });

  it("of a verification that is no longer the latest is refused, with the reason in the history", async () => {
    const { id } = await startRunning();
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    await send("abort", "old-1", { verificationId: id });
    await bench.quiesce();
    const history = await bench.ledger.listHistory(bench.key("dev"));
    expect(history.items).toContainEqual({
      kind: "request",
      request: expect.objectContaining({
        requestId: "old-1",
        outcome: "refused",
        message: expect.stringContaining("no longer the Stage's latest"),
      }),
    });
  });
});

describe("Freight that is replaced while its verification runs", () => {
  async function replace(annotations: Record<string, string>) {
    await bench.kargo.createStage("busy", { annotations });
    await bench.kargo.promote("busy", [{ name: A }]);
    await bench.quiesce();
    const by = await bench.kargo.promote("busy", [{ name: B }]);
    await bench.quiesce();
    return { by, verifications: await bench.verifications("busy") };
  }

  it("is followed to its end by default", async () => {
    const { verifications } = await replace({});
    expect(verifications.map((v) => v.phase)).toEqual(["Pending", "Pending"]);
  });

  it("is aborted where the Stage's policy says so, and its run is told", async () => {
    const { by, verifications } = await replace({ "tallyman.dev/on-supersede": "abort" });
    expect(verifications).toMatchObject([
      { phase: "Aborted", reason: "Superseded", message: expect.stringContaining(by) },
      { phase: "Pending" },
    ]);
    const runs = await bench.kargo.listRuns("busy");
    expect(runs.find((run) => run.metadata.name === verifications[0]?.run?.name)?.spec.terminate).toBe(true);
    expect(
      runs.find((run) => run.metadata.name === verifications[1]?.run?.name)?.spec.terminate,
    ).toBeUndefined();
    expect(await shownPhases("busy")).toEqual([["Pending"], ["Aborted"]]);
  });
});

describe("reverify", () => {
  async function endFirst(phase = "Failed"): Promise<string> {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await bench.kargo.setRun(await onlyRun(), { phase });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    return verification?.id ?? "";
  }

  it("by an annotation that cannot be cleared leads to one successor, however often it is seen", async () => {
    const id = await endFirst();
    bench.sandbox.faults.respond(
      503,
      1_000,
      (request) => request.method === "PATCH" && request.path.endsWith("/stages/dev"),
    );
    // The actor's own PATCH must pass, so the annotation is set before the fault takes hold of the rest.
    bench.sandbox.faults.clear();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, id);
    bench.sandbox.faults.respond(
      503,
      1_000,
      (request) => request.method === "PATCH" && request.path.endsWith("/stages/dev"),
    );
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
    // Seen again: after a relist, and after the successor has ended.
    bench.sandbox.faults.expireWatches();
    await bench.quiesce();
    for (const run of await bench.kargo.listRuns("dev"))
      await bench.kargo.setRun(run.metadata.name, { phase: "Successful" });
    await bench.quiesce();
    bench.clock.advance(600_000);
    await send("reverify", "seen-again", { verificationId: id });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
    expect((await bench.kargo.getStage("dev")).metadata.annotations).toHaveProperty([REVERIFY_ANNOTATION]);
  });

  it("of a verification that still runs waits for its end and then starts", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const [running] = await bench.verifications("dev");
    await send("reverify", "wait-1", { verificationId: running?.id ?? "", actor: "ada" });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(1);
    expect(await bench.ledger.readRequest(bench.key("dev"), "wait-1")).toMatchObject({ outcome: "waiting" });
    await bench.kargo.setRun(await onlyRun(), { phase: "Failed" });
    await bench.quiesce();
    const all = await bench.verifications("dev");
    expect(all.map((v) => v.phase)).toEqual(["Failed", "Pending"]);
    expect(await bench.ledger.readRequest(bench.key("dev"), "wait-1")).toMatchObject({
      outcome: "started",
      verificationId: all[1]?.id,
    });
  });

  it("while the Stage is unhealthy waits and starts when it is healthy again", async () => {
    const id = await endFirst();
    await bench.kargo.setHealth("dev", "Unhealthy");
    await send("reverify", "sick-1", { verificationId: id });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(1);
    await bench.kargo.setHealth("dev", "Healthy");
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
  });

  it("that waits when another Promotion brings other Freight is refused in the history", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await send("reverify", "void-1", {});
    await bench.quiesce();
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    expect(await bench.ledger.readRequest(bench.key("dev"), "void-1")).toMatchObject({ outcome: "refused" });
    expect(await bench.verifications("dev")).toHaveLength(2);
  });

  it("without a target repeats the latest, once for each request", async () => {
    await endFirst();
    await send("reverify", "free-1");
    await send("reverify", "free-1");
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
    for (const run of await bench.kargo.listRuns("dev"))
      await bench.kargo.setRun(run.metadata.name, { phase: "Successful" });
    await bench.quiesce();
    await send("reverify", "free-2");
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(3);
  });

  it("of something that is no verification's id is refused, and the annotation removed", async () => {
    await endFirst();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, "please run it again!");
    await bench.quiesce();
    const { items } = await bench.ledger.listHistory(bench.key("dev"));
    expect(items).toContainEqual({
      kind: "request",
      request: expect.objectContaining({
        outcome: "refused",
        message: expect.stringContaining("please run it again!"),
      }),
    });
    expect((await bench.kargo.getStage("dev")).metadata.annotations ?? {}).not.toHaveProperty([
      REVERIFY_ANNOTATION,
    ]);
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("is not asked for by removing an annotation", async () => {
    const id = await endFirst();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, id);
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, null);
    await bench.quiesce();
    expect((await bench.verifications("dev")).length).toBeLessThanOrEqual(2);
    const before = (await bench.verifications("dev")).length;
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(before);
  });
});

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

describe("the sweeper", () => {
  it("closes what a lost event left open", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    bench.wrap("verify", () => async () => {});
    await bench.kargo.setRun(await onlyRun(), { phase: "Successful" });
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Pending"]);
    expect(await bench.sweep()).toMatchObject({ open: 1, repaired: 1, failures: [] });
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Successful"]);
    expect(await shownPhases("dev")).toEqual([["Successful"]]);
    expect(await bench.sweep()).toEqual({ open: 0, repaired: 0, failures: [] });
  });

  it("ends what lost its AnalysisRun or its Stage", async () => {
    await bench.kargo.createStage("doomed");
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.kargo.promote("doomed", [{ name: A }]);
    await bench.quiesce();
    bench.wrap("verify", () => async () => {});
    await bench.kargo.deleteRun(await onlyRun());
    await bench.kargo.deleteStage("doomed");
    await bench.sweep();
    expect(await bench.verifications("dev")).toMatchObject([
      { phase: "Error", reason: "AnalysisRunDeleted" },
    ]);
    expect(await bench.verifications("doomed")).toMatchObject([{ phase: "Error", reason: "StageDeleted" }]);
  });

  it("starts what is due when the Stage's event was lost, and carries out an abort that was left half done", async () => {
    bench.wrap("verify", () => async () => {});
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("dev")).toEqual([]);
    await bench.sweep();
    const [verification] = await bench.verifications("dev");
    expect(verification?.phase).toBe("Pending");
    const current = await bench.ledger.readVerification(bench.key("dev"), verification?.id ?? "");
    if (current === undefined) throw new Error("gone");
    const abort = { requestId: "half", at: bench.clock.now(), actor: "bo" };
    await bench.ledger.updateVerification({ ...current.verification, abort }, current.revision);
    await bench.sweep();
    expect((await bench.verifications("dev")).map((v) => v.phase)).toEqual(["Aborted"]);
    expect((await bench.kargo.listRuns("dev"))[0]?.spec.terminate).toBe(true);
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
