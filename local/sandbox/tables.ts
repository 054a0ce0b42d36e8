import { isRecord, readPath, type StoredObject, serialise } from "./objects.ts";
import type { Column, ResourceKind } from "./resources.ts";

/** How much of each object a Table's rows carry: `includeObject` of the request. */
export type IncludeObject = "None" | "Metadata" | "Object";

interface ColumnDefinition {
  readonly name: string;
  readonly type: "string";
  readonly format: string;
  readonly description: string;
  readonly priority: number;
}

function columnsOf(resource: ResourceKind): readonly Column[] {
  const age: Column = { name: "Age", path: ["metadata", "creationTimestamp"], type: "age" };
  const hasAge = resource.columns.some((column) => column.type === "age");
  return [{ name: "Name", path: ["metadata", "name"] }, ...resource.columns, ...(hasAge ? [] : [age])];
}

function defineColumns(resource: ResourceKind): readonly ColumnDefinition[] {
  return columnsOf(resource).map((column) => ({
    name: column.name,
    type: "string",
    format: column.name === "Name" ? "name" : "",
    description: "",
    priority: column.priority ?? 0,
  }));
}

/** `path` may lead through a list of conditions: there a name stands for the condition of that type. */
function readCell(object: StoredObject, column: Column, now: Date): string | number {
  let value: unknown = object;
  for (const field of column.path) {
    value = Array.isArray(value)
      ? value.find((item) => readPath(item, ["type"]) === field)
      : readPath(value, [field]);
  }
  if (column.type === "count") return isRecord(value) ? Object.keys(value).length : 0;
  if (column.type === "age") return typeof value === "string" ? formatAge(value, now) : "<unknown>";
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : "";
}

/** The time since then as kubectl shortens it: `42s`, `3m10s`, `5h`, `2d3h`, `14d`. */
export function formatAge(since: string, now: Date): string {
  const seconds = Math.max(0, Math.floor((now.getTime() - Date.parse(since)) / 1000));
  if (Number.isNaN(seconds)) return "<unknown>";
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const two = (big: number, bigUnit: string, small: number, smallUnit: string): string =>
    small === 0 ? `${big}${bigUnit}` : `${big}${bigUnit}${small}${smallUnit}`;
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return two(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return two(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  if (days < 8) return two(days, "d", hours % 24, "h");
  if (days < 730) return `${days}d`;
  return two(Math.floor(days / 365), "y", days % 365, "d");
}

function formatRowObject(object: StoredObject, include: IncludeObject): string {
  if (include === "None") return "null";
  if (include === "Object") return serialise(object);
  return JSON.stringify({
    kind: "PartialObjectMetadata",
    apiVersion: "meta.k8s.io/v1",
    metadata: object.metadata,
  });
}

/**
 * The `meta.k8s.io/v1` Table that `kubectl get` prints, as JSON text. Watch events after the first leave the
 * column definitions out, as a real API server does.
 */
export function formatTable(
  resource: ResourceKind,
  objects: readonly StoredObject[],
  options: {
    readonly include: IncludeObject;
    readonly metadata: object;
    readonly withColumns: boolean;
    readonly now: Date;
  },
): string {
  const columns = columnsOf(resource);
  const rows = objects.map((object) => {
    const cells = JSON.stringify(columns.map((column) => readCell(object, column, options.now)));
    return `{"cells":${cells},"object":${formatRowObject(object, options.include)}}`;
  });
  const definitions = JSON.stringify(options.withColumns ? defineColumns(resource) : []);
  return `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":${JSON.stringify(options.metadata)},"columnDefinitions":${definitions},"rows":[${rows.join(",")}]}`;
}
