import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isFault } from "../domain/fault.ts";
import { computeCollectionId } from "../domain/identity.ts";
import { messageSchema } from "../messages/schema.ts";
import { readStage } from "./stage-reader.ts";

function makeStage(overrides: { metadata?: object; spec?: object; status?: object } = {}): unknown {
  return {
    apiVersion: "kargo.akuity.io/v1alpha1",
    kind: "Stage",
    metadata: {
      name: "test",
      namespace: "shop",
      uid: "uid-1",
      resourceVersion: "42",
      ...overrides.metadata,
    },
    spec: {
      requestedFreight: [
        { origin: { kind: "Warehouse", name: "front" }, sources: { direct: true } },
        { origin: { kind: "Warehouse", name: "back" }, sources: { direct: true } },
      ],
      promotionTemplate: { spec: { steps: [{ uses: "git-clone" }] } },
      ...overrides.spec,
    },
    status: { ...overrides.status },
  };
}

function reasonsOf(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (isFault(error, "Invalid")) return error.reasons;
    throw error;
  }
  throw new Error("nothing was refused");
}

const F1 = computeCollectionId(["f1"]);

describe("a Stage is projected onto what verification needs", () => {
  it("reads everything that a busy Stage says", () => {
    const stage = makeStage({
      metadata: {
        annotations: {
          "kargo.akuity.io/reverify": '{"id":"v1","actor":"ada"}',
          "kargo.akuity.io/abort": "v1",
          "tallyman.dev/missing-freight": "hold",
        },
        managedFields: [{ manager: "kubectl" }],
      },
      spec: {
        shard: "eu",
        vars: [{ name: "region", value: "eu-west-1" }],
        verification: {
          analysisTemplates: [{ name: "smoke" }, { name: "load", kind: "ClusterAnalysisTemplate" }],
          analysisRunMetadata: { labels: { team: "shop" }, annotations: { note: "hello" } },
          args: [{ name: "url", value: "https://shop.example.test" }, { name: "empty" }],
        },
      },
      status: {
        health: { status: "Healthy" },
        lastPromotion: {
          name: "test.01abc",
          status: { phase: "Succeeded" },
          finishedAt: "2026-01-02T03:04:05Z",
        },
        freightHistory: [
          {
            id: F1,
            items: { "Warehouse/front": { name: "f1", origin: { kind: "Warehouse", name: "front" } } },
            verificationHistory: [{ id: "v1", phase: "Running" }, {}],
          },
          { id: computeCollectionId(["f0"]), items: {} },
        ],
      },
    });
    expect(readStage(stage)).toEqual({
      uid: "uid-1",
      project: "shop",
      name: "test",
      resourceVersion: "42",
      shard: "eu",
      deleting: false,
      controlFlow: false,
      verification: {
        analysisTemplates: [
          { name: "smoke", kind: "AnalysisTemplate" },
          { name: "load", kind: "ClusterAnalysisTemplate" },
        ],
        args: [{ name: "url", value: "https://shop.example.test" }, { name: "empty" }],
        labels: { team: "shop" },
        annotations: { note: "hello" },
      },
      vars: [{ name: "region", value: "eu-west-1" }],
      requestedOrigins: ["Warehouse/front", "Warehouse/back"],
      health: "Healthy",
      lastPromotion: { name: "test.01abc", phase: "Succeeded", finishedAt: "2026-01-02T03:04:05Z" },
      current: { id: F1, freight: [{ name: "f1", origin: "Warehouse/front" }] },
      history: [
        {
          collectionId: F1,
          verifications: [
            { id: "v1", phase: "Running" },
            { id: "", phase: "" },
          ],
        },
        { collectionId: computeCollectionId(["f0"]), verifications: [] },
      ],
      reverify: { id: "v1", actor: "ada", value: '{"id":"v1","actor":"ada"}' },
      abort: { id: "v1", value: "v1" },
      missingFreight: "hold",
    });
  });

  it("reads a Stage that nobody has touched yet", () => {
    const stage = readStage(makeStage());
    expect(stage.current).toBeUndefined();
    expect(stage.health).toBeUndefined();
    expect(stage.verification).toBeUndefined();
    expect(stage.history).toEqual([]);
    expect(stage.missingFreight).toBe("verify-partial");
  });

  it("holds n of m Freight in the order of their origins", () => {
    const items = { "Warehouse/z": { name: "a" }, "Warehouse/a": { name: "z" } };
    const stage = readStage(makeStage({ status: { freightHistory: [{ id: "c", items }] } }));
    expect(stage.current?.freight.map((f) => f.origin)).toEqual(["Warehouse/a", "Warehouse/z"]);
  });

  it.each([
    ["no promotionTemplate", { promotionTemplate: undefined }],
    ["no steps", { promotionTemplate: { spec: { steps: [] } } }],
    ["no spec in it", { promotionTemplate: {} }],
  ])("is a control-flow Stage with %s", (_title, spec) => {
    expect(readStage(makeStage({ spec })).controlFlow).toBe(true);
  });

  it("takes `verification: {}` for configured", () => {
    expect(readStage(makeStage({ spec: { verification: {} } })).verification).toEqual({
      analysisTemplates: [],
      args: [],
      labels: {},
      annotations: {},
    });
  });

  it.each(["", "maybe", "HOLD"])("takes the missing-freight policy %j for the default", (value) => {
    const annotations = { "tallyman.dev/missing-freight": value };
    expect(readStage(makeStage({ metadata: { annotations } })).missingFreight).toBe("verify-partial");
  });

  it("sees that a Stage is being deleted", () => {
    expect(readStage(makeStage({ metadata: { deletionTimestamp: "2026-01-02T03:04:05Z" } })).deleting).toBe(
      true,
    );
  });

  it("sees a Promotion under way", () => {
    const stage = readStage(makeStage({ status: { currentPromotion: { name: "test.02" } } }));
    expect(stage.currentPromotion).toBe("test.02");
  });

  it("cuts histories that are longer than Kargo's own limit", () => {
    const verificationHistory = Array.from({ length: 300 }, (_, i) => ({
      id: `v${i}`,
      phase: "Failed".repeat(40),
    }));
    const freightHistory = Array.from({ length: 40 }, () => ({ id: "c", verificationHistory }));
    const { history } = readStage(makeStage({ status: { freightHistory } }));
    expect(history).toHaveLength(10);
    expect(history[0]?.verifications).toHaveLength(10);
    expect(history[0]?.verifications[0]?.id).toBe("v0");
    expect(history[0]?.verifications[0]?.phase.length).toBeLessThanOrEqual(64);
  });
});

describe("what speaks against a Stage's health being newer than its last Promotion", () => {
  const application = (finishedAt: string | undefined, reconciledAt: string | undefined) => ({
    Name: "lamp",
    ...(finishedAt === undefined ? {} : { operationState: { finishedAt } }),
    ...(reconciledAt === undefined ? {} : { reconciledAt }),
  });
  const EARLY = "2030-01-01T10:00:00Z";
  const LATE = "2030-01-01T10:00:05Z";

  it.each<[string, object, string | undefined]>([
    ["nothing, where Kargo says nothing more", {}, undefined],
    [
      "nothing, while condition Healthy is True",
      { conditions: [{ type: "Healthy", status: "True" }] },
      undefined,
    ],
    [
      "condition Healthy that was reset by a new Promotion",
      { conditions: [{ type: "Healthy", status: "Unknown", reason: "WaitingForHealthCheck" }] },
      "WaitingForHealthCheck",
    ],
    ["condition Healthy without a status", { conditions: [{ type: "Healthy" }] }, "without a status"],
    [
      "an operation after the last comparison",
      { output: [{ applicationStatuses: [application(LATE, EARLY)] }] },
      "lamp",
    ],
    [
      "the same, where output is no list",
      { output: { applicationStatuses: [application(LATE, EARLY)] } },
      "lamp",
    ],
    [
      "nothing, when both are of one second",
      { output: [{ applicationStatuses: [application(EARLY, EARLY)] }] },
      undefined,
    ],
    [
      "nothing, where Kargo leaves reconciledAt out",
      { output: [{ applicationStatuses: [application(LATE, undefined)] }] },
      undefined,
    ],
    [
      "nothing, where no operation ever ended",
      { output: [{ applicationStatuses: [application(undefined, EARLY)] }] },
      undefined,
    ],
    [
      "nothing, in output of other checks",
      { output: [null, 1, "x", { applicationStatuses: [7, null, {}] }] },
      undefined,
    ],
  ])("%s", (_title, { conditions, output }: { conditions?: unknown; output?: unknown }, doubt) => {
    const stage = readStage(makeStage({ status: { health: { status: "Healthy", output }, conditions } }));
    if (doubt === undefined) expect(stage.healthDoubts).toBeUndefined();
    else expect(stage.healthDoubts).toEqual([expect.stringContaining(doubt)]);
  });

  it("ten of a thousand Applications are enough to say so", () => {
    const applicationStatuses = Array.from({ length: 1000 }, () => application(LATE, EARLY));
    const stage = readStage(
      makeStage({ status: { health: { status: "Healthy", output: [{ applicationStatuses }] } } }),
    );
    expect(stage.healthDoubts).toHaveLength(10);
  });
});

describe("artifacts of the Freight that a Stage holds", () => {
  const image = { repoURL: "registry.example.test/api", tag: "v1" };
  const read = (value: string, items: object) =>
    readStage(
      makeStage({
        spec: { verification: { args: [{ name: "a", value }] } },
        status: {
          freightHistory: [
            { id: "c", items },
            { id: "d", items: {} },
          ],
        },
      }),
    );
  const EXPRESSION = `\${{ imageFrom('x').Tag }}`;

  it("are read where an argument has an expression", () => {
    const commit = { repoURL: "https://git.example.test/a", id: "abc", unknown: "x", tag: 5 };
    const annotated = { ...image, annotations: { a: "b", n: 5 } };
    const items = {
      "Warehouse/b": {
        name: "f2",
        images: [annotated, { tag: "no repository" }, "no image"],
        commits: [commit],
      },
      "Warehouse/a": { name: "f1", charts: [{ repoURL: "oci://charts.example.test/a", version: "1.0.0" }] },
    };
    expect(read(EXPRESSION, items).artifacts).toEqual([
      {
        origin: "Warehouse/a",
        commits: [],
        images: [],
        charts: [{ repoURL: "oci://charts.example.test/a", version: "1.0.0" }],
      },
      {
        origin: "Warehouse/b",
        commits: [{ repoURL: "https://git.example.test/a", id: "abc" }],
        images: [{ ...image, annotations: { a: "b" } }],
        charts: [],
      },
    ]);
    expect(read(EXPRESSION, items).current?.freight).toEqual([
      { name: "f1", origin: "Warehouse/a" },
      { name: "f2", origin: "Warehouse/b" },
    ]);
  });

  it("stay out of messages where no argument can ask for them", () => {
    expect(read("plain", { "Warehouse/a": { name: "f1", images: [image] } }).artifacts).toBeUndefined();
  });

  it("are left out whole, Freight by Freight, where they do not fit", () => {
    const large = { name: "f1", images: [{ ...image, annotations: { a: "x".repeat(20_000) } }] };
    const small = { name: "f2", images: [image] };
    const items = { "Warehouse/large": large, "Warehouse/small": small };
    expect(read(EXPRESSION, items).artifacts?.map((each) => each.origin)).toEqual(["Warehouse/small"]);
    const many = Object.fromEntries(
      Array.from({ length: 100 }, (_, i) => [
        `Warehouse/w${i}`,
        { name: `f${i}`, commits: [{ repoURL: "r", message: "x".repeat(15_000) }] },
      ]),
    );
    const snapshot = read(EXPRESSION, many);
    expect(snapshot.current?.freight).toHaveLength(100);
    expect(snapshot.artifacts).toHaveLength(4);
    expect(JSON.stringify(snapshot.artifacts).length).toBeLessThan(66_000);
  });
});

describe("a Stage that cannot be used is refused by object and field", () => {
  it.each([
    ["metadata.uid", { metadata: { uid: undefined } }],
    ["metadata.resourceVersion", { metadata: { resourceVersion: "ten" } }],
    ["metadata.name", { metadata: { name: "Not A Name" } }],
    ["metadata.namespace", { metadata: { namespace: "a.b" } }],
    ["status.freightHistory[1].id", { status: { freightHistory: [{ id: "c" }, {}] } }],
    [
      'status.freightHistory[0].items["Warehouse/a"].name',
      { status: { freightHistory: [{ id: "c", items: { "Warehouse/a": {} } }] } },
    ],
    ["status.lastPromotion.name", { status: { lastPromotion: {} } }],
    ["status.currentPromotion.name", { status: { currentPromotion: { name: 5 } } }],
    ["spec.verification.analysisTemplates[0].name", { spec: { verification: { analysisTemplates: [{}] } } }],
    [
      "spec.verification.analysisTemplates[0].kind",
      { spec: { verification: { analysisTemplates: [{ name: "a", kind: "Job" }] } } },
    ],
    ["spec.verification.args[0].value (n)", { spec: { verification: { args: [{ name: "n", value: 5 }] } } }],
    [
      "spec.verification.args",
      { spec: { verification: { args: Array.from({ length: 201 }, (_, i) => ({ name: `a${i}` })) } } },
    ],
    ["spec.vars[0].name", { spec: { vars: [{ value: "x" }] } }],
    ["spec.requestedFreight[0].origin.name", { spec: { requestedFreight: [{}] } }],
  ])("%s", (field, overrides) => {
    const reasons = reasonsOf(() => readStage(makeStage(overrides)));
    expect(reasons.join("\n")).toContain(field);
    expect(reasons[0]).toMatch(/^Stage /);
  });

  it("names everything that is wrong at once", () => {
    expect(reasonsOf(() => readStage({}))).toHaveLength(4);
  });
});

it("keys that mean something to JavaScript are data like any other", () => {
  const stage = JSON.parse(
    `{"metadata":{"name":"test","namespace":"shop","uid":"u","resourceVersion":"1","__proto__":{"deletionTimestamp":"x"}},
      "spec":{"verification":{"analysisRunMetadata":{"labels":{"__proto__":"x","constructor":"y"}}}},
      "status":{"freightHistory":[{"id":"c","items":{"__proto__":{"name":"f"},"constructor":{"name":"g"}}}]}}`,
  );
  const snapshot = readStage(stage);
  expect(snapshot.deleting).toBe(false);
  expect(Object.getPrototypeOf(snapshot.verification?.labels)).toBe(Object.prototype);
  expect(Object.keys(snapshot.verification?.labels ?? {})).toEqual(["constructor"]);
  expect(snapshot.current?.freight).toHaveLength(2);
  expect(({} as Record<string, unknown>).deletionTimestamp).toBeUndefined();
});

/** Any JSON, and JSON that is a Stage in most places. */
function arbitraryObject(): fc.Arbitrary<unknown> {
  const any = fc.jsonValue({ maxDepth: 3 });
  const mostly = (usual: fc.Arbitrary<unknown>) =>
    fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: any });
  const text = mostly(fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "x".repeat(5000))));
  const map = mostly(
    fc.dictionary(fc.constantFrom("__proto__", "constructor", "a", "b"), mostly(fc.string())),
  );
  const name = mostly(fc.constantFrom("a", "b.c", "__proto__"));
  const some = (model: Record<string, fc.Arbitrary<unknown>>) =>
    mostly(fc.record(model, { requiredKeys: [] }));
  const named = (model: Record<string, fc.Arbitrary<unknown>>) =>
    mostly(fc.record({ name, ...model }, { requiredKeys: ["name"] }));
  const list = (entry: fc.Arbitrary<unknown>) => mostly(fc.array(entry, { maxLength: 14 }));
  const few = (entry: fc.Arbitrary<unknown>) => mostly(fc.array(entry, { maxLength: 2 }));
  const collection = fc.record({
    id: name,
    items: mostly(
      fc.dictionary(
        fc.constantFrom("Warehouse/a", "__proto__", "x"),
        named({
          images: list(some({ repoURL: text, tag: text, annotations: map })),
          commits: list(some({ repoURL: text, id: text })),
          charts: list(some({ repoURL: text, name: text })),
        }),
        { maxKeys: 2 },
      ),
    ),
    verificationHistory: list(some({ id: text, phase: text })),
  });
  const stage = fc.record({
    metadata: fc.record({
      name: mostly(fc.constant("test")),
      namespace: mostly(fc.constant("shop")),
      uid: mostly(fc.constant("uid-1")),
      resourceVersion: mostly(fc.constant("1")),
      annotations: mostly(
        fc.dictionary(fc.constantFrom("kargo.akuity.io/reverify", "kargo.akuity.io/abort"), text),
      ),
    }),
    spec: some({
      shard: text,
      vars: few(named({ value: fc.string() })),
      requestedFreight: few(fc.record({ origin: named({}) })),
      verification: some({
        analysisTemplates: few(named({})),
        args: few(named({ value: fc.oneof(fc.string(), fc.constant(`\${{ x }}`)) })),
        analysisRunMetadata: some({ labels: map, annotations: map }),
      }),
    }),
    status: some({
      health: some({ status: text }),
      lastPromotion: named({ status: some({ phase: text }), finishedAt: text }),
      freightHistory: few(collection),
    }),
  });
  return fc.oneof({ weight: 1, arbitrary: any }, { weight: 9, arbitrary: stage });
}

it("whatever JSON comes in, a snapshot that fits into a message or Fault Invalid comes out", async () => {
  let read = 0;
  await fc.assert(
    fc.property(arbitraryObject(), (object) => {
      try {
        const snapshot = readStage(object);
        read += 1;
        const data = {
          project: snapshot.project,
          stage: snapshot.name,
          observed: { kind: "Stage", ...snapshot },
        };
        const message = { specversion: "1.0", id: "1", source: "test", type: "dev.tallyman.verify", data };
        expect(messageSchema.safeParse(message).error?.issues).toBeUndefined();
      } catch (error) {
        expect(isFault(error, "Invalid"), String(error)).toBe(true);
      }
    }),
    { numRuns: 500 },
  );
  // The property says little unless a good part of them can be read.
  expect(read).toBeGreaterThan(100);
});
