import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../../../shared/cluster/annotations.ts";
import { createTransport } from "../../../shared/cluster/https-transport.ts";
import { buildMessage } from "../../../shared/messages/codec.ts";
import type { MessageData, MessageKind } from "../../../shared/messages/schema.ts";
import type { RunningEngine } from "../../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop, startEngine } from "../../harness/bench-top.ts";
import { createKargoVerifier, type KargoVerifier } from "../../harness/kargo-verifier.ts";
import { PROJECT } from "../../harness/workbench.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);
/** What Tallyman may write in companion mode. */
const ALLOWED = /^(POST .*\/events|PATCH .*\/stages\/[^/]+)$/;

let engine: RunningEngine;
let bench: BenchTop;
let kargo: KargoVerifier;
let written: string[];
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());
beforeEach(async () => {
  written = [];
  bench = await startBenchTop(engine, `quay-${++counter}`, {
    policy: { mode: "companion" },
    watchWrites: ({ method, path }) => void written.push(`${method} ${path}`),
  });
  const others = createTransport({ server: bench.sandbox.url });
  kargo = createKargoVerifier(others, PROJECT, bench.clock);
  await bench.kargo.createTemplate("smoke");
  for (const name of [A, B]) await bench.kargo.createFreight(name);
  await bench.kargo.createStage("dev");
});
afterEach(async () => {
  for (const each of written) expect(each).toMatch(ALLOWED);
  await bench.stop();
});

async function reconcile(): Promise<void> {
  await kargo.reconcile("dev");
  await bench.quiesce();
}

async function promote(freight: string): Promise<void> {
  await bench.kargo.promote("dev", [{ name: freight }]);
  await reconcile();
}

async function endRun(status: Record<string, unknown>, index = 0): Promise<void> {
  const runs = await bench.kargo.listRuns("dev");
  const names = runs.map(({ metadata }) => metadata.name).sort();
  await bench.kargo.setRun(names.at(index - 1) ?? "", status);
}

async function send(kind: MessageKind, id: string, data: Partial<MessageData> = {}): Promise<void> {
  const envelope = { id, source: "test", time: new Date(bench.clock.now()) };
  const message = buildMessage(kind, envelope, { project: PROJECT, stage: "dev", actor: "ada", ...data });
  await bench.queue.send(kind, [message]);
  await bench.quiesce();
}

const verifications = () => bench.verifications("dev");
const annotation = async (key: string) => (await bench.kargo.getStage("dev")).metadata.annotations?.[key];
const request = (id: string) => bench.ledger.readRequest(bench.key("dev"), id);

describe("beside another verifier, Tallyman", () => {
  it("starts nothing and records what that one does, from its start to its end", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await bench.sweep();
    expect(await verifications()).toEqual([]);
    await reconcile();
    expect(await verifications()).toMatchObject([
      { phase: "Pending", cause: { kind: "observed" }, promotion: expect.stringContaining("dev.01jd") },
    ]);
    await endRun({ phase: "Running" });
    await reconcile();
    await endRun({ phase: "Failed", message: "the probe said no", completedAt: "2030-01-01T01:00:00Z" });
    await reconcile();
    const [verification, ...others] = await verifications();
    expect(others).toEqual([]);
    expect(verification).toMatchObject({
      phase: "Failed",
      message: "the probe said no",
      run: { name: expect.stringMatching(/^dev\.01jd/) },
    });
    const described = await bench.ledger.describeVerification(bench.key("dev"), verification?.id ?? "");
    expect(described?.transitions.map(({ phase }) => phase)).toEqual(["Running", "Failed"]);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
  });

  it("knows of an end before that verifier enters it", async () => {
    await promote(A);
    await endRun({ phase: "Successful" });
    await bench.quiesce();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Successful"]);
    await reconcile();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Successful"]);
  });

  it("closes by its AnalysisRun what that verifier let freeze as Running", async () => {
    await promote(A);
    await endRun({ phase: "Running" });
    await reconcile();
    await promote(B);
    await endRun({ phase: "Failed", message: "late" }, 1);
    await bench.sweep();
    expect((await verifications()).map((v) => v.phase)).toEqual(["Failed", "Pending"]);
    const { status } = await bench.kargo.getStage("dev");
    expect(status?.freightHistory?.[1]?.verificationHistory?.[0]?.phase).toBe("Running");
  });

  it("enters an abort as Aborted, which that verifier enters as Failed", async () => {
    await promote(A);
    const [verification] = await verifications();
    await bench.kargo.annotate("dev", ABORT_ANNOTATION, verification?.id ?? "");
    await reconcile();
    expect(await verifications()).toMatchObject([{ phase: "Aborted", reason: "AbortRequested" }]);
  });

  it("leaves that verifier's annotations alone", async () => {
    await promote(A);
    const [verification] = await verifications();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, verification?.id ?? "");
    await bench.quiesce();
    expect(await annotation(REVERIFY_ANNOTATION)).toBe(verification?.id);
    expect(bench.queue.accepted.filter(({ kind }) => kind !== "verify")).toEqual([]);
  });
});

describe("a request beside another verifier", () => {
  it("to repeat becomes its annotation, and is followed to the successor", async () => {
    await promote(A);
    await endRun({ phase: "Failed" });
    await reconcile();
    const [failed] = await verifications();
    await send("reverify", "again");
    expect(JSON.parse((await annotation(REVERIFY_ANNOTATION)) ?? "{}")).toEqual({
      id: failed?.id,
      actor: "ada",
    });
    expect(await request("again")).toMatchObject({ outcome: "waiting", target: failed?.id });
    await reconcile();
    const [, successor] = await verifications();
    expect(successor).toMatchObject({
      phase: "Pending",
      actor: "ada",
      cause: { kind: "observed", of: failed?.id },
    });
    expect(await request("again")).toMatchObject({ outcome: "started", verificationId: successor?.id });
  });

  it("to verify, with nothing due, repeats the latest too", async () => {
    await promote(A);
    await endRun({ phase: "Successful" });
    await reconcile();
    const [verification] = await verifications();
    await send("verify", "again");
    expect(JSON.parse((await annotation(REVERIFY_ANNOTATION)) ?? "{}")).toMatchObject({
      id: verification?.id,
    });
  });

  it("is passed on once, however often its message comes", async () => {
    await promote(A);
    await endRun({ phase: "Failed" });
    await reconcile();
    await send("reverify", "again");
    await reconcile();
    const before = written.length;
    for (let i = 0; i < 3; i++) {
      bench.clock.advance(400_000);
      await send("reverify", "again");
    }
    expect(written.length).toBe(before);
    await endRun({ phase: "Failed" });
    await reconcile();
    await reconcile();
    expect(await verifications()).toHaveLength(2);
  });

  it("to abort becomes its annotation, and is settled when that verifier has carried it out", async () => {
    await promote(A);
    await endRun({ phase: "Running" });
    await reconcile();
    const [running] = await verifications();
    await send("abort", "stop", { reason: "wrong image" });
    expect(JSON.parse((await annotation(ABORT_ANNOTATION)) ?? "{}")).toEqual({
      id: running?.id,
      actor: "ada",
    });
    expect(await request("stop")).toMatchObject({ outcome: "waiting" });
    await reconcile();
    expect(await verifications()).toMatchObject([{ phase: "Aborted", abort: { actor: "ada" } }]);
    expect(await request("stop")).toMatchObject({ outcome: "aborted", verificationId: running?.id });
  });

  it("to abort what has ended is too late, and nothing is set", async () => {
    await promote(A);
    await endRun({ phase: "Failed" });
    await reconcile();
    await send("abort", "stop");
    expect(await request("stop")).toMatchObject({ outcome: "too-late" });
    expect(await annotation(ABORT_ANNOTATION)).toBeUndefined();
  });

  it("about an older verification is refused, with the reason", async () => {
    await promote(A);
    const [old] = await verifications();
    await endRun({ phase: "Failed" });
    await reconcile();
    await promote(B);
    await send("reverify", "old", { verificationId: old?.id ?? "" });
    expect(await request("old")).toMatchObject({
      outcome: "refused",
      message: expect.stringContaining("is no longer the Stage's latest"),
    });
    expect(await annotation(REVERIFY_ANNOTATION)).toBeUndefined();
  });

  it("that other Freight overtakes is refused in the end", async () => {
    await promote(A);
    await endRun({ phase: "Failed" });
    await reconcile();
    await bench.kargo.setHealth("dev", "Unhealthy");
    await send("reverify", "again");
    await reconcile();
    await promote(B);
    expect(await request("again")).toMatchObject({
      outcome: "refused",
      message: expect.stringContaining("another Promotion brought other Freight"),
    });
  });
});

describe("history that was there before", () => {
  it("is imported as it is, once, by the first sweep, and nothing is made up", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.kargo.patchStatus("dev", {
      freightHistory: [
        {
          id: "one",
          items: { "Warehouse/lamps": { name: A, origin: { kind: "Warehouse", name: "lamps" } } },
          verificationHistory: [
            {
              id: "v2",
              phase: "Successful",
              actor: "email:bo@example.com",
              startTime: "2029-05-01T10:00:00Z",
              finishTime: "2029-05-01T10:05:00Z",
              analysisRun: { name: "dev.x.1", namespace: PROJECT, phase: "Successful" },
            },
            { id: "v1", phase: "Error", message: "no template", startTime: "2029-05-01T09:00:00Z" },
            { phase: "Successful" },
          ],
        },
        {
          id: "two",
          items: { "Warehouse/lamps": { name: B, origin: { kind: "Warehouse", name: "lamps" } } },
          verificationHistory: [
            {
              id: "v0",
              phase: "Running",
              startTime: "2029-04-01T09:00:00Z",
              analysisRun: { name: "dev.gone", namespace: PROJECT, phase: "Running" },
            },
          ],
        },
      ],
    });
    // What the watch told is lost; only the sweep is left.
    bench.wrap("verify", () => async () => {});
    await bench.quiesce();
    await bench.sweep();
    await bench.sweep();
    await bench.sweep();
    const all = await verifications();
    expect(all.map((v) => [v.id, v.phase])).toEqual([
      ["v0", "Error"],
      ["v1", "Error"],
      ["v2", "Successful"],
    ]);
    expect(all[2]).toMatchObject({
      actor: "email:bo@example.com",
      createdAt: Date.parse("2029-05-01T10:00:00Z"),
      finishedAt: Date.parse("2029-05-01T10:05:00Z"),
      collection: { id: "one", freight: [{ name: A, origin: "Warehouse/lamps" }] },
    });
    expect(all[0]).toMatchObject({
      reason: "AnalysisRunDeleted",
      message: "AnalysisRun dev.gone is no more, and nobody saw how it ended",
    });
    const described = await bench.ledger.describeVerification(bench.key("dev"), "v2");
    expect(described?.transitions).toMatchObject([
      { phase: "Successful", at: Date.parse("2029-05-01T10:05:00Z") },
    ]);
    expect((await bench.ledger.readStage(bench.key("dev"))).latest).toMatchObject({ id: "v2" });
  });
});
