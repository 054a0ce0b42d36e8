import type { Observation } from "./known-objects.ts";
import { identityOf, type ObjectIdentity } from "./object-identity.ts";
import type { Refusal } from "./refusal.ts";
import type { WatchEvent } from "./watch-stream.ts";

/** What one watch event or list item says, with the object itself already let go. */
export type Sighting<T> =
  | Observation<T>
  | { readonly type: "bookmark"; readonly resourceVersion: string }
  /** This very version has been projected before. */
  | { readonly type: "familiar"; readonly key: string }
  | {
      readonly type: "invalid";
      readonly identity: ObjectIdentity;
      readonly error: unknown;
      /** Set when at least the key could be read. */
      readonly key?: string;
    };

export interface Projection<T> {
  readonly project: (object: unknown) => T;
  readonly key: (object: unknown) => string;
}

export interface SightingOptions<T> {
  readonly projection: Projection<T>;
  /** True while the deletion of an unknown object matters, so that its last state is needed. */
  readonly keepLast: () => boolean;
  /** Makes a refusal of the Status object of an `ERROR` event. */
  readonly refuse: (status: unknown) => Refusal;
}

/** Projects an object that is there, unless `isFamiliar` says it is known; never throws. */
export function sight<T>(
  object: unknown,
  { project, key }: Projection<T>,
  isFamiliar: (key: string, resourceVersion: string) => boolean = () => false,
): Sighting<T> {
  const identity = identityOf(object);
  let name: string | undefined;
  try {
    name = key(object);
    if (identity.resourceVersion === undefined) throw new Error("metadata.resourceVersion is missing");
    if (isFamiliar(name, identity.resourceVersion)) return { type: "familiar", key: name };
    return { type: "present", key: name, value: project(object), resourceVersion: identity.resourceVersion };
  } catch (error) {
    return { type: "invalid", identity, error, ...(name === undefined ? {} : { key: name }) };
  }
}

/**
 * Turns watch events into sightings.
 *
 * @throws {Refusal} for an `ERROR` event, after all before it.
 */
export async function* sightings<T>(
  events: AsyncIterable<readonly WatchEvent[]>,
  options: SightingOptions<T>,
): AsyncGenerator<Sighting<T>[]> {
  for await (const piece of events) {
    const seen: Sighting<T>[] = [];
    let refusal: Refusal | undefined;
    for (const event of piece) {
      if (event.type === "ERROR") {
        refusal = options.refuse(event.object);
        break;
      }
      seen.push(sightEvent(event, options));
    }
    if (seen.length > 0) yield seen;
    if (refusal !== undefined) throw refusal;
  }
}

function sightEvent<T>(
  event: Exclude<WatchEvent, { readonly type: "ERROR" }>,
  { projection, keepLast }: SightingOptions<T>,
): Sighting<T> {
  if (event.type === "TOO_LARGE") {
    return {
      type: "invalid",
      identity: {},
      error: new Error(`an event of ${event.bytes} bytes was left out`),
    };
  }
  if (event.type === "ADDED" || event.type === "MODIFIED") return sight(event.object, projection);
  const identity = identityOf(event.object);
  try {
    const { resourceVersion } = identity;
    if (resourceVersion === undefined) throw new Error("metadata.resourceVersion is missing");
    if (event.type === "BOOKMARK") return { type: "bookmark", resourceVersion };
    const gone = { type: "absent", key: projection.key(event.object), resourceVersion } as const;
    return keepLast() ? { ...gone, last: { value: projection.project(event.object) } } : gone;
  } catch (error) {
    return { type: "invalid", identity, error };
  }
}
