import { ScanCommand } from "@aws-sdk/client-dynamodb";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Verification } from "../../shared/domain/verification.ts";
import { createRetentionStore } from "../../shared/ledger/retention.ts";
import { LEDGER_TABLE } from "../../shared/ledger/table.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import { sweepCluster } from "../../shared/operations/sweep.ts";
import { DYNAMODB_ENGINES, type RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop } from "../harness/bench-top.ts";
import { PROJECT } from "../harness/workbench.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);
const GLASS = "Warehouse/glass";
const DAY_MS = 86_400_000;

describe.each(DYNAMODB_ENGINES)("a retention of 30 days on $name", (dynamo) => {
  if (dynamo.obstacle !== undefined) {
    it.skip(`cannot run here: ${dynamo.obstacle}`, () => {});
    return;
  }
  let engine: RunningEngine;
  let bench: BenchTop;
  let counter = 0;
  beforeAll(async () => {
    engine = await dynamo.start();
  }, 120_000);
  afterAll(() => engine?.stop());
  beforeEach(async () => {
    bench = await startBenchTop(engine, `cellar-${++counter}`);
    await bench.kargo.createTemplate("smoke");
    await bench.kargo.createFreight(A);
    await bench.kargo.createFreight(B, GLASS);
    await bench.kargo.createStage("dev", { origins: ["Warehouse/lamps", GLASS] });
  });
  afterEach(() => bench.stop());

  /** An hour of sweeps: every Stage has its turn in it. */
  async function sweepForAnHour(days: number | undefined): Promise<void> {
    const store = createRetentionStore(engine.client, engine.table);
    const world = { ...bench.world, ...(days === undefined ? {} : { retention: { days, store } }) };
    for (let minute = 0; minute < 60; minute++) {
      bench.clock.advance(60_000);
      const { failures } = await sweepCluster(world, bench.key("dev").cluster);
      expect(failures).toEqual([]);
    }
  }

  /** Verifies both Freight, and repeats it `times`; each ends, a day apart. */
  async function verify(times: number): Promise<Verification[]> {
    await bench.kargo.promote("dev", [{ name: A }, { name: B, origin: GLASS }]);
    await bench.quiesce();
    for (let i = 0; i <= times; i++) {
      if (i > 0) {
        const envelope = { id: `again-${i}`, source: "test", time: new Date(bench.clock.now()) };
        await bench.queue.send("reverify", [
          buildMessage("reverify", envelope, { project: PROJECT, stage: "dev" }),
        ]);
        await bench.quiesce();
      }
      const last = (await bench.verifications("dev")).at(-1);
      await bench.kargo.setRun(last?.run?.name ?? "", { phase: "Running" });
      await bench.quiesce();
      await bench.kargo.setRun(last?.run?.name ?? "", { phase: "Failed", message: "no" });
      await bench.quiesce();
      bench.clock.advance(DAY_MS);
    }
    return bench.verifications("dev");
  }

  /** Lets the cluster forget: the runs and what the Stage's status shows, as Kargo does in time. */
  async function forgetInCluster(): Promise<void> {
    for (const run of await bench.kargo.listRuns("dev")) await bench.kargo.deleteRun(run.metadata.name);
    const { status } = await bench.kargo.getStage("dev");
    const [current] = status?.freightHistory ?? [];
    const [newest] = current?.verificationHistory ?? [];
    await bench.kargo.patchStatus("dev", {
      freightHistory: [{ ...current, verificationHistory: newest === undefined ? [] : [newest] }],
    });
    await bench.quiesce();
  }

  const idsOf = async () => (await bench.verifications("dev")).map((v) => v.id);

  it("takes closed verifications and settled requests out of every read, and leaves the latest", async () => {
    const [first, second, latest] = await verify(2);
    await forgetInCluster();
    bench.clock.advance(40 * DAY_MS);
    await sweepForAnHour(30);
    expect(await idsOf()).toEqual([latest?.id]);
    const key = bench.key("dev");
    const gone = [first, second].map((v) => v?.id ?? "");
    for (const id of gone) {
      expect(await bench.ledger.readVerification(key, id)).toBeUndefined();
      expect(await bench.ledger.describeVerification(key, id)).toBeUndefined();
    }
    expect(await bench.ledger.readVerifications(gone.map((id) => ({ key, id })))).toEqual([]);
    const byFreight = await bench.ledger.listByFreight(key.cluster, PROJECT, A);
    expect(byFreight.items.map(({ id }) => id)).toEqual([latest?.id]);
    const collection = { id: latest?.collection.id ?? "", freight: [A, B] };
    const together = await bench.ledger.listByCollection(key.cluster, PROJECT, collection);
    expect(together.items.map(({ id }) => id)).toEqual([latest?.id]);
    const { items } = await bench.ledger.listActivity(key.cluster, PROJECT);
    expect(items.map((entry) => entry.kind)).toEqual(["verification"]);
    expect((await bench.ledger.readStage(key)).latest?.id).toBe(latest?.id);
  });

  it("marks every item of what is expired, and none of what is not, for DynamoDB to remove", async () => {
    const [first] = await verify(1);
    await forgetInCluster();
    bench.clock.advance(40 * DAY_MS);
    await sweepForAnHour(30);
    const { cluster } = bench.key("dev");
    const { Items = [] } = await engine.client.send(new ScanCommand({ TableName: engine.table }));
    const marked = Items.filter((item) => item.pk?.S?.startsWith(`${cluster}/`))
      .filter((item) => item[LEDGER_TABLE.timeToLiveAttribute] !== undefined)
      .map((item) => item.sk?.S)
      .sort();
    const head = `V#${first?.id}`;
    expect(marked).toEqual([
      "R#again-1",
      head,
      `${head}#F#${A}`,
      `${head}#F#${B}`,
      `${head}#P#Failed`,
      `${head}#P#Running`,
    ]);
  });

  it("keeps what was the latest at any time within the 30 days, however long ago it ended", async () => {
    const [only] = await verify(0);
    bench.clock.advance(200 * DAY_MS);
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await forgetInCluster();
    await sweepForAnHour(30);
    expect(await idsOf()).toContain(only?.id);
    bench.clock.advance(31 * DAY_MS);
    await sweepForAnHour(30);
    expect(await idsOf()).not.toContain(only?.id);
  });

  it("never touches an open verification, nor what the cluster still shows", async () => {
    const closed = await verify(1);
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    bench.clock.advance(400 * DAY_MS);
    const before = await idsOf();
    expect(before).toHaveLength(closed.length + 2);
    await sweepForAnHour(30);
    expect(await idsOf()).toEqual(before);
  });

  it("is for ever by default", async () => {
    await verify(1);
    await forgetInCluster();
    bench.clock.advance(10_000 * DAY_MS);
    await sweepForAnHour(undefined);
    expect(await idsOf()).toHaveLength(2);
  });
});
