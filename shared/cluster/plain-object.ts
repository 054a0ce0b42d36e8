/**
 * Kubernetes objects are untrusted input: everything here takes `unknown`, looks at own properties only (a key such
 * as `__proto__` or `constructor` in a manifest is data like any other) and never throws.
 */
export type PlainObject = Readonly<Record<string, unknown>>;

/** True for a JSON object; false for lists, `null` and scalars. */
export function isPlainObject(value: unknown): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value at a path of own properties; `undefined` where the path ends early. */
export function readPath(value: unknown, ...path: readonly string[]): unknown {
  let at = value;
  for (const key of path) {
    if (!isPlainObject(at) || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

/** A text that is not empty, else `undefined`. */
export function readText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A list, or an empty one for anything else. */
export function readList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** `text` in at most `max` UTF-16 units, ending in `…` where it was cut; never half a surrogate pair. */
export function cutText(text: string, max: number): string {
  return text.length <= max ? text : `${cutHead(text, max - 1)}…`;
}

/** The first `max` UTF-16 units of a text, without a mark; for fields that are compared, not read. */
export function cutHead(text: string, max: number): string {
  const head = text.slice(0, max);
  return /[\uD800-\uDBFF]$/.test(head) ? head.slice(0, -1) : head;
}

/** How a sentence names an object, for example `Stage shop/test`; never longer than a line. */
export function nameObject(kind: string, object: unknown): string {
  const namespace = readText(readPath(object, "metadata", "namespace"));
  const name = cutText(readText(readPath(object, "metadata", "name")) ?? "without a name", 253);
  return namespace === undefined ? `${kind} ${name}` : `${kind} ${cutText(namespace, 63)}/${name}`;
}

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** True for what can be a namespace's name. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && DNS_LABEL.test(text);
}

/** True for what can be a namespaced object's name. */
export function isDnsSubdomain(text: string): boolean {
  return text.length <= 253 && DNS_SUBDOMAIN.test(text);
}
