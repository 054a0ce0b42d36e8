import type { FieldError } from "./api-status.ts";
import { isRecord } from "./objects.ts";

/**
 * What the kinds' real CRDs demand, as far as Tallyman and its examples write it. `[]` goes through a list,
 * `{}` through a map. A field is required where the object around it exists.
 */
interface SchemaRules {
  readonly required: readonly string[];
  readonly notEmpty?: readonly string[];
  readonly oneOf?: Readonly<Record<string, readonly string[]>>;
}

const CONDITIONS = ["lastTransitionTime", "message", "reason", "status", "type"].map(
  (field) => `status.conditions[].${field}`,
);
const CONDITION_STATUS = { "status.conditions[].status": ["True", "False", "Unknown"] };

function collectionRules(path: string): readonly string[] {
  return [
    `${path}.id`,
    `${path}.items{}.origin.kind`,
    `${path}.items{}.origin.name`,
    // A reference to an AnalysisRun always carries a phase, if an empty one.
    ...["name", "namespace", "phase"].map((field) => `${path}.verificationHistory[].analysisRun.${field}`),
  ];
}

const TEMPLATE_SPEC = [
  "spec",
  "spec.args[].name",
  "spec.args[].valueFrom.secretKeyRef.key",
  "spec.args[].valueFrom.secretKeyRef.name",
  "spec.dryRun[].metricName",
  "spec.measurementRetention[].limit",
  "spec.measurementRetention[].metricName",
  "spec.metrics[].name",
];

const RULES: Readonly<Record<string, SchemaRules>> = {
  Stage: {
    required: [
      "spec",
      "spec.requestedFreight",
      "spec.requestedFreight[].origin",
      "spec.requestedFreight[].origin.kind",
      "spec.requestedFreight[].origin.name",
      "spec.requestedFreight[].sources",
      "spec.vars[].name",
      "spec.verification.analysisTemplates[].name",
      "spec.verification.args[].name",
      "spec.verification.args[].value",
      ...CONDITIONS,
      ...collectionRules("status.freightHistory[]"),
    ],
    notEmpty: ["spec.requestedFreight"],
    oneOf: {
      "spec.requestedFreight[].origin.kind": ["Warehouse"],
      "spec.verification.analysisTemplates[].kind": ["AnalysisTemplate", "ClusterAnalysisTemplate"],
      ...CONDITION_STATUS,
    },
  },
  Freight: {
    required: ["origin", "origin.kind", "origin.name"],
    oneOf: { "origin.kind": ["Warehouse"] },
  },
  Promotion: {
    required: ["spec", "spec.stage", "spec.steps", ...collectionRules("status.freightCollection")],
    notEmpty: ["spec.steps"],
  },
  Warehouse: { required: ["spec", "spec.interval", ...CONDITIONS], oneOf: CONDITION_STATUS },
  Project: { required: CONDITIONS, oneOf: CONDITION_STATUS },
  AnalysisRun: {
    required: [
      ...TEMPLATE_SPEC,
      "spec.metrics",
      "status.phase",
      "status.metricResults[].name",
      "status.metricResults[].phase",
      "status.metricResults[].measurements[].phase",
    ],
  },
  AnalysisTemplate: { required: TEMPLATE_SPEC },
  ClusterAnalysisTemplate: { required: TEMPLATE_SPEC },
  Application: { required: ["spec", "spec.project"] },
};

/** Every place that `path` leads to whose surroundings exist, with the field's value there. */
function findPlaces(
  root: unknown,
  path: string,
): readonly { readonly field: string; readonly value: unknown }[] {
  let places: { field: string; value: unknown }[] = [{ field: "", value: root }];
  for (const [step] of path.matchAll(/[^.[\]{}]+|\[\]|\{\}/g)) {
    places = places.flatMap(({ field, value }) => {
      if (step === "[]") {
        if (!Array.isArray(value)) return [];
        return value.map((item: unknown, index) => ({ field: `${field}[${index}]`, value: item }));
      }
      if (!isRecord(value)) return [];
      if (step === "{}") {
        return Object.entries(value).map(([key, item]) => ({ field: `${field}.${key}`, value: item }));
      }
      return [{ field: field === "" ? step : `${field}.${step}`, value: value[step] }];
    });
  }
  return places;
}

function isMissing(value: unknown): boolean {
  return value === undefined || value === null;
}

/** What an object of this kind lacks, or has that is not allowed; empty when nothing is wrong. */
export function checkSchema(kind: string, object: Readonly<Record<string, unknown>>): FieldError[] {
  const rules = RULES[kind];
  if (rules === undefined) return [];
  const required = rules.required.flatMap((path) =>
    findPlaces(object, path)
      .filter(({ value }) => isMissing(value))
      .map(({ field }): FieldError => ({ field, reason: "FieldValueRequired", message: "Required value" })),
  );
  const notEmpty = (rules.notEmpty ?? []).flatMap((path) =>
    findPlaces(object, path)
      .filter(({ value }) => Array.isArray(value) && value.length === 0)
      .map(
        ({ field }): FieldError => ({
          field,
          reason: "FieldValueInvalid",
          message: `Invalid value: 0: ${field} in body should have at least 1 items`,
        }),
      ),
  );
  const oneOf = Object.entries(rules.oneOf ?? {}).flatMap(([path, allowed]) =>
    findPlaces(object, path)
      .filter(({ value }) => !isMissing(value) && value !== "" && !allowed.includes(String(value)))
      .map(
        ({ field, value }): FieldError => ({
          field,
          reason: "FieldValueNotSupported",
          message: `Unsupported value: ${JSON.stringify(value)}: supported values: ${allowed.map((a) => JSON.stringify(a)).join(", ")}`,
        }),
      ),
  );
  return [...required, ...notEmpty, ...oneOf];
}
