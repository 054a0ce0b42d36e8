import type { StoredObject } from "./objects.ts";
import type { ResourceKind } from "./resources.ts";

/** One committed write. `object` carries `resourceVersion`; for a deletion it is the last state. */
export interface StoreEvent {
  readonly resourceVersion: number;
  readonly type: "create" | "update" | "delete";
  readonly resource: ResourceKind;
  readonly key: string;
  readonly object: StoredObject;
  readonly previous?: StoredObject;
}

/**
 * The last `window` writes, oldest first. Whoever resumes from before them gets 410, as with etcd's
 * compaction; `compact` forgets them all at once.
 */
export class EventLog {
  #events: StoreEvent[] = [];
  readonly #window: number;
  #compactedAt: number;

  /** @param window at least 1. @param start the resourceVersion before which nothing is known. */
  constructor(window: number, start: number) {
    this.#window = Math.max(1, window);
    this.#compactedAt = start;
  }

  /** Events with this resourceVersion and older ones are gone. */
  get compactedAt(): number {
    return this.#compactedAt;
  }

  get length(): number {
    return this.#events.length;
  }

  append(event: StoreEvent): void {
    this.#events.push(event);
    if (this.#events.length > this.#window) {
      const dropped = this.#events.shift();
      if (dropped !== undefined) this.#compactedAt = dropped.resourceVersion;
    }
  }

  compact(resourceVersion: number): void {
    this.#compactedAt = Math.max(this.#compactedAt, resourceVersion);
    this.#events = this.#events.slice(this.#indexAfter(this.#compactedAt));
  }

  /** True when everything after `resourceVersion` is still here. */
  reaches(resourceVersion: number): boolean {
    return resourceVersion >= this.#compactedAt;
  }

  /** The events after `resourceVersion`, oldest first. Only complete when `reaches` says so. */
  after(resourceVersion: number): readonly StoreEvent[] {
    return this.#events.slice(this.#indexAfter(resourceVersion));
  }

  #indexAfter(resourceVersion: number): number {
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const event = this.#events[middle];
      if (event !== undefined && event.resourceVersion <= resourceVersion) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
