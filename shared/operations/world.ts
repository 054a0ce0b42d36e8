import type { Cluster } from "../cluster/cluster.ts";
import { Fault, isFault } from "../domain/fault.ts";
import type { ClusterPolicy } from "../domain/policy.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Retention } from "../ledger/retention.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Log, Meter } from "../runtime/telemetry.ts";

/** What the operations act on: made once at an entry point and passed in, so that a test can bring its own. */
export interface World {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  /** @throws Fault `Invalid` for a cluster that this installation does not know. */
  readonly findCluster: (name: string) => Cluster;
  /** How the installation deals with a cluster that it knows. */
  readonly findPolicy: (cluster: string) => ClusterPolicy;
  /** Absent where everything is kept for ever. */
  readonly retention?: Retention | undefined;
  /** Label that ties AnalysisRuns to one Argo Rollouts controller; absent where there is one without an id. */
  readonly controllerInstanceId?: string | undefined;
}

const MAX_DECISIONS = 8;

/**
 * Runs `decide` again while somebody else was faster, so that it decides on what is there now.
 *
 * @throws Fault `Transient` when that does not end; the message then comes back later.
 */
export async function decideAgainOnConflict<T>(decide: () => Promise<T>): Promise<T> {
  let last: Fault | undefined;
  for (let round = 0; round < MAX_DECISIONS; round++) {
    try {
      return await decide();
    } catch (error) {
      if (!isFault(error, "Conflict")) throw error;
      last = error;
    }
  }
  throw new Fault("Transient", `others were faster ${MAX_DECISIONS} times: ${last?.message ?? ""}`, {
    cause: last,
  });
}
