export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  name: string;
  generateName?: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

/**
 * An object as the store holds it. Stored objects are never changed: a write replaces them, so that
 * events, snapshots and running answers can share them.
 */
export interface StoredObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Readonly<ObjectMeta>;
  readonly [field: string]: unknown;
}

const texts = new WeakMap<object, string>();

/** The JSON text of a stored object, made once: lists and watches send the same objects again and again. */
export function serialise(object: StoredObject): string {
  let text = texts.get(object);
  if (text === undefined) {
    text = JSON.stringify(object);
    texts.set(object, text);
  }
  return text;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value at a path of field names, `undefined` where there is none. */
export function readPath(value: unknown, path: readonly string[]): unknown {
  let current = value;
  for (const field of path) {
    if (!isRecord(current)) return undefined;
    current = Object.hasOwn(current, field) ? current[field] : undefined;
  }
  return current;
}

/** `namespace/name`; cluster-scoped objects have an empty namespace. The order of keys is the order of lists. */
export function formatKey(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

export function keyOf(object: StoredObject): string {
  return formatKey(object.metadata.namespace ?? "", object.metadata.name);
}

/** RFC 3339 with whole seconds, as `metav1.Time` is written. */
export function formatTime(time: Date): string {
  return `${time.toISOString().slice(0, 19)}Z`;
}
