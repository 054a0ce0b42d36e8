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

/** A Git commit in a piece of Freight. What Kargo leaves out is absent. */
export interface FreightCommit {
  readonly repoURL: string;
  readonly id?: string | undefined;
  readonly branch?: string | undefined;
  readonly tag?: string | undefined;
  readonly message?: string | undefined;
  readonly author?: string | undefined;
  readonly committer?: string | undefined;
  readonly subscriptionName?: string | undefined;
}

/** A container image in a piece of Freight. */
export interface FreightImage {
  readonly repoURL: string;
  readonly tag?: string | undefined;
  readonly digest?: string | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly subscriptionName?: string | undefined;
}

/** A Helm chart in a piece of Freight; without a name where the registry's URL names it. */
export interface FreightChart {
  readonly repoURL: string;
  readonly name?: string | undefined;
  readonly version?: string | undefined;
  readonly subscriptionName?: string | undefined;
}

/** What a piece of Freight consists of, as far as the arguments of a verification can ask for it. */
export interface FreightArtifacts {
  readonly commits: readonly FreightCommit[];
  readonly images: readonly FreightImage[];
  readonly charts: readonly FreightChart[];
}

/** The requested origins that the collection does not hold, in the order requested (n of m Freight). */
export function findMissingOrigins(
  requested: readonly string[],
  collection: FreightCollection,
): readonly string[] {
  const held = new Set(collection.freight.map((f) => f.origin));
  return requested.filter((origin) => !held.has(origin));
}
