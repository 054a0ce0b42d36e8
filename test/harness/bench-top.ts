import { type SandboxCluster, startSandboxCluster } from "../../local/sandbox/sandbox-cluster.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesRequest, KubernetesTransport } from "../../shared/cluster/transport.ts";
import type { ClusterPolicy } from "../../shared/domain/policy.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import { DYNAMODB_ENGINES, type RunningEngine } from "../engines/dynamodb-engines.ts";
import type { Disorder } from "../engines/virtual-queue.ts";
import { assembleWorkbench, type Workbench } from "./workbench.ts";

/** A workbench with the sandbox API server under it, where a test can know when everything is quiet. */
export interface BenchTop extends Workbench {
  readonly engine: RunningEngine;
  readonly sandbox: SandboxCluster;
  /** Waits until the forwarder has seen all that happened in the cluster so far. */
  settle(): Promise<void>;
  /** Settles and drains until both are quiet. */
  quiesce(): Promise<void>;
}

const WATCHED = ["stages", "analysisruns", "applications", "analysistemplates", "clusteranalysistemplates"];

export interface BenchOptions {
  readonly disorder?: Disorder | undefined;
  readonly policy?: ClusterPolicy;
  /** Told of every request of Tallyman's own that is no mere reading. */
  readonly watchWrites?: (request: KubernetesRequest) => void;
}

/** Starts a bench; `engine` may be shared between benches of one file, each with a cluster name of its own. */
export async function startBenchTop(
  engine: RunningEngine,
  cluster: string,
  options: BenchOptions = {},
): Promise<BenchTop> {
  // Bookmarks in quick succession tell the forwarder that nothing more has happened.
  const sandbox = await startSandboxCluster({ bookmarkIntervalMs: 5 });
  const transport = createTransport({ server: sandbox.url });
  const { watchWrites, ...others } = options;
  const product: KubernetesTransport = {
    ...transport,
    request(request) {
      if (request.method !== "GET") watchWrites?.(request);
      return transport.request(request);
    },
  };
  const bench = assembleWorkbench({ engine, cluster, transport: product, others: transport, ...others });
  const { clock, forwarder, queue } = bench;
  await bench.kargo.createProject();

  async function settle(): Promise<void> {
    const target = BigInt(sandbox.store.stats().resourceVersion);
    const end = Date.now() + 5_000;
    for (;;) {
      const seen = forwarder.resourceVersions();
      const behind = WATCHED.some((each) => BigInt(seen[each] ?? "0") < target);
      if (!behind) return;
      if (Date.now() > end)
        throw new Error(`the forwarder did not catch up with ${target}: ${JSON.stringify(seen)}`);
      await systemClock.sleep(3);
    }
  }

  return {
    ...bench,
    engine,
    sandbox,
    settle,
    async quiesce() {
      // What happens next happens later: nothing may hang on two things in one millisecond.
      clock.advance(1_000);
      for (let quiet = false; !quiet; ) {
        await settle();
        const before = queue.accepted.length;
        await bench.drain();
        await settle();
        quiet = queue.nextVisibleAt() === undefined && queue.accepted.length === before;
      }
    },
    async stop() {
      await bench.stop();
      transport.close();
      await sandbox.stop();
    },
  };
}

/** The embedded engine, for a file's benches to share. */
export function startEngine(): Promise<RunningEngine> {
  const [dynalite] = DYNAMODB_ENGINES;
  if (dynalite === undefined) throw new Error("no DynamoDB engine");
  return dynalite.start();
}
