import { badRequest } from "./api-status.ts";
import { readPath, type StoredObject } from "./objects.ts";
import { formatApiVersion, type ResourceKind } from "./resources.ts";

export type Matches = (object: StoredObject) => boolean;

const QUALIFIED_NAME = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

function unable(text: string): Error {
  return badRequest(
    `unable to parse requirement: found ${JSON.stringify(text)}, which is no label requirement`,
  );
}

/** One comma-separated part; commas inside `in (a,b)` do not separate. */
function splitRequirements(selector: string): readonly string[] {
  return selector
    .split(/,(?![^(]*\))/)
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function parseRequirement(text: string): (labels: Readonly<Record<string, string>>) => boolean {
  const check = (key: string): string => {
    if (!QUALIFIED_NAME.test(key)) throw unable(text);
    return key;
  };
  const has = (labels: Readonly<Record<string, string>>, key: string): boolean => Object.hasOwn(labels, key);

  const set = /^(\S+)\s+(in|notin)\s*\(([^)]*)\)$/.exec(text);
  if (set !== null) {
    const key = check(set[1] ?? "");
    const values = new Set((set[3] ?? "").split(",").map((value) => value.trim()));
    const within = set[2] === "in";
    return (labels) => (has(labels, key) ? values.has(labels[key] ?? "") === within : !within);
  }
  const equality = /^([^!=\s]+)\s*(==|=|!=)\s*([^!=\s]*)$/.exec(text);
  if (equality !== null) {
    const key = check(equality[1] ?? "");
    const value = equality[3] ?? "";
    return equality[2] === "!="
      ? (labels) => !has(labels, key) || labels[key] !== value
      : (labels) => has(labels, key) && labels[key] === value;
  }
  const absent = text.startsWith("!");
  const key = check(absent ? text.slice(1).trim() : text);
  return (labels) => has(labels, key) !== absent;
}

/** The `labelSelector` grammar of `kubectl -l`. @throws ApiError 400. */
export function parseLabelSelector(selector: string): Matches {
  const requirements = splitRequirements(selector).map(parseRequirement);
  return (object) => {
    const labels = object.metadata.labels ?? {};
    return requirements.every((requirement) => requirement(labels));
  };
}

/** The `fieldSelector` of a list or watch: `=`, `==` and `!=` on the few fields a kind allows. @throws ApiError 400. */
export function parseFieldSelector(resource: ResourceKind, selector: string): Matches {
  const allowed = ["metadata.name", "metadata.namespace", ...resource.selectableFields];
  const requirements = splitRequirements(selector).map((text) => {
    const match = /^([^!=\s]+)\s*(==|=|!=)\s*(.*)$/.exec(text);
    if (match === null) throw badRequest(`invalid selector: ${JSON.stringify(text)}; can't understand it`);
    const [, field = "", operator, value = ""] = match;
    if (!allowed.includes(field)) {
      throw badRequest(
        `Unable to find "${formatApiVersion(resource)}, Resource=${resource.plural}" that match label selector "", field selector "${selector}": field label not supported: ${field}`,
      );
    }
    const path = field.split(".");
    return (object: StoredObject): boolean => {
      const found = readPath(object, path);
      return (String(found ?? "") === value) === (operator !== "!=");
    };
  });
  return (object) => requirements.every((requirement) => requirement(object));
}
