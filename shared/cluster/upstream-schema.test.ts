import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { computeCollectionId, deriveVerificationId } from "../domain/identity.ts";
import { PHASES } from "../domain/phase.ts";
import { buildAnalysisRun } from "./analysis-run-builder.ts";
import { isPlainObject, readList, readPath } from "./plain-object.ts";
import { mergeVerification, mergeVerifiedIn } from "./stage-status.ts";

/**
 * Everything that we write, held against the CRDs that clusters really have: a field that they do not know would be
 * pruned in silence. The CRDs lie beside the repository; without them there is nothing to compare with.
 */
const FOLDER =
  process.env.TALLYMAN_UPSTREAM_CRDS ?? join(import.meta.dirname, "../../..", "shared/upstream/crds");

function loadSchemas(): ReadonlyMap<string, unknown> {
  const files = existsSync(FOLDER) ? readdirSync(FOLDER).filter((file) => file.endsWith(".yaml")) : [];
  return new Map(
    files.map((file) => {
      const crd: unknown = parse(readFileSync(join(FOLDER, file), "utf8"));
      const [version] = readList(readPath(crd, "spec", "versions"));
      return [String(readPath(crd, "spec", "names", "kind")), readPath(version, "schema", "openAPIV3Schema")];
    }),
  );
}

/** What a schema has against a value: unknown, missing and mistyped fields, by path. */
function findFaults(schema: unknown, value: unknown, path = ""): string[] {
  if (!isPlainObject(schema) || schema["x-kubernetes-preserve-unknown-fields"] === true) return [];
  const { type, properties, additionalProperties, items } = schema;
  if (type === "object") {
    if (!isPlainObject(value)) return [`${path} is no object`];
    const missing = readList(schema.required).filter((key) => !Object.hasOwn(value, String(key)));
    return [
      ...missing.map((key) => `${path}.${key} is missing`),
      ...Object.entries(value).flatMap(([key, field]) => {
        const known =
          isPlainObject(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined;
        const inner = known ?? additionalProperties;
        // metadata is the API server's own business.
        if (inner === undefined && path === ".metadata") return [];
        return inner === undefined
          ? [`${path}.${key} would be pruned`]
          : findFaults(inner, field, `${path}.${key}`);
      }),
    ];
  }
  if (type === "array") {
    if (!Array.isArray(value)) return [`${path} is no list`];
    return value.flatMap((entry, index) => findFaults(items, entry, `${path}[${index}]`));
  }
  if (type === "string") {
    if (typeof value !== "string") return [`${path} is no text`];
    const isTime = schema.format === "date-time";
    if (isTime && !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value)) return [`${path} is no time`];
    if (typeof schema.pattern === "string" && !new RegExp(schema.pattern).test(value))
      return [`${path} has no match`];
    const isKnown = !Array.isArray(schema.enum) || schema.enum.includes(value);
    return isKnown ? [] : [`${path} is none of the words allowed`];
  }
  if (type === "integer" && !Number.isInteger(value)) return [`${path} is no whole number`];
  if (type === "boolean" && typeof value !== "boolean") return [`${path} is no boolean`];
  return [];
}

const schemas = loadSchemas();
const collection = { id: computeCollectionId(["f1"]), freight: [{ name: "f1", origin: "Warehouse/front" }] };
const cause = { kind: "promotion", promotion: "test.01" } as const;
const id = deriveVerificationId(cause, "uid-1", collection.id);
const identity = { id, stageUid: "uid-1", cause, promotion: "test.01", collection, missingOrigins: [] };

describe.skipIf(schemas.size === 0)("what we write is what the clusters' own CRDs know", () => {
  it("the walker itself sees what would be pruned", () => {
    expect(findFaults(schemas.get("Freight"), { status: { verified: {} } })).toContain(
      ".status.verified would be pruned",
    );
    expect(findFaults(schemas.get("Stage"), { status: { freightHistory: [{}] } })).toContain(
      ".status.freightHistory[0].id is missing",
    );
  });

  it("AnalysisRun", () => {
    const { run } = buildAnalysisRun({
      stage: {
        uid: "uid-1",
        project: "shop",
        name: "test",
        resourceVersion: "1",
        deleting: false,
        controlFlow: false,
        verification: {
          analysisTemplates: [{ name: "smoke", kind: "AnalysisTemplate" }],
          args: [{ name: "url", value: "x" }],
          labels: {},
          annotations: {},
        },
        vars: [],
        requestedOrigins: [],
        history: [],
        missingFreight: "verify-partial",
      },
      identity,
      templates: [
        {
          reference: { name: "smoke", kind: "AnalysisTemplate" },
          object: {
            spec: {
              args: [
                { name: "url" },
                { name: "token", valueFrom: { secretKeyRef: { name: "s", key: "k" } } },
              ],
              metrics: [
                { name: "m", interval: "10s", provider: { prometheus: { address: "a", query: "q" } } },
              ],
              dryRun: [{ metricName: "m" }],
              measurementRetention: [{ metricName: "m", limit: 5 }],
            },
          },
        },
      ],
      freights: [{ name: "f1", uid: "freight-1" }],
    });
    expect(findFaults(schemas.get("AnalysisRun"), run)).toEqual([]);
  });

  it.each(PHASES)("Stage status with a verification that is %s", (phase) => {
    const stage = {
      metadata: { uid: "uid-1", resourceVersion: "42", generation: 2 },
      status: { freightHistory: [{ id: collection.id, items: {} }] },
    };
    const isOpen = phase === "Pending" || phase === "Running";
    const patch = mergeVerification(
      stage,
      {
        key: { cluster: "main", project: "shop", stage: "test" },
        ...identity,
        actor: "ada",
        phase,
        message: "because",
        createdAt: 1_767_323_045_678,
        ...(isOpen ? {} : { finishedAt: 1_767_323_105_678 }),
        run: { name: "r", phase: "" },
        observed: "0",
        awaited: false,
      },
      new Date(1_767_323_105_678),
    );
    expect(findFaults(schemas.get("Stage"), { spec: { requestedFreight: [] }, ...patch })).toEqual([]);
  });

  it("Freight status", () => {
    const patch = mergeVerifiedIn(
      { metadata: { resourceVersion: "1" } },
      "test",
      new Date(1_767_323_105_678),
    );
    expect(findFaults(readPath(schemas.get("Freight"), "properties", "status"), patch?.status)).toEqual([]);
  });
});
