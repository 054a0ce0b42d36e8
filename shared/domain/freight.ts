/** One member of a FreightCollection. `origin` is Kargo's origin string, for example `Warehouse/base`. */
export interface FreightReference {
  readonly name: string;
  readonly origin: string;
}

/** What a Stage holds at one time: at most one Freight an origin. `id` as `computeCollectionId` makes it. */
export interface FreightCollection {
  readonly id: string;
  readonly freight: readonly FreightReference[];
}

/** The requested origins that the collection does not hold, in the order requested (n of m Freight). */
export function findMissingOrigins(
  requested: readonly string[],
  collection: FreightCollection,
): readonly string[] {
  const held = new Set(collection.freight.map((f) => f.origin));
  return requested.filter((origin) => !held.has(origin));
}
