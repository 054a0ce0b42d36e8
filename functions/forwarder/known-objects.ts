import { isDeepStrictEqual } from "node:util";

/** What a reflector tells its handler. `resourceVersion` is opaque: equal or not, never less or greater. */
export type ReflectorEvent<T> =
  | {
      readonly type: "added";
      readonly key: string;
      readonly current: T;
      readonly resourceVersion: string;
    }
  | {
      readonly type: "changed";
      readonly key: string;
      readonly previous: T;
      readonly current: T;
      readonly resourceVersion: string;
    }
  | {
      readonly type: "deleted";
      readonly key: string;
      readonly previous: T;
      readonly resourceVersion: string;
    }
  /** A list is complete. */
  | { readonly type: "synced"; readonly resourceVersion: string }
  /** Nothing else happened up to here. */
  | { readonly type: "bookmark"; readonly resourceVersion: string };

/** What was seen of one object. */
export type Observation<T> =
  | { readonly type: "present"; readonly key: string; readonly value: T; readonly resourceVersion: string }
  | {
      readonly type: "absent";
      readonly key: string;
      readonly resourceVersion: string;
      /** What it last was, as the event of its deletion says; given only while knowledge is incomplete. */
      readonly last?: { readonly value: T };
    };

interface Entry<T> {
  readonly value: T;
  /** Of the object the value was made from; missing for values that came from a checkpoint. */
  readonly resourceVersion?: string;
}

/** Changes that were worked out and are not yet part of what is known. */
export interface StagedChanges<T> {
  /** Works out what an observation changes, given all staged before it; undefined when it changes nothing. */
  observe(observation: Observation<T>): ReflectorEvent<T> | undefined;
  /** Makes everything staged known. Not called when the handler failed, so that the same comes again. */
  commit(): void;
}

export interface KnownObjects<T> {
  /** True when this very version of the object is known already. */
  has(key: string, resourceVersion: string): boolean;
  stage(): StagedChanges<T>;
  /** From now on an object that is not known does not exist: a list was complete. */
  complete(): void;
  isComplete(): boolean;
  keys(): Iterable<string>;
  entries(): Iterable<readonly [string, T]>;
}

/**
 * Creates the memory of a reflector: one projection for each key, and nothing else of the object. Without
 * `initial` it is incomplete: the deletion of an object it has never heard of is one all the same, once.
 */
export function createKnownObjects<T>(initial: Iterable<readonly [string, T]> | undefined): KnownObjects<T> {
  const known = new Map<string, Entry<T>>();
  for (const [key, value] of initial ?? []) known.set(key, { value });
  // Keys whose deletion has been told; needed only while not knowing an object does not mean that it is gone.
  let gone: Set<string> | undefined = initial === undefined ? new Set() : undefined;

  return {
    has: (key, resourceVersion) => known.get(key)?.resourceVersion === resourceVersion,
    complete() {
      gone = undefined;
    },
    isComplete: () => gone === undefined,
    keys: () => known.keys(),
    *entries() {
      for (const [key, entry] of known) yield [key, entry.value];
    },
    stage() {
      const staged = new Map<string, Entry<T> | undefined>();
      return {
        observe(observation) {
          const { key, resourceVersion } = observation;
          const before = staged.has(key) ? staged.get(key) : known.get(key);
          if (observation.type === "absent") {
            const told = gone === undefined || gone.has(key) || staged.has(key);
            const last = before ?? (told ? undefined : observation.last);
            if (last === undefined) return undefined;
            staged.set(key, undefined);
            return { type: "deleted", key, previous: last.value, resourceVersion };
          }
          if (before === undefined) {
            staged.set(key, { value: observation.value, resourceVersion });
            return { type: "added", key, current: observation.value, resourceVersion };
          }
          if (isDeepStrictEqual(before.value, observation.value)) {
            staged.set(key, { value: before.value, resourceVersion });
            return undefined;
          }
          staged.set(key, { value: observation.value, resourceVersion });
          return {
            type: "changed",
            key,
            previous: before.value,
            current: observation.value,
            resourceVersion,
          };
        },
        commit() {
          for (const [key, entry] of staged) {
            if (entry === undefined) {
              known.delete(key);
              gone?.add(key);
            } else {
              known.set(key, entry);
              gone?.delete(key);
            }
          }
          staged.clear();
        },
      };
    },
  };
}
