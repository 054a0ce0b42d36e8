import { EventLog, type StoreEvent } from "./event-log.ts";
import { keyOf, type StoredObject } from "./objects.ts";
import { findKind, type ResourceKind } from "./resources.ts";

/** What survives a restart. */
export interface StoreState {
  readonly resourceVersion: number;
  readonly objects: readonly StoredObject[];
}

export interface StoreStats {
  readonly resourceVersion: number;
  readonly compactedAt: number;
  readonly events: number;
  readonly objects: number;
}

/**
 * Objects by kind and key, one counter of resourceVersions, and the log of writes. It knows no rules of
 * any kind: what may be written is decided before (`write-rules.ts`). Everything here is synchronous, so a
 * read, a decision and a write in one turn of the event loop are one transaction.
 */
export class ObjectStore {
  readonly #tables = new Map<ResourceKind, Map<string, StoredObject>>();
  readonly #sortedKeys = new Map<ResourceKind, readonly string[]>();
  readonly #byUid = new Map<string, StoredObject>();
  readonly #dependents = new Map<string, Set<string>>();
  readonly #listeners = new Set<(event: StoreEvent) => void>();
  readonly #log: EventLog;
  #resourceVersion: number;

  constructor(state: StoreState, eventWindow: number) {
    this.#resourceVersion = state.resourceVersion;
    this.#log = new EventLog(eventWindow, state.resourceVersion);
    for (const object of state.objects) {
      const resource = findKind(object.apiVersion, object.kind);
      // A kind that this version no longer serves: kept out rather than refusing to start.
      if (resource !== undefined) this.#put(resource, object);
    }
  }

  get log(): EventLog {
    return this.#log;
  }

  get resourceVersion(): number {
    return this.#resourceVersion;
  }

  get(resource: ResourceKind, key: string): StoredObject | undefined {
    return this.#tables.get(resource)?.get(key);
  }

  findByUid(uid: string): StoredObject | undefined {
    return this.#byUid.get(uid);
  }

  /** The objects that name `uid` as an owner. */
  findDependents(uid: string): readonly StoredObject[] {
    return [...(this.#dependents.get(uid) ?? [])].flatMap((id) => this.#byUid.get(id) ?? []);
  }

  /** Every object there is, in no particular order. */
  all(): Iterable<StoredObject> {
    return this.#byUid.values();
  }

  /**
   * All objects of a kind in key order, as they were at `resourceVersion` (default: now).
   * Only right when `log.reaches(resourceVersion)`.
   */
  snapshot(resource: ResourceKind, resourceVersion = this.#resourceVersion): readonly StoredObject[] {
    const table = this.#tables.get(resource) ?? new Map<string, StoredObject>();
    const undo = this.#log.after(resourceVersion).filter((event) => event.resource === resource);
    if (undo.length === 0) {
      let keys = this.#sortedKeys.get(resource);
      if (keys === undefined) {
        keys = [...table.keys()].sort();
        this.#sortedKeys.set(resource, keys);
      }
      return keys.flatMap((key) => table.get(key) ?? []);
    }
    const past = new Map(table);
    for (const event of undo.toReversed()) {
      if (event.previous === undefined) past.delete(event.key);
      else past.set(event.key, event.previous);
    }
    return [...past.keys()].sort().flatMap((key) => past.get(key) ?? []);
  }

  /** Stores a new or changed object under the next resourceVersion, which the answer carries. */
  put(resource: ResourceKind, object: StoredObject): StoredObject {
    const resourceVersion = ++this.#resourceVersion;
    const stored = withResourceVersion(object, resourceVersion);
    const key = keyOf(stored);
    const previous = this.get(resource, key);
    if (previous !== undefined) this.#unindex(previous);
    this.#put(resource, stored);
    this.#emit({
      resourceVersion,
      type: previous === undefined ? "create" : "update",
      resource,
      key,
      object: stored,
      ...(previous === undefined ? {} : { previous }),
    });
    return stored;
  }

  /** Removes an object. `last` is its final state as watchers see it; default: as it was stored. */
  remove(resource: ResourceKind, previous: StoredObject, last: StoredObject = previous): StoredObject {
    const resourceVersion = ++this.#resourceVersion;
    const object = withResourceVersion(last, resourceVersion);
    this.#remove(resource, previous);
    this.#emit({ resourceVersion, type: "delete", resource, key: keyOf(previous), object, previous });
    return object;
  }

  /** Calls `listener` after every write, in order. Returns the function that ends it. */
  subscribe(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Forgets all events: whoever resumes from before now gets 410. */
  compact(): void {
    this.#log.compact(this.#resourceVersion);
  }

  stats(): StoreStats {
    return {
      resourceVersion: this.#resourceVersion,
      compactedAt: this.#log.compactedAt,
      events: this.#log.length,
      objects: this.#byUid.size,
    };
  }

  #emit(event: StoreEvent): void {
    this.#log.append(event);
    for (const listener of this.#listeners) listener(event);
  }

  #put(resource: ResourceKind, object: StoredObject): void {
    let table = this.#tables.get(resource);
    if (table === undefined) {
      table = new Map();
      this.#tables.set(resource, table);
    }
    const key = keyOf(object);
    if (!table.has(key)) this.#sortedKeys.delete(resource);
    table.set(key, object);
    const { uid, ownerReferences = [] } = object.metadata;
    this.#byUid.set(uid, object);
    for (const owner of ownerReferences) {
      const ids = this.#dependents.get(owner.uid) ?? new Set();
      this.#dependents.set(owner.uid, ids.add(uid));
    }
  }

  #remove(resource: ResourceKind, object: StoredObject): void {
    this.#tables.get(resource)?.delete(keyOf(object));
    this.#sortedKeys.delete(resource);
    this.#unindex(object);
  }

  #unindex(object: StoredObject): void {
    const { uid, ownerReferences = [] } = object.metadata;
    this.#byUid.delete(uid);
    for (const owner of ownerReferences) {
      const ids = this.#dependents.get(owner.uid);
      ids?.delete(uid);
      if (ids?.size === 0) this.#dependents.delete(owner.uid);
    }
  }
}

function withResourceVersion(object: StoredObject, resourceVersion: number): StoredObject {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(resourceVersion) } };
}
