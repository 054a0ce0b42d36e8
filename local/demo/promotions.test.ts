import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import { readStage } from "../../shared/cluster/stage-reader.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { computeCollectionId } from "../../shared/domain/identity.ts";
import { type SandboxCluster, startSandboxCluster } from "../sandbox/sandbox-cluster.ts";
import { type ClusterWriter, createClusterWriter } from "./cluster-writer.ts";
import { createPromoter } from "./promotions.ts";
import { FREIGHT, PROJECT, seedShop, setErrorBudget, wasPlayed } from "./shop.ts";

let sandbox: SandboxCluster;
let transport: KubernetesTransport;
let writer: ClusterWriter;
const now = Date.parse("2026-03-04T05:06:07.890Z");
const { heron, magpie, otter } = FREIGHT;

beforeAll(async () => {
  sandbox = await startSandboxCluster();
  transport = createTransport({ server: sandbox.url });
  writer = createClusterWriter(transport);
  await seedShop(writer);
});
afterAll(async () => {
  transport.close();
  await sandbox.stop();
});

const makePromoter = () => createPromoter({ writer, project: PROJECT, now: () => now, random: () => 0.5 });

interface StageStatus {
  readonly currentPromotion?: unknown;
  readonly lastPromotion?: Record<string, unknown>;
  readonly health?: unknown;
  readonly freightSummary?: string;
  readonly freightHistory?: readonly { id: string; items: object; verificationHistory?: unknown }[];
}
const statusOf = async (stage: string): Promise<StageStatus> =>
  ((await writer.get("Stage", PROJECT, stage))?.status ?? {}) as StageStatus;

describe("the demo's shop", () => {
  it("can be created over and over, and what somebody changed stays", async () => {
    await setErrorBudget(writer, "fair");
    await seedShop(writer);
    const checkout = await writer.get("Stage", PROJECT, "checkout");
    expect(checkout?.spec).toMatchObject({ vars: [{ name: "errorBudget", value: "1.0" }] });
    expect(await wasPlayed(writer)).toBe(false);
  });

  it("has Freight named as Kargo names it, with the images of its Warehouse", () => {
    expect(otter.name).toMatch(/^[0-9a-f]{40}$/);
    expect(new Set(Object.values(FREIGHT).map((freight) => freight.name)).size).toBe(3);
    expect(otter.images).toHaveLength(2);
  });
});

describe("a Promotion", () => {
  it("leaves the Stage as Kargo does", async () => {
    const { collectionId, promotion, stageUid } = await makePromoter().promote("dev", otter);
    expect(promotion).toMatch(new RegExp(`^dev\\.[0-9a-hjkmnp-tv-z]{26}\\.${otter.name.slice(0, 7)}$`));
    expect(collectionId).toBe(computeCollectionId([otter.name]));
    const stage = await writer.get("Stage", PROJECT, "dev");
    expect(stageUid).toBe(stage?.metadata.uid);
    const reference = {
      name: otter.name,
      origin: { kind: "Warehouse", name: "storefront" },
      images: otter.images,
    };
    const collection = { id: collectionId, items: { "Warehouse/storefront": reference } };
    expect(stage?.status).toMatchObject({
      lastPromotion: {
        name: promotion,
        finishedAt: "2026-03-04T05:06:07Z",
        freight: reference,
        status: { phase: "Succeeded", freightCollection: collection },
      },
      health: { status: "Healthy" },
      freightHistory: [collection],
      freightSummary: otter.name,
    });
    expect(stage?.status).not.toHaveProperty("currentPromotion");
    expect(readStage(stage)).toMatchObject({
      lastPromotion: { name: promotion, phase: "Succeeded" },
      current: { id: collectionId },
    });
    const made = await writer.get("Promotion", PROJECT, promotion);
    expect(made).toMatchObject({
      spec: { stage: "dev", freight: otter.name },
      status: { phase: "Succeeded" },
    });
    expect(await wasPlayed(writer)).toBe(true);
  });

  it("prepends, and the verifications of older Freight stay", async () => {
    const verificationHistory = [
      { id: "v1", phase: "Running", analysisRun: { name: "r", namespace: PROJECT, phase: "Running" } },
    ];
    await writer.changeStatus("Stage", PROJECT, "dev", (status) => {
      const [first, ...others] = status.freightHistory as object[];
      return { freightHistory: [{ ...first, verificationHistory }, ...others] };
    });
    await makePromoter().promote("dev", heron);
    await makePromoter().promote("dev", otter);
    const { freightHistory = [] } = await statusOf("dev");
    expect(freightHistory.map((each) => each.id)).toEqual(
      [otter, heron, otter].map((freight) => computeCollectionId([freight.name])),
    );
    expect(freightHistory.map((each) => each.verificationHistory)).toEqual([
      undefined,
      undefined,
      verificationHistory,
    ]);
  });

  it("keeps ten collections", async () => {
    const promoter = makePromoter();
    for (let n = 0; n < 11; n++) await promoter.promote("qa", n % 2 === 0 ? otter : heron);
    expect((await statusOf("qa")).freightHistory).toHaveLength(10);
  });

  it("adds to what a Stage with several Warehouses holds, and replaces the Freight of its own", async () => {
    const promoter = makePromoter();
    await promoter.promote("checkout", magpie);
    expect((await statusOf("checkout")).freightSummary).toBe("1/2 Fulfilled");
    await promoter.promote("checkout", otter);
    const { collectionId } = await promoter.promote("checkout", heron);
    expect(collectionId).toBe(computeCollectionId([magpie.name, heron.name]));
    expect((await statusOf("checkout")).freightSummary).toBe("2/2 Fulfilled");
  });

  it("has a later name than the one before, also within a millisecond", async () => {
    const promoter = makePromoter();
    const names: string[] = [];
    for (let n = 0; n < 3; n++) names.push((await promoter.promote("prod", otter)).promotion);
    expect([...names].sort()).toEqual(names);
    expect(new Set(names).size).toBe(3);
  });

  it("can leave the Stage without health, and loses to nobody who writes at the same time", async () => {
    const promoter = makePromoter();
    const note = { type: "Ready", status: "True", reason: "Fine", message: "fine" };
    const condition = { ...note, lastTransitionTime: "2026-03-04T05:06:07Z" };
    await Promise.all([
      promoter.promote("prod", heron, { health: undefined }),
      ...Array.from({ length: 5 }, () =>
        writer.changeStatus("Stage", PROJECT, "prod", () => ({ conditions: [condition] })),
      ),
    ]);
    const status = await statusOf("prod");
    expect(status).toMatchObject({ conditions: [condition] });
    expect(status.freightHistory?.[0]?.id).toBe(computeCollectionId([heron.name]));
  });
});
