/** One entry of a Stage's `spec.requestedFreight`. */
export interface FreightRequest {
  /** `Warehouse/name`. */
  readonly origin: string;
  /** Straight from the Warehouse. */
  readonly direct: boolean;
  /** Upstream Stages. */
  readonly stages: readonly string[];
  /** Whether every upstream Stage must have verified it, or one is enough. */
  readonly all: boolean;
  /** How long it must have stayed in an upstream Stage, seconds; 0: no time. */
  readonly soak: number;
}

/** What of a Freight decides whether a Stage may have it. Times in milliseconds since the epoch. */
export interface FreightStanding {
  readonly name: string;
  readonly origin: string;
  /** Stages that it is approved for. */
  readonly approvedFor: ReadonlySet<string>;
  /** By Stage: the longest stay that has ended, seconds. */
  readonly verifiedIn: ReadonlyMap<string, number>;
  /** By Stage: since when it has been there. */
  readonly currentlyIn: ReadonlyMap<string, number>;
}

/**
 * Whether a Stage may have a Freight: its origin is requested, and it is approved for the Stage, comes straight from its
 * Warehouse, or was verified in the upstream Stages and stayed there for long enough. As Kargo's `IsFreightAvailable`.
 */
export function isAvailable(
  stage: string,
  requests: readonly FreightRequest[],
  freight: FreightStanding,
  now: number,
): boolean {
  return requests
    .filter(({ origin }) => origin === freight.origin)
    .some(({ all, direct, soak, stages }) => {
      if (freight.approvedFor.has(stage) || direct) return true;
      const isReady = (upstream: string): boolean => hasSoaked(freight, upstream, soak, now);
      if (stages.length === 0) return false;
      return all ? stages.every(isReady) : stages.some(isReady);
    });
}

/** The clock starts when Freight enters a Stage, not when it is verified there; leaving ends a stay. */
function hasSoaked(freight: FreightStanding, stage: string, seconds: number, now: number): boolean {
  const longest = freight.verifiedIn.get(stage);
  if (longest === undefined) return false;
  const since = freight.currentlyIn.get(stage);
  const current = since === undefined ? 0 : (now - since) / 1000;
  return Math.max(longest, current) >= seconds;
}
