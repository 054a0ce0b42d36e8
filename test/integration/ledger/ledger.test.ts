import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isFault } from "../../../shared/domain/fault.ts";
import { applyObservation } from "../../../shared/domain/observation.ts";
import { createCheckpointStore } from "../../../shared/ledger/checkpoint.ts";
import { encodeVerification, HEAD_LIMIT, sizeOf } from "../../../shared/ledger/items.ts";
import { createLedger, type Ledger } from "../../../shared/ledger/ledger.ts";
import { loseAnswers } from "../../engines/answer-loss.ts";
import { type CallCounter, countCalls } from "../../engines/call-counter.ts";
import { DYNAMODB_ENGINES, type RunningEngine } from "../../engines/dynamodb-engines.ts";
import { makeKey, makeRun, makeVerification } from "./fixtures.ts";

const NOW = 1_764_500_060_000;

/** One contract, every engine: what holds on the embedded one has to hold on Amazon's own. */
describe.each(DYNAMODB_ENGINES)("the ledger on $name", (engine) => {
  const obstacle = engine.obstacle;
  if (obstacle !== undefined) {
    console.warn(`SKIPPED: the ledger's tests on ${engine.name}: ${obstacle}`);
    it.skip(`cannot run here: ${obstacle}`, () => {});
    return;
  }
  let running: RunningEngine;
  let client: DynamoDBClient;
  let calls: CallCounter;
  let ledger: Ledger;

  beforeAll(async () => {
    running = await engine.start();
    client = running.client;
    calls = countCalls(client);
    ledger = createLedger(client, running.table);
  }, 120_000);
  afterAll(() => running?.stop());

  it("keeps a verification as it was given", async () => {
    const v = makeVerification(makeKey("keeps"), "keeps.01a", {
      actor: "email:ada@example.test",
      message: "no Freight from Warehouse/glass",
      missingOrigins: ["Warehouse/glass"],
      counts: { count: 5, successful: 3, failed: 1, inconclusive: 0, error: 1 },
      observed: "18446744073709551615",
      abort: { requestId: "r-1", actor: "bo", reason: "too slow", at: NOW },
      awaited: true,
      startedAt: NOW - 5,
    });
    expect(await ledger.createVerification(v)).toBe(true);
    expect(await ledger.readVerification(v.key, v.id)).toEqual({ verification: v, revision: 1 });
  });

  it("enters a verification once, whoever comes second", async () => {
    const v = makeVerification(makeKey("once"), "once.01a");
    const created = await Promise.all([1, 2, 3, 4].map(() => ledger.createVerification(v)));
    expect(created.filter(Boolean)).toHaveLength(1);
  });

  it("lets only one of two writers that read the same revision through", async () => {
    const v = makeVerification(makeKey("race"), "race.01a");
    await ledger.createVerification(v);
    const results = await Promise.allSettled([
      ledger.updateVerification({ ...v, message: "one" }, 1),
      ledger.updateVerification({ ...v, message: "two" }, 1),
    ]);
    const lost = results.filter((result) => result.status === "rejected");
    expect(lost).toHaveLength(1);
    expect(isFault(lost[0]?.reason, "Conflict")).toBe(true);
  });

  it("records progress in one write and no read", async () => {
    const v = makeVerification(makeKey("progress"), "progress.01a");
    await ledger.createVerification(v);
    calls.reset();
    expect(await ledger.recordProgress(v.key, v.id, makeRun(v, "10", ""))).toEqual({ applied: true });
    expect(calls.counts()).toEqual({ UpdateItem: 1 });
    const stored = await ledger.readVerification(v.key, v.id);
    expect(stored?.verification.observed).toBe("10");
    expect(stored?.verification.counts).toEqual({
      count: 3,
      successful: 2,
      failed: 1,
      inconclusive: 0,
      error: 0,
    });
  });

  it("orders observations as numbers: 9, then 10, then 100, and never back", async () => {
    const v = makeVerification(makeKey("numbers"), "numbers.01a");
    await ledger.createVerification(v);
    for (const rv of ["9", "10", "100"]) {
      expect(await ledger.recordProgress(v.key, v.id, makeRun(v, rv, ""))).toEqual({ applied: true });
    }
    expect((await ledger.recordProgress(v.key, v.id, makeRun(v, "11", ""))).applied).toBe(false);
    expect((await ledger.readVerification(v.key, v.id))?.verification.observed).toBe("100");
  });

  it("answers a duplicate observation with what is there, at the price of one failed write", async () => {
    const v = makeVerification(makeKey("duplicate"), "duplicate.01a");
    await ledger.createVerification(v);
    await ledger.recordProgress(v.key, v.id, makeRun(v, "10", ""));
    calls.reset();
    const again = await ledger.recordProgress(v.key, v.id, makeRun(v, "10", ""));
    expect(again.applied).toBe(false);
    expect(again.applied === false && again.existing?.verification.observed).toBe("10");
    // dynalite does not hand back the item that failed the condition, so it has to be asked for.
    expect(calls.counts()).toEqual(
      engine.returnsFailedItem ? { UpdateItem: 1 } : { UpdateItem: 1, GetItem: 1 },
    );
  });

  it("does not take progress of a terminal verification, nor of one that is not there", async () => {
    const v = makeVerification(makeKey("terminal"), "terminal.01a", { phase: "Failed", finishedAt: NOW });
    await ledger.createVerification(v);
    expect((await ledger.recordProgress(v.key, v.id, makeRun(v, "10", "Running"))).applied).toBe(false);
    const unknown = makeVerification(makeKey("terminal"), "terminal.01b");
    expect(await ledger.recordProgress(unknown.key, unknown.id, makeRun(unknown, "10", "Running"))).toEqual({
      applied: false,
      existing: undefined,
    });
  });

  it("lists a Stage's history newest first, requests among verifications, page by page", async () => {
    const key = makeKey("history");
    for (let i = 0; i < 5; i++) {
      await ledger.createVerification(makeVerification(key, `history.0${i}`, { createdAt: NOW + i }));
    }
    await ledger.writeRequest({
      key,
      requestId: "req-1",
      kind: "abort",
      outcome: "refused",
      message: "not the latest",
      createdAt: NOW + 2,
    });
    await ledger.writeStage({ key, revision: 0, uid: "u", observed: "1" });
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await ledger.listHistory(key, { limit: 2, cursor });
      expect(page.items.length).toBeLessThanOrEqual(2);
      for (const entry of page.items) {
        seen.push(entry.kind === "request" ? entry.request.requestId : entry.verification.promotion);
      }
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(seen.toSorted()).toEqual([
      "history.00",
      "history.01",
      "history.02",
      "history.03",
      "history.04",
      "req-1",
    ]);
    expect(seen.filter((each) => each !== "req-1")).toEqual([
      "history.04",
      "history.03",
      "history.02",
      "history.01",
      "history.00",
    ]);
    expect(Math.abs(seen.indexOf("req-1") - seen.indexOf("history.02"))).toBe(1);
  });

  it("reads the newest page of a history in one Query", async () => {
    calls.reset();
    await ledger.listHistory(makeKey("history"), { limit: 3 });
    expect(calls.counts()).toEqual({ Query: 1 });
  });

  it("lists open verifications and forgets them as they end", async () => {
    const key = { cluster: "open-harbour", project: "p", stage: "s" };
    const a = makeVerification(key, "s.01", { createdAt: NOW });
    const b = makeVerification(key, "s.02", { createdAt: NOW + 1 });
    await ledger.createVerification(a);
    await ledger.createVerification(b);
    expect((await ledger.listOpen("open-harbour")).items.map((v) => v.promotion)).toEqual(["s.01", "s.02"]);
    const end = applyObservation(a, makeRun(a, "7", "Successful"), NOW);
    if (end.kind !== "transition") throw new Error(end.kind);
    await ledger.updateVerification(end.next, 1);
    expect((await ledger.listOpen("open-harbour")).items.map((v) => v.promotion)).toEqual(["s.02"]);
    expect((await ledger.listOpen("another-harbour")).items).toEqual([]);
  });

  it("shows a verification with its changes of phase in one Query", async () => {
    const v = makeVerification(makeKey("describe"), "describe.01a");
    await ledger.createVerification(v);
    const running = { ...v, phase: "Running" as const, startedAt: NOW };
    await ledger.recordTransition(running, makeRun(v, "5", "Running"));
    const failed = {
      ...v,
      phase: "Failed" as const,
      startedAt: NOW,
      finishedAt: NOW + 9,
      message: "x".repeat(5000),
    };
    await ledger.recordTransition(failed, makeRun(v, "6", "Failed"));
    await ledger.recordTransition(failed, makeRun(v, "6", "Failed"));
    calls.reset();
    const description = await ledger.describeVerification(v.key, v.id);
    expect(calls.counts()).toEqual({ Query: 1 });
    expect(description?.transitions.map((t) => t.phase)).toEqual(["Running", "Failed"]);
    expect(description?.transitions[1]?.message).toHaveLength(5000);
    expect(description?.transitions[1]?.run?.metrics[0]?.failed).toBe(1);
    expect(await ledger.describeVerification(v.key, "no-such-id")).toBeUndefined();
  });

  it("finds what contains a Freight, alone and in combinations, and one combination by itself", async () => {
    const key = { cluster: "combos", project: "p", stage: "both" };
    const front = { name: "f".repeat(40), origin: "Warehouse/front" };
    const back = { name: "b".repeat(40), origin: "Warehouse/back" };
    const other = { name: "c".repeat(40), origin: "Warehouse/back" };
    const pair = makeVerification(key, "both.01", { freight: [front, back], createdAt: NOW });
    await ledger.createVerification(pair);
    await ledger.createVerification(
      makeVerification(key, "both.02", { freight: [front, other], createdAt: NOW + 1 }),
    );
    await ledger.createVerification(
      makeVerification(key, "both.03", { freight: [front], createdAt: NOW + 2 }),
    );
    const found = await ledger.listByFreight("combos", "p", front.name);
    expect(found.items).toHaveLength(3);
    expect((await ledger.listByFreight("combos", "p", back.name)).items).toHaveLength(1);
    calls.reset();
    const combination = await ledger.listByCollection("combos", "p", {
      id: pair.collection.id,
      freight: [front.name, back.name],
    });
    expect(calls.counts()).toEqual({ Query: 1 });
    expect(combination.items.map((v) => v.promotion)).toEqual(["both.01"]);
  });

  it("keeps a Stage's record under optimistic concurrency", async () => {
    const key = makeKey("record");
    const none = await ledger.readStage(key);
    expect(none).toEqual({ key, revision: 0, uid: "", observed: "0" });
    const first = await ledger.writeStage({ ...none, uid: "u-1", observed: "12" });
    await expect(ledger.writeStage({ ...none, uid: "u-2" })).rejects.toThrow(/changed in the ledger/);
    const waiting = { requestId: "r", cause: { kind: "reverify", of: "v" }, after: "v", at: NOW } as const;
    const latest = { id: "v", promotion: "p", collectionId: "c" };
    await ledger.writeStage({ ...first, latest, waiting });
    await expect(ledger.writeStage(first)).rejects.toThrow(/changed in the ledger/);
    expect(await ledger.readStage(key)).toMatchObject({
      revision: 2,
      uid: "u-1",
      observed: "12",
      latest,
      waiting,
    });
  });

  it("lists Stages by cluster and by Project", async () => {
    for (const [project, stage] of [
      ["p1", "a"],
      ["p1", "b"],
      ["p11", "a"],
    ] as const) {
      await ledger.writeStage({
        key: { cluster: "listing", project, stage },
        revision: 0,
        uid: "u",
        observed: "1",
      });
    }
    const names = async (project?: string) =>
      (await ledger.listStages("listing", project)).items.map((s) => `${s.key.project}/${s.key.stage}`);
    expect(await names()).toEqual(["p1/a", "p1/b", "p11/a"]);
    expect(await names("p1")).toEqual(["p1/a", "p1/b"]);
  });

  it("never changes a settled request", async () => {
    const base = {
      key: makeKey("requests"),
      requestId: "r-9",
      kind: "reverify",
      message: "",
      createdAt: NOW,
    } as const;
    expect(await ledger.writeRequest({ ...base, outcome: "waiting" })).toBe(true);
    expect(await ledger.writeRequest({ ...base, outcome: "started", verificationId: "v" })).toBe(true);
    expect(await ledger.writeRequest({ ...base, outcome: "refused" })).toBe(false);
    expect(await ledger.readRequest(base.key, "r-9")).toMatchObject({
      outcome: "started",
      verificationId: "v",
    });
  });

  it("keeps two clusters with the same names apart", async () => {
    const here = makeVerification({ cluster: "c1", project: "p", stage: "s" }, "s.01");
    const there = makeVerification({ cluster: "c2", project: "p", stage: "s" }, "s.01", {
      phase: "Failed",
      finishedAt: NOW,
    });
    await ledger.createVerification(here);
    await ledger.createVerification(there);
    expect((await ledger.listHistory(here.key)).items).toHaveLength(1);
    expect((await ledger.readVerification(here.key, here.id))?.verification.phase).toBe("Pending");
    expect((await ledger.readVerification(there.key, there.id))?.verification.phase).toBe("Failed");
  });

  it("says what is wrong with a cursor that it did not give out", async () => {
    await expect(ledger.listHistory(makeKey("history"), { cursor: "rubbish" })).rejects.toThrow(
      /page cursor/,
    );
  });

  it("holds a lease against others until it runs out, and advances the checkpoint with it", async () => {
    const store = createCheckpointStore(client, running.table);
    expect(await store.read("lease")).toBeUndefined();
    expect(await store.hold("lease", { owner: "one", now: 100, until: 200 }, { stages: "5" })).toBe(true);
    expect(await store.hold("lease", { owner: "two", now: 150, until: 300 }, { stages: "1" })).toBe(false);
    expect(await store.read("lease")).toEqual({ resourceVersions: { stages: "5" }, heartbeatAt: 100 });
    expect(await store.hold("lease", { owner: "two", now: 201, until: 300 }, { stages: "6" })).toBe(true);
  });

  it("takes no notice of a lease that only a wrong clock can have written", async () => {
    const store = createCheckpointStore(client, running.table);
    const hour = 3_600_000;
    const lease = (owner: string, now: number) => ({ owner, now, until: now + 30_000 });
    expect(await store.hold("ahead", lease("one", hour), {})).toBe(true);
    expect(await store.hold("ahead", lease("two", 0), {})).toBe(true);
    // A clock that is a minute ahead is no reason yet.
    expect(await store.hold("near", lease("one", 60_000), {})).toBe(true);
    expect(await store.hold("near", lease("two", 0), {})).toBe(false);
  });

  it("counts a write whose answer was lost, and that the SDK therefore repeated, as done once", async () => {
    const loss = loseAnswers(running.retrying);
    const retrying = createLedger(running.retrying, running.table);
    const verification = makeVerification(makeKey("echo"), "echo.01");
    loss.loseNext();
    expect(await retrying.createVerification(verification)).toBe(true);
    loss.loseNext();
    const next = { ...verification, phase: "Running", startedAt: NOW } as const;
    expect(await retrying.updateVerification(next, 1)).toMatchObject({ revision: 2 });
    const stage = await retrying.readStage(makeKey("echo"));
    loss.loseNext();
    const written = await retrying.writeStage({ ...stage, uid: "uid-echo" });
    expect(written.revision).toBe(1);
    // Somebody else's write is still a conflict, repeated or not.
    await ledger.writeStage({ ...written, observed: "7" });
    loss.loseNext();
    await expect(retrying.writeStage({ ...written, observed: "9" })).rejects.toSatisfy((error) =>
      isFault(error, "Conflict"),
    );
    expect(await retrying.createVerification(verification)).toBe(false);
  });

  it("reports an engine that does not answer as transient", async () => {
    const broken = createLedger(running.unreachable, running.table);
    await expect(broken.readStage(makeKey("any"))).rejects.toSatisfy((error) => isFault(error, "Transient"));
  });
});

describe("the head of a verification", () => {
  it("stays within one write unit with everything set", () => {
    const full = makeVerification(
      makeKey("a-stage-with-a-rather-long-name"),
      "a-stage-with-a-rather-long-name.01jd8p7x9y2m4n6q8r0s2t4v6w.abcdef1",
      {
        actor: "email:somebody.with.a.long.name@example.test",
        phase: "Running",
        message: "m".repeat(2000),
        counts: { count: 500, successful: 400, failed: 50, inconclusive: 25, error: 25 },
        observed: "9007199254740993",
        startedAt: NOW,
        abort: {
          requestId: "0f7f9c1e-1111-4222-8333-444455556666",
          actor: "github:somebody",
          reason: "bad deploy",
          at: NOW,
        },
        awaited: true,
      },
    );
    expect(sizeOf(encodeVerification(full, 12_345))).toBeLessThanOrEqual(HEAD_LIMIT);
  });
});
