/** A way to one value of a JSON document, for example `$.deployment.environment` or `$.labels["app.kubernetes.io/name"]`. */
export interface ValuePath {
  readonly text: string;
  readonly steps: readonly (string | number)[];
}

const MAX_LENGTH = 256;
const MAX_STEPS = 20;
const STEP = /\.([A-Za-z_][\w-]*)|\[(\d{1,6})\]|\["([^"\\]+)"\]|\['([^'\\]+)'\]/y;

/**
 * Reads a path: `$`, then `.name`, `["any name"]` or `[index]`, again and again. Undefined for any other text: no
 * wildcards, filters or searches, so that a path names one value, at a cost that the document has no say in.
 */
export function parseValuePath(text: string): ValuePath | undefined {
  if (!text.startsWith("$") || text.length > MAX_LENGTH) return undefined;
  const steps: (string | number)[] = [];
  const pattern = new RegExp(STEP);
  pattern.lastIndex = 1;
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    if (match === null || steps.length === MAX_STEPS) return undefined;
    const [, name, index, double, single] = match;
    steps.push(index === undefined ? (name ?? double ?? single ?? "") : Number(index));
  }
  return steps.length === 0 ? undefined : { text, steps };
}

/** The value at the path; undefined where there is none. What a document inherits is not in it. */
export function readValue(document: unknown, path: ValuePath): unknown {
  let value = document;
  for (const step of path.steps) {
    if (typeof value !== "object" || value === null) return undefined;
    if (Array.isArray(value) !== (typeof step === "number") || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}

/** The text of a string, a number or a boolean at the path; undefined for anything else. */
export function readText(document: unknown, path: ValuePath): string | undefined {
  const value = readValue(document, path);
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;
}
