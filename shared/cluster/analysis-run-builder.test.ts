import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunIdentity } from "../domain/analysis-run.ts";
import { isFault } from "../domain/fault.ts";
import { computeCollectionId, deriveAnalysisRunName, deriveVerificationId } from "../domain/identity.ts";
import type { StageSnapshot, TemplateReference } from "../domain/stage.ts";
import {
  type AnalysisRunParts,
  buildAnalysisRun,
  findNestedReferences,
  isSameRun,
} from "./analysis-run-builder.ts";
import { readAnalysisRun } from "./analysis-run-reader.ts";

const collection = {
  id: computeCollectionId(["f1", "f2"]),
  freight: [
    { name: "f2", origin: "Warehouse/back" },
    { name: "f1", origin: "Warehouse/front" },
  ],
};

function makeIdentity(stageUid = "uid-1"): RunIdentity {
  const cause = { kind: "promotion", promotion: "test.01" } as const;
  const id = deriveVerificationId(cause, stageUid, collection.id);
  return { id, stageUid, cause, promotion: "test.01", collection, missingOrigins: [] };
}

type Config = NonNullable<StageSnapshot["verification"]>;

function makeStage(
  verification: Partial<Config> = {},
  overrides: Partial<StageSnapshot> = {},
): StageSnapshot {
  return {
    uid: "uid-1",
    project: "shop",
    name: "test",
    resourceVersion: "1",
    deleting: false,
    controlFlow: false,
    verification: { analysisTemplates: [], args: [], labels: {}, annotations: {}, ...verification },
    vars: [],
    requestedOrigins: [],
    history: [],
    missingFreight: "verify-partial",
    ...overrides,
  };
}

const FREIGHTS = [
  { name: "f1", uid: "freight-1" },
  { name: "f2", uid: "freight-2" },
];

const template = (name: string, spec: object, kind: TemplateReference["kind"] = "AnalysisTemplate") => ({
  reference: { name, kind },
  object: { metadata: { name }, spec },
});
const metric = (name: string) => ({ name, provider: { job: { spec: {} } } });

interface Run {
  readonly metadata: {
    readonly name: string;
    readonly labels: Record<string, string>;
    readonly annotations: Record<string, string>;
    readonly ownerReferences: readonly unknown[];
  };
  readonly spec: {
    readonly metrics: readonly { readonly name: string }[];
    readonly dryRun?: readonly unknown[];
    readonly measurementRetention?: readonly unknown[];
    readonly args?: readonly {
      readonly name: string;
      readonly value?: string;
      readonly valueFrom?: unknown;
    }[];
  };
}

function build(parts: Partial<AnalysisRunParts> = {}): { run: Run; warnings: readonly string[] } {
  const { run, warnings } = buildAnalysisRun({
    stage: makeStage(),
    identity: makeIdentity(),
    templates: [],
    freights: FREIGHTS,
    ...parts,
  });
  return { run: run as unknown as Run, warnings };
}

/** Builds from templates that the Stage names in this order. */
function buildFrom(
  templates: AnalysisRunParts["templates"],
  verification: Partial<Config> = {},
  overrides: Partial<StageSnapshot> = {},
) {
  const analysisTemplates = templates.map((t) => t.reference);
  return build({ stage: makeStage({ analysisTemplates, ...verification }, overrides), templates });
}

function refusalOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (isFault(error, "Permanent")) return error.message;
    throw error;
  }
  throw new Error("it was not refused");
}

describe("the run's identity", () => {
  it("has a name, namespace and annotation that follow from the verification", () => {
    const identity = makeIdentity();
    const { run } = build();
    expect(run).toMatchObject({
      apiVersion: "argoproj.io/v1alpha1",
      kind: "AnalysisRun",
      metadata: { name: deriveAnalysisRunName("test", identity.id, collection.id), namespace: "shop" },
    });
    expect(JSON.parse(run.metadata.annotations["tallyman.dev/verification"] ?? "")).toEqual(identity);
    expect(isSameRun(run, identity)).toBe(true);
    expect(isSameRun(run, makeIdentity("uid-2"))).toBe(false);
  });

  it("is read back as it was written", () => {
    const identity = makeIdentity();
    const { run } = build();
    const metadata = { ...run.metadata, uid: "u", resourceVersion: "1" };
    expect(readAnalysisRun({ ...run, metadata })?.identity).toEqual(identity);
  });

  it("the same parts give the same run", () => {
    expect(build()).toEqual(build());
  });

  it("is owned by every Freight of the collection, in its order", () => {
    const reference = { apiVersion: "kargo.akuity.io/v1alpha1", kind: "Freight", blockOwnerDeletion: false };
    expect(build().run.metadata.ownerReferences).toEqual([
      { ...reference, name: "f2", uid: "freight-2" },
      { ...reference, name: "f1", uid: "freight-1" },
    ]);
  });

  it("owner not found", () => {
    const message = refusalOf(() => build({ freights: [{ name: "f1", uid: "freight-1" }] }));
    expect(message).toContain("Freight shop/f2");
  });

  it("missing verification configuration", () => {
    const { verification: _, ...stage } = makeStage();
    expect(refusalOf(() => build({ stage }))).toContain("Stage shop/test: spec.verification is missing");
  });
});

describe("labels and annotations", () => {
  it("ours win over the Stage's own", () => {
    const { run } = build({
      stage: makeStage({
        labels: { team: "shop", "kargo.akuity.io/stage": "prod", "kargo.akuity.io/freight-collection": "x" },
        annotations: { note: "hi", "kargo.akuity.io/stage": "prod", "tallyman.dev/verification": "{}" },
      }),
      controllerInstanceId: "blue",
      promotionAnnotation: "test.01",
    });
    expect(run.metadata.labels).toEqual({
      team: "shop",
      "kargo.akuity.io/stage": "test",
      "kargo.akuity.io/freight-collection": collection.id,
      "argo-rollouts.argoproj.io/controller-instance-id": "blue",
    });
    expect(run.metadata.annotations).toEqual({
      note: "hi",
      "kargo.akuity.io/promotion": "test.01",
      "tallyman.dev/verification": JSON.stringify(makeIdentity()),
    });
  });

  it("no instance label and no promotion annotation unless there is one", () => {
    const { run } = build({ controllerInstanceId: "", promotionAnnotation: "" });
    expect(Object.keys(run.metadata.labels)).toHaveLength(2);
    expect(Object.keys(run.metadata.annotations)).toHaveLength(1);
  });

  it("stage name exceeding max label length → hashed label and full-name annotation", () => {
    const name = "this-is-a-very-long-stage-name-that-exceeds-the-label-length-and-should-be-truncated";
    const { run } = build({ stage: makeStage({}, { name }) });
    expect(run.metadata.labels["kargo.akuity.io/stage"]).toBe(
      "this-is-a-very-long-stage-name-that-exceeds-the-label-1c0a17e1",
    );
    expect(run.metadata.annotations["kargo.akuity.io/stage"]).toBe(name);
  });
});

describe("templates", () => {
  it("`verification: {}` makes a run without metrics, which Argo Rollouts then ends with Error", () => {
    expect(build().run.spec).toEqual({ metrics: [] });
  });

  it("all AnalysisTemplates come first, then all ClusterAnalysisTemplates", () => {
    const { run } = buildFrom([
      template("c1", { metrics: [metric("c1")] }, "ClusterAnalysisTemplate"),
      template("a1", { metrics: [metric("a1")] }),
      template("c2", { metrics: [metric("c2")] }, "ClusterAnalysisTemplate"),
      template("a2", { metrics: [metric("a2")], dryRun: [{ metricName: "a.*" }] }),
    ]);
    expect(run.spec.metrics.map((m) => m.name)).toEqual(["a1", "a2", "c1", "c2"]);
    expect(run.spec.dryRun).toEqual([{ metricName: "a.*" }]);
  });

  it("template not found", () => {
    const stage = makeStage({ analysisTemplates: [{ name: "smoke", kind: "AnalysisTemplate" }] });
    const message = refusalOf(() => build({ stage }));
    expect(message).toContain("AnalysisTemplate/smoke");
    expect(message).toContain("spec.verification.analysisTemplates");
    // The same name in the other kind does not help.
    refusalOf(() => build({ stage, templates: [template("smoke", {}, "ClusterAnalysisTemplate")] }));
  });

  it("nested templates are flattened behind the one that nests them, each once", () => {
    const nest = (...names: string[]) => names.map((templateName) => ({ templateName }));
    const templates = [
      template("top", { metrics: [metric("top")], templates: nest("left", "right") }),
      template("left", {
        metrics: [metric("left")],
        templates: [{ templateName: "base", clusterScope: true }],
      }),
      template("right", {
        metrics: [metric("right")],
        templates: [{ templateName: "base", clusterScope: true }],
      }),
      template("base", { metrics: [metric("base")] }, "ClusterAnalysisTemplate"),
    ];
    expect(findNestedReferences(templates[1]?.object)).toEqual([
      { name: "base", kind: "ClusterAnalysisTemplate" },
    ]);
    const stage = makeStage({ analysisTemplates: [{ name: "top", kind: "AnalysisTemplate" }] });
    const { run } = build({ stage, templates });
    expect(run.spec.metrics.map((m) => m.name)).toEqual(["top", "left", "right", "base"]);
  });

  it("a circle of templates is named", () => {
    const templates = [
      template("a", { templates: [{ templateName: "b" }] }),
      template("b", { templates: [{ templateName: "a" }] }),
    ];
    expect(refusalOf(() => buildFrom(templates))).toContain(
      "AnalysisTemplate/a → AnalysisTemplate/b → AnalysisTemplate/a",
    );
  });

  it("nesting deeper than 10 is refused", () => {
    const chain = (depth: number) =>
      Array.from({ length: depth + 1 }, (_, i) =>
        template(`t${i}`, {
          metrics: [metric(`m${i}`)],
          templates: i < depth ? [{ templateName: `t${i + 1}` }] : [],
        }),
      );
    const stage = makeStage({ analysisTemplates: [{ name: "t0", kind: "AnalysisTemplate" }] });
    expect(build({ stage, templates: chain(10) }).run.spec.metrics).toHaveLength(11);
    expect(refusalOf(() => build({ stage, templates: chain(11) }))).toContain("deeper than 10");
  });

  it.each([
    ["duplicate metric name", { metrics: [metric("m")] }, { metrics: [metric("m")] }, 'metric name "m"'],
    [
      "dryRun collision, even if identical",
      { dryRun: [{ metricName: "m" }] },
      { dryRun: [{ metricName: "m" }] },
      "spec.dryRun[0]",
    ],
    [
      "retention collision",
      { measurementRetention: [{ metricName: "m", limit: 1 }] },
      { measurementRetention: [{ metricName: "m", limit: 1 }] },
      "spec.measurementRetention[0]",
    ],
    [
      "conflicting values for argument",
      { args: [{ name: "url", value: "a" }] },
      { args: [{ name: "url", value: "b" }] },
      'conflicting values for argument "url"',
    ],
    ["metric without a name", {}, { metrics: [{}] }, "spec.metrics[0].name is missing"],
    ["argument without a name", {}, { args: [{}] }, "spec.args[0].name is missing"],
    ["argument that is no text", {}, { args: [{ name: "n", value: 5 }] }, "is not a text"],
  ])("%s", (_title, first, second, part) => {
    const message = refusalOf(() => buildFrom([template("one", first), template("two", second)]));
    expect(message).toContain("AnalysisTemplate/two");
    expect(message).toContain(part);
  });

  it("the same metric twice in one template, and one template named twice", () => {
    refusalOf(() => buildFrom([template("one", { metrics: [metric("m"), metric("m")] })]));
    const one = template("one", { metrics: [metric("m")] });
    refusalOf(() => buildFrom([one, one]));
  });
});

describe("arguments from the Freight", () => {
  const repoURL = "registry.example.test/api";
  const args = [{ name: "a", value: `\${{ imageFrom("${repoURL}").Tag }}` }];
  const holding = (tag: string) => ({ commits: [], images: [{ repoURL, tag }], charts: [] });
  const templates = [template("one", { args: [{ name: "a" }] })];
  const analysisTemplates = [{ name: "one", kind: "AnalysisTemplate" as const }];
  const buildWith = (snapshot: Partial<StageSnapshot>, freights: AnalysisRunParts["freights"] = FREIGHTS) =>
    build({
      templates,
      freights,
      stage: makeStage(
        { analysisTemplates, args },
        { requestedOrigins: ["Warehouse/back", "Warehouse/front"], ...snapshot },
      ),
    }).run.spec.args;
  const told = [{ origin: "Warehouse/front", ...holding("told") }];
  const asRead = [
    { name: "f1", uid: "freight-1", artifacts: holding("read") },
    { name: "f2", uid: "freight-2", artifacts: { ...holding(""), images: [] } },
  ];

  it("come from the Stage's snapshot", () => {
    const artifacts = [...told, { origin: "Warehouse/back", ...holding(""), images: [] }];
    expect(buildWith({ current: collection, artifacts })).toEqual([{ name: "a", value: "told" }]);
  });

  it("come from the Freight itself where an older producer's snapshot has none, or not of all", () => {
    expect(buildWith({ current: collection }, asRead)).toEqual([{ name: "a", value: "read" }]);
    expect(buildWith({ current: collection, artifacts: told }, asRead)).toEqual([
      { name: "a", value: "told" },
    ]);
  });

  it("are never those of another collection than the one that is verified", () => {
    const current = { id: "other", freight: [] };
    expect(buildWith({ current, artifacts: told }, asRead)).toEqual([{ name: "a", value: "read" }]);
  });

  it("are refused while nobody said what the Freight consists of", () => {
    expect(refusalOf(() => buildWith({ current: collection }))).toContain("Freight f2");
  });
});

it("whatever templates and arguments come in, a run without expressions or Fault Permanent comes out", async () => {
  const any = fc.jsonValue({ maxDepth: 3 });
  const name = fc.constantFrom("a", "b", "c", "__proto__", "constructor");
  const spec = fc.oneof(
    any,
    fc.record(
      {
        metrics: fc.oneof(
          any,
          fc.uniqueArray(fc.record({ name }), { selector: (m) => m.name, maxLength: 2 }),
        ),
        args: fc.oneof(
          any,
          fc.array(fc.record({ name, value: fc.oneof(fc.string(), any) }, { requiredKeys: ["name"] })),
        ),
        templates: fc.oneof(any, fc.array(fc.record({ templateName: name, clusterScope: fc.boolean() }))),
      },
      { requiredKeys: [] },
    ),
  );
  const value = fc.array(fc.constantFrom("${{", "}}", "ctx.stage", "'", "$", "{", "{", "x", "1", " "), {
    maxLength: 8,
  });
  const args = fc.array(fc.record({ name, value: value.map((parts) => parts.join("")) }));
  await fc.assert(
    fc.property(fc.array(fc.tuple(name, spec), { maxLength: 3 }), args, (list, given) => {
      try {
        const { run } = buildFrom(
          list.map(([n, s]) => ({
            reference: { name: n, kind: "AnalysisTemplate" as const },
            object: { spec: s },
          })),
          { args: given },
        );
        expect(JSON.stringify(run.spec.args ?? [])).not.toContain("${{");
      } catch (error) {
        expect(isFault(error, "Permanent"), String(error)).toBe(true);
      }
    }),
    { numRuns: 1000 },
  );
  expect(({} as Record<string, unknown>).templates).toBeUndefined();
});
