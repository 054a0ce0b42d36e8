import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunIdentity } from "../domain/analysis-run.ts";
import { isFault } from "../domain/fault.ts";
import { computeCollectionId, deriveAnalysisRunName, deriveVerificationId } from "../domain/identity.ts";
import { sumMeasurements } from "../domain/observation.ts";
import { messageSchema } from "../messages/schema.ts";
import { MAX_SNAPSHOT_BYTES, readAnalysisRun } from "./analysis-run-reader.ts";
import { isSameRun } from "./run-identity.ts";

const collection = { id: computeCollectionId(["f1"]), freight: [{ name: "f1", origin: "Warehouse/front" }] };
const cause = { kind: "promotion", promotion: "test.01" } as const;
const identity: RunIdentity = {
  id: deriveVerificationId(cause, "uid-1", collection.id),
  stageUid: "uid-1",
  cause,
  promotion: "test.01",
  collection,
  missingOrigins: ["Warehouse/back"],
};
const NAME = deriveAnalysisRunName("test", identity.id, collection.id);

function makeRun(
  overrides: {
    metadata?: object;
    annotations?: object;
    labels?: object;
    spec?: object;
    status?: unknown;
  } = {},
) {
  return {
    metadata: {
      name: NAME,
      namespace: "shop",
      uid: "run-1",
      resourceVersion: "7",
      labels: {
        "kargo.akuity.io/stage": "test",
        "kargo.akuity.io/freight-collection": collection.id,
        ...overrides.labels,
      },
      annotations: { "tallyman.dev/verification": JSON.stringify(identity), ...overrides.annotations },
      ...overrides.metadata,
    },
    spec: { metrics: [], ...overrides.spec },
    status: overrides.status,
  };
}

describe("an AnalysisRun is projected onto what verification needs", () => {
  it("reads a run that its controller has not touched yet", () => {
    expect(readAnalysisRun(makeRun())).toEqual({
      uid: "run-1",
      project: "shop",
      name: NAME,
      resourceVersion: "7",
      stage: "test",
      collectionId: collection.id,
      identity,
      phase: "",
      terminating: false,
      deleted: false,
      metrics: [],
      omittedMetrics: 0,
    });
  });

  it("is no Stage's run without the Stage's label", () => {
    expect(readAnalysisRun(makeRun({ labels: { "kargo.akuity.io/stage": undefined } }))).toBeUndefined();
    expect(readAnalysisRun(makeRun({ labels: { "kargo.akuity.io/stage": "No_Stage" } }))).toBeUndefined();
    expect(readAnalysisRun("text")).toBeUndefined();
  });

  it("has the Stage's full name where the label had to be shortened", () => {
    const full = "this-is-a-very-long-stage-name-that-exceeds-the-label-length-and-should-be-truncated";
    const label = "this-is-a-very-long-stage-name-that-exceeds-the-label-1c0a17e1";
    const run = makeRun({
      labels: { "kargo.akuity.io/stage": label },
      annotations: { "kargo.akuity.io/stage": full },
    });
    expect(readAnalysisRun(run)?.stage).toBe(full);
  });

  it("does not believe a Stage annotation that does not fit the label", () => {
    expect(readAnalysisRun(makeRun({ annotations: { "kargo.akuity.io/stage": "prod" } }))?.stage).toBe(
      "test",
    );
  });

  it("knows a deletion and its newer resourceVersion", () => {
    expect(readAnalysisRun(makeRun(), { deleted: true, resourceVersion: "9" })).toMatchObject({
      deleted: true,
      resourceVersion: "9",
    });
  });

  it("reads status, termination and metrics, opaque values included", () => {
    const status = {
      phase: "Failed",
      message: 'Metric "a" assessed Failed',
      startedAt: "2026-01-02T03:04:05Z",
      completedAt: "2026-01-02T03:05:05Z",
      metricResults: [
        {
          name: "a",
          phase: "Failed",
          dryRun: true,
          count: 3,
          successful: -4,
          failed: 1.5,
          error: 1e300,
          measurements: [
            { phase: "Successful", value: "NaN" },
            {
              phase: "Failed",
              value: "plain text, no JSON",
              message: "no",
              finishedAt: "2026-01-02T03:05:00Z",
            },
            { phase: "Inconclusive", value: 12 },
            "no measurement",
          ],
        },
      ],
    };
    const snapshot = readAnalysisRun(makeRun({ spec: { terminate: true }, status }));
    expect(snapshot).toMatchObject({ phase: "Failed", terminating: true, completedAt: status.completedAt });
    expect(snapshot?.metrics).toEqual([
      {
        name: "a",
        phase: "Failed",
        dryRun: true,
        count: 3,
        successful: 0,
        failed: 1,
        inconclusive: 0,
        error: 2_147_483_647,
        measurements: [
          { phase: "Successful", value: "NaN" },
          {
            phase: "Failed",
            value: "plain text, no JSON",
            message: "no",
            finishedAt: "2026-01-02T03:05:00Z",
          },
          { phase: "Inconclusive", value: "12" },
        ],
      },
    ]);
  });

  it.each([
    ["metadata.uid", { uid: "" }],
    ["metadata.namespace", { namespace: undefined }],
    ["metadata.resourceVersion", { resourceVersion: "0x1" }],
  ])("is refused by object and field: %s", (field, metadata) => {
    expect(() => readAnalysisRun(makeRun({ metadata }))).toThrow(`AnalysisRun`);
    expect(() => readAnalysisRun(makeRun({ metadata }))).toThrow(field);
  });
});

describe("a run's identity is believed only if it follows from itself", () => {
  const claim = (value: unknown) =>
    makeRun({
      annotations: { "tallyman.dev/verification": typeof value === "string" ? value : JSON.stringify(value) },
    });

  it.each([
    ["another id", { ...identity, id: "0f7c7a52-3f0e-5a5e-9a55-52d7c2a2b6aa" }],
    ["another Stage's uid", { ...identity, stageUid: "uid-2" }],
    ["another collection", { ...identity, collection: { ...collection, id: computeCollectionId(["f2"]) } }],
    ["another cause", { ...identity, cause: { kind: "promotion", promotion: "test.02" } }],
    ["an unknown cause", { ...identity, cause: { kind: "whim" } }],
    ["freight that is no list", { ...identity, collection: { id: collection.id, freight: "f1" } }],
    ["too many origins", { ...identity, missingOrigins: Array.from({ length: 101 }, () => "Warehouse/a") }],
    ["no JSON", "v1"],
    ["null", "null"],
    ["a huge text", `"${"x".repeat(200_000)}"`],
  ])("not with %s", (_title, value) => {
    expect(readAnalysisRun(claim(value))?.identity).toBeUndefined();
    expect(isSameRun(claim(value), identity)).toBe(false);
  });

  it("not under another name", () => {
    expect(readAnalysisRun(makeRun({ metadata: { name: "by-hand" } }))?.identity).toBeUndefined();
  });

  it("adopts the run of the same verification, whoever asked for it", () => {
    expect(isSameRun(claim({ ...identity, actor: "ada", missingOrigins: [] }), identity)).toBe(true);
  });

  it("a reverify of the same target in a Stage that was made anew is another run", () => {
    const of = { kind: "reverify", of: identity.id } as const;
    const again = { ...identity, cause: of, id: deriveVerificationId(of, "uid-1", collection.id) };
    expect(isSameRun(claim(again), again)).toBe(true);
    expect(isSameRun(claim({ ...again, stageUid: "uid-2" }), again)).toBe(false);
  });
});

describe("whatever an AnalysisRun reports, its snapshot is bounded", () => {
  const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

  it("5,000 error measurements, two megabytes", () => {
    const measurements = Array.from({ length: 5000 }, (_, i) => ({
      phase: i === 17 ? "Failed" : "Error",
      value: `number ${i}`,
      message: `${i}: ${"the provider did not answer ".repeat(15)}`,
      startedAt: "2026-01-02T03:04:05Z",
      finishedAt: "2026-01-02T03:04:06Z",
    }));
    const run = makeRun({
      status: { phase: "Error", metricResults: [{ name: "a", phase: "Error", error: 4999, measurements }] },
    });
    expect(bytesOf(run)).toBeGreaterThan(2_000_000);
    const snapshot = readAnalysisRun(run);
    expect(bytesOf(snapshot)).toBeLessThanOrEqual(MAX_SNAPSHOT_BYTES);
    const kept = snapshot?.metrics[0]?.measurements ?? [];
    expect(kept.map((m) => m.value)).toEqual([
      "number 17",
      ...Array.from({ length: 10 }, (_, i) => `number ${4990 + i}`),
    ]);
    expect(kept[1]?.message).toHaveLength(256);
    expect(snapshot?.metrics[0]?.error).toBe(4999);
  });

  it("500 metrics: those that are not successful are kept, the rest is counted", () => {
    const metricResults = Array.from({ length: 500 }, (_, i) => ({
      name: `m${i}`,
      phase: i % 50 === 49 ? "Failed" : "Successful",
      count: 30,
      successful: 29,
      failed: 1,
      measurements: Array.from({ length: 30 }, () => ({ phase: "Successful", value: "\u0001".repeat(400) })),
    }));
    const snapshot = readAnalysisRun(makeRun({ status: { phase: "Failed", metricResults } }));
    expect(bytesOf(snapshot)).toBeLessThanOrEqual(MAX_SNAPSHOT_BYTES);
    expect(snapshot?.metrics.filter((m) => m.phase === "Failed")).toHaveLength(10);
    expect((snapshot?.metrics.length ?? 0) + (snapshot?.omittedMetrics ?? 0)).toBe(500);
    if (snapshot === undefined) throw new Error("no snapshot");
    const all = { count: 15_000, successful: 14_500, failed: 500, inconclusive: 0, error: 0 };
    expect(sumMeasurements(snapshot)).toEqual(all);
    expect(snapshot.omittedCounts?.count).toBe(snapshot.omittedMetrics * 30);
    expect(snapshot?.metrics.map((m) => m.name)).toEqual(
      metricResults.map((m) => m.name).filter((name) => snapshot?.metrics.some((m) => m.name === name)),
    );
  });

  it("names, messages and identity at their largest, in characters that JSON writes six bytes for", () => {
    const freight = Array.from({ length: 100 }, (_, i) => ({
      name: `${i}`.padEnd(60, "f"),
      origin: `Warehouse/${"w".repeat(60)}${i}`,
    }));
    const big = { id: computeCollectionId(freight.map((f) => f.name)), freight };
    const id = deriveVerificationId(cause, "uid-1", big.id);
    const large = { ...identity, id, collection: big, missingOrigins: freight.map((f) => f.origin) };
    const metricResults = Array.from({ length: 40 }, (_, i) => ({
      name: `${i}${"\u0002".repeat(300)}`,
      phase: "Error",
      message: "\u0003".repeat(5000),
      measurements: Array.from({ length: 20 }, () => ({ phase: "Error", message: "\u0004".repeat(5000) })),
    }));
    const snapshot = readAnalysisRun(
      makeRun({
        metadata: { name: deriveAnalysisRunName("test", id, big.id) },
        annotations: { "tallyman.dev/verification": JSON.stringify(large) },
        status: { phase: "Error", message: "\u0005".repeat(100_000), metricResults },
      }),
    );
    expect(snapshot?.identity).toBeDefined();
    expect(bytesOf(snapshot)).toBeLessThanOrEqual(MAX_SNAPSHOT_BYTES);
    expect((snapshot?.metrics.length ?? 0) + (snapshot?.omittedMetrics ?? 0)).toBe(40);
  });

  it("cuts no character in half", () => {
    const value = `${"x".repeat(254)}😀😀`;
    const status = { metricResults: [{ name: "a", measurements: [{ value }] }] };
    expect(readAnalysisRun(makeRun({ status }))?.metrics[0]?.measurements[0]?.value).toBe(
      `${"x".repeat(254)}…`,
    );
  });
});

it("whatever JSON comes in, a snapshot that fits into a message, nothing or Fault Invalid comes out", async () => {
  const any = fc.jsonValue({ maxDepth: 4 });
  const measurement = fc.dictionary(fc.constantFrom("phase", "value", "message", "__proto__"), any);
  const metric = fc.dictionary(
    fc.constantFrom("name", "phase", "count", "dryRun", "measurements", "constructor"),
    fc.oneof(any, fc.array(measurement)),
  );
  const run = fc.record({ metadata: fc.record({ labels: any, name: any }), status: any });
  const seen = fc
    .tuple(fc.oneof(any, fc.record({ metricResults: fc.oneof(any, fc.array(metric)) })), any)
    .map(([status, annotations]) => makeRun({ status, metadata: { annotations } }));
  await fc.assert(
    fc.property(fc.oneof(any, run, seen), (object) => {
      try {
        const snapshot = readAnalysisRun(object);
        if (snapshot === undefined) return;
        expect(Buffer.byteLength(JSON.stringify(snapshot))).toBeLessThanOrEqual(MAX_SNAPSHOT_BYTES);
        const { project, stage } = snapshot;
        const data = { project, stage, observed: { kind: "AnalysisRun", ...snapshot } };
        const message = { specversion: "1.0", id: "1", source: "test", type: "dev.tallyman.verify", data };
        expect(messageSchema.safeParse(message).error?.issues).toBeUndefined();
      } catch (error) {
        expect(isFault(error, "Invalid"), String(error)).toBe(true);
      }
    }),
    { numRuns: 500 },
  );
});
