import { createHash } from "node:crypto";
import type { TemplateReference } from "../domain/stage.ts";
import type { TemplateState } from "../domain/template-drift.ts";
import { TEMPLATES_ANNOTATION } from "./annotations.ts";
import { isPlainObject, readList, readPath, readText } from "./plain-object.ts";

const HASH_LENGTH = 12;
const MAX_ANNOTATION = 65_536;

/** How a template is at present: its generation, and a hash of its spec in which the order of keys does not matter. */
export function readTemplateState(reference: TemplateReference, object: unknown): TemplateState {
  const generation = readPath(object, "metadata", "generation");
  return {
    kind: reference.kind,
    name: reference.name,
    generation: typeof generation === "number" ? generation : 0,
    hash: createHash("sha256")
      .update(JSON.stringify(sortKeys(readPath(object, "spec") ?? null)))
      .digest("hex")
      .slice(0, HASH_LENGTH),
  };
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (!isPlainObject(value)) return value;
  return Object.keys(value)
    .sort()
    .map((key) => [key, sortKeys(value[key])]);
}

/** What an AnalysisRun carries of the templates that it was made of; `[]` where it says nothing that can be used. */
export function readUsedTemplates(run: unknown): readonly TemplateState[] {
  const text = readText(readPath(run, "metadata", "annotations", TEMPLATES_ANNOTATION));
  if (text === undefined || text.length > MAX_ANNOTATION) return [];
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [];
  }
  return readList(value).flatMap((entry): TemplateState[] => {
    const kind = readText(readPath(entry, "kind"));
    const name = readText(readPath(entry, "name"));
    const generation = readPath(entry, "generation");
    const hash = readText(readPath(entry, "hash"));
    if (kind !== "AnalysisTemplate" && kind !== "ClusterAnalysisTemplate") return [];
    if (name === undefined || hash === undefined || typeof generation !== "number") return [];
    return [{ kind, name, generation, hash }];
  });
}
