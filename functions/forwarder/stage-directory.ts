import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { isFault } from "../../shared/domain/fault.ts";
import { type BackoffOptions, computeBackoff } from "../../shared/runtime/backoff.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { KnownStage } from "./application-trace.ts";
import { listPages } from "./object-list.ts";

/** How long a list of all Stages is good for; a new Stage has a watch event of its own. Milliseconds. */
const MAX_AGE_MS = 60_000;

export interface StageDirectoryOptions {
  readonly transport: KubernetesTransport;
  readonly path: string;
  readonly clock: Clock;
  /** Reads a Stage; undefined for one that makes no sense. */
  readonly read: (object: unknown) => KnownStage | undefined;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

const BACKOFF: BackoffOptions = { base: 1, cap: 30 };

/**
 * Every Stage of the cluster, for a forwarder that went on from a checkpoint and so has seen only those that changed.
 * Listed when somebody asks, for as long as it takes, and kept for a minute.
 */
export function createStageDirectory(options: StageDirectoryOptions): {
  list(signal: AbortSignal): Promise<readonly KnownStage[]>;
} {
  async function listAll(signal: AbortSignal): Promise<KnownStage[]> {
    const { clock, path, read, transport } = options;
    const stages: KnownStage[] = [];
    const pages = listPages({ transport, path, pageSize: 500, signal, timeoutMs: 30_000, now: clock.now });
    for await (const { items } of pages) {
      for (const item of items) {
        const stage = read(item);
        if (stage !== undefined) stages.push(stage);
      }
    }
    return stages;
  }

  let listed: { readonly stages: readonly KnownStage[]; readonly at: number } | undefined;
  return {
    async list(signal) {
      const { clock } = options;
      if (listed !== undefined && clock.now() - listed.at < MAX_AGE_MS) return listed.stages;
      const at = clock.now();
      for (let attempt = 1; ; attempt++) {
        try {
          const stages = await listAll(signal);
          listed = { stages, at };
          return stages;
        } catch (error) {
          if (!isFault(error) || signal.aborted) throw error;
          await clock.sleep(computeBackoff(attempt, BACKOFF, options.random) * 1000, signal);
        }
      }
    },
  };
}
