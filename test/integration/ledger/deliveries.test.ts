import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDeliveryStore, type DeliveryStore } from "../../../shared/ledger/deliveries.ts";
import { createLedger } from "../../../shared/ledger/ledger.ts";
import { loseAnswers } from "../../engines/answer-loss.ts";
import { countCalls } from "../../engines/call-counter.ts";
import { DYNAMODB_ENGINES, type RunningEngine } from "../../engines/dynamodb-engines.ts";

const NOW = Date.UTC(2030, 0, 2);
const DAYS = 86_400_000;

describe.each(DYNAMODB_ENGINES)("the ledger's memory of deliveries on $name", (dynamo) => {
  if (dynamo.obstacle !== undefined) {
    console.warn(`SKIPPED: deliveries on ${dynamo.name}: ${dynamo.obstacle}`);
    it.skip(`cannot run here: ${dynamo.obstacle}`, () => {});
    return;
  }
  let engine: RunningEngine;
  let store: DeliveryStore;
  beforeAll(async () => {
    engine = await dynamo.start();
    store = createDeliveryStore(engine.client, engine.table);
  }, 120_000);
  afterAll(() => engine?.stop());

  const enter = (identity: string, content: unknown, now = NOW, receiver = "gh", own = store) =>
    own.enter({ receiver, identity, content }, now);

  it("holds what came first, for whoever comes later", async () => {
    expect(await enter("id:1", ["a", { b: 1 }])).toEqual({ content: ["a", { b: 1 }], isNew: true });
    expect(await enter("id:1", ["other"], NOW + DAYS)).toEqual({ content: ["a", { b: 1 }], isNew: false });
    expect(await enter("id:2", ["other"])).toMatchObject({ isNew: true });
    expect(await enter("id:1", ["other"], NOW, "gl")).toMatchObject({ isNew: true });
  });

  it("lets one of many at once be the first, and tells all of them the same", async () => {
    const results = await Promise.all(Array.from({ length: 12 }, (_, index) => enter("id:race", index)));
    expect(results.filter(({ isNew }) => isNew)).toHaveLength(1);
    expect(new Set(results.map(({ content }) => content)).size).toBe(1);
  });

  it("forgets after thirty days, whether DynamoDB has removed the item or not", async () => {
    await enter("id:old", "first");
    expect(await enter("id:old", "second", NOW + 30 * DAYS - 1000)).toEqual({
      content: "first",
      isNew: false,
    });
    expect(await enter("id:old", "third", NOW + 30 * DAYS)).toEqual({ content: "third", isNew: true });
    expect(await enter("id:old", "fourth", NOW + 31 * DAYS)).toEqual({ content: "third", isNew: false });
  });

  it("takes its own entry, whose answer was lost, for what holds", async () => {
    const own = createDeliveryStore(engine.retrying, engine.table);
    loseAnswers(engine.retrying).loseNext();
    expect((await enter("id:lost", "mine", NOW, "gh", own)).content).toBe("mine");
  });

  it("costs one write for what is new", async () => {
    const calls = countCalls(engine.client);
    await enter("id:cost", "x");
    expect(calls.counts()).toEqual({ PutItem: 1 });
    calls.reset();
    await enter("id:cost", "x");
    expect(calls.counts()).toEqual({ PutItem: 1, ...(dynamo.returnsFailedItem ? {} : { GetItem: 1 }) });
  });

  it("is in no history, and its troubles are transient", async () => {
    const ledger = createLedger(engine.client, engine.table);
    expect((await ledger.listActivity("webhook", "gh")).items).toEqual([]);
    expect((await ledger.listStages("webhook:gh")).items).toEqual([]);
    const away = createDeliveryStore(engine.unreachable, engine.table);
    await expect(enter("id:1", "x", NOW, "gh", away)).rejects.toMatchObject({
      name: "Fault",
      kind: "Transient",
    });
  });
});
