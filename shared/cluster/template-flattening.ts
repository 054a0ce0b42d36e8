import { Fault } from "../domain/fault.ts";
import type { TemplateReference } from "../domain/stage.ts";
import { cutText, isPlainObject, type PlainObject, readList, readPath, readText } from "./plain-object.ts";

/** A template as it was fetched; `object` is untrusted. */
export interface FetchedTemplate {
  readonly reference: TemplateReference;
  readonly object: unknown;
}

/** An argument as the templates declare it. */
export interface DeclaredArgument {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: PlainObject;
}

/** All templates of a verification as one. Metrics, dry-run and retention rules are the templates' own objects. */
interface FlatTemplate {
  readonly metrics: readonly PlainObject[];
  readonly dryRun: readonly PlainObject[];
  readonly measurementRetention: readonly PlainObject[];
  readonly args: readonly DeclaredArgument[];
}

const MAX_DEPTH = 10;

/** `AnalysisTemplate/x`: the same name may stand for one in the Project and one of the cluster. */
function formatReference(reference: TemplateReference): string {
  return `${reference.kind}/${cutText(reference.name, 253)}`;
}

/**
 * The templates that one names in its `spec.templates`, in their order; `[]` where there are none or where the entry
 * cannot be read. The caller fetches them, and theirs in turn.
 */
export function findNestedReferences(object: unknown): TemplateReference[] {
  return readList(readPath(object, "spec", "templates")).flatMap((entry) => {
    const name = readText(readPath(entry, "templateName"));
    if (name === undefined) return [];
    const isCluster = readPath(entry, "clusterScope") === true;
    return [{ name, kind: isCluster ? ("ClusterAnalysisTemplate" as const) : ("AnalysisTemplate" as const) }];
  });
}

/**
 * Brings the templates that a Stage names, and the nested ones, into the order in which they are flattened: all
 * AnalysisTemplates, then all ClusterAnalysisTemplates, each behind the one that nests it. One that several others
 * nest counts once, as with Argo Rollouts; one that the Stage itself names twice counts twice, as with Kargo.
 *
 * @throws Fault `Permanent` for a template that is missing, a cycle, or nesting deeper than 10.
 */
export function orderTemplates(
  references: readonly TemplateReference[],
  fetched: readonly FetchedTemplate[],
): readonly FetchedTemplate[] {
  const byKey = new Map(fetched.map((template) => [formatReference(template.reference), template]));
  const ordered: FetchedTemplate[] = [];
  const seen = new Set<string>();
  const visit = (reference: TemplateReference, path: readonly string[]): void => {
    const key = formatReference(reference);
    if (path.includes(key)) {
      throw new Fault(
        "Permanent",
        `spec.templates of ${key} goes in a circle: ${[...path, key].join(" → ")}`,
      );
    }
    if (path.length > 0 && seen.has(key)) return;
    if (path.length > MAX_DEPTH) {
      throw new Fault(
        "Permanent",
        `spec.templates of ${path[0]} nests deeper than ${MAX_DEPTH}: ${path.join(" → ")}`,
      );
    }
    const template = byKey.get(key);
    if (template === undefined) {
      const by =
        path.length === 0 ? "spec.verification.analysisTemplates" : `spec.templates of ${path.at(-1)}`;
      throw new Fault("Permanent", `${key}, named by ${by}, does not exist`);
    }
    seen.add(key);
    ordered.push(template);
    for (const nested of findNestedReferences(template.object)) visit(nested, [...path, key]);
  };
  for (const reference of references) visit(reference, []);
  const isCluster = (template: FetchedTemplate) => template.reference.kind === "ClusterAnalysisTemplate";
  return [...ordered.filter((template) => !isCluster(template)), ...ordered.filter(isCluster)];
}

/**
 * Makes one template of many: metrics and rules one behind the other, arguments by name, each in the place where it is
 * first declared.
 *
 * @throws Fault `Permanent` naming the template and field of a metric, rule or argument that collides or has no name.
 */
export function flattenTemplates(templates: readonly FetchedTemplate[]): FlatTemplate {
  return {
    metrics: collect(templates, "metrics", "name", "duplicate metric name"),
    dryRun: collect(templates, "dryRun", "metricName", "duplicate dryRun rule for metric"),
    measurementRetention: collect(
      templates,
      "measurementRetention",
      "metricName",
      "duplicate measurementRetention rule for metric",
    ),
    args: flattenArguments(templates),
  };
}

function collect(
  templates: readonly FetchedTemplate[],
  field: "metrics" | "dryRun" | "measurementRetention",
  key: "name" | "metricName",
  complaint: string,
): PlainObject[] {
  const owners = new Map<string, string>();
  return templates.flatMap(({ reference, object }) => {
    const owner = formatReference(reference);
    return readList(readPath(object, "spec", field)).map((entry, index) => {
      const name = readText(readPath(entry, key));
      if (!isPlainObject(entry) || name === undefined) {
        throw new Fault("Permanent", `${owner}: spec.${field}[${index}].${key} is missing`);
      }
      const other = owners.get(name);
      if (other !== undefined) {
        const also = other === owner ? "" : ` (also in ${other})`;
        throw new Fault(
          "Permanent",
          `${owner}: spec.${field}[${index}]: ${complaint} "${cutText(name, 253)}"${also}`,
        );
      }
      owners.set(name, owner);
      return entry;
    });
  });
}

/**
 * The first template to give an argument a `value` or a `valueFrom` decides; a second, different value is a conflict.
 * A later `valueFrom` fills an argument that has neither: Kargo would leave that one unresolved, Argo Rollouts not.
 */
function flattenArguments(templates: readonly FetchedTemplate[]): DeclaredArgument[] {
  const declared = new Map<string, DeclaredArgument>();
  for (const { reference, object } of templates) {
    readList(readPath(object, "spec", "args")).forEach((entry, index) => {
      const field = `${formatReference(reference)}: spec.args[${index}]`;
      const next = readArgument(entry, field);
      const previous = declared.get(next.name);
      if (previous === undefined) {
        declared.set(next.name, next);
        return;
      }
      if (previous.value !== undefined && next.value !== undefined && previous.value !== next.value) {
        throw new Fault(
          "Permanent",
          `${field}: conflicting values for argument "${cutText(next.name, 253)}"`,
        );
      }
      if (previous.value === undefined && previous.valueFrom === undefined) declared.set(next.name, next);
    });
  }
  return [...declared.values()];
}

function readArgument(entry: unknown, field: string): DeclaredArgument {
  const name = readText(readPath(entry, "name"));
  if (name === undefined) throw new Fault("Permanent", `${field}.name is missing`);
  const value = readPath(entry, "value");
  const valueFrom = readPath(entry, "valueFrom");
  if (value !== undefined && value !== null && typeof value !== "string") {
    throw new Fault("Permanent", `${field}.value (${cutText(name, 253)}) is not a text`);
  }
  return {
    name,
    ...(typeof value === "string" ? { value } : {}),
    ...(isPlainObject(valueFrom) ? { valueFrom } : {}),
  };
}
