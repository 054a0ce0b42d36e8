import { isFault } from "../../shared/domain/fault.ts";
import type { CheckpointStore } from "../../shared/ledger/checkpoint.ts";
import type { Ledger } from "../../shared/ledger/ledger.ts";
import { createForwarder, type Forwarder, type ForwarderOptions } from "./forwarder.ts";

/** How long a lease is good for, and how often it is renewed and the checkpoint advanced; milliseconds. */
const LEASE_MS = 30_000;
const SAVE_EVERY_MS = 5_000;

export interface SessionOptions extends Omit<ForwarderOptions, "checkpoint" | "loadOpen"> {
  readonly ledger: Ledger;
  readonly checkpoints: CheckpointStore;
  /** Tells this process from every other. */
  readonly owner: string;
  /** Milliseconds to work; for ever when absent. */
  readonly windowMs?: number;
  /** False lists everything first, whatever the checkpoint says. */
  readonly resume: boolean;
  /** True gives way to another forwarder of the cluster; false works beside it, which costs only duplicates. */
  readonly exclusive: boolean;
  readonly onRunning?: (forwarder: Forwarder) => void;
}

/**
 * One session of a forwarder: holds the lease, works, and advances the checkpoint to what SQS has accepted.
 * False when another forwarder has the lease.
 */
export async function runSession(options: SessionOptions, signal: AbortSignal): Promise<boolean> {
  const { checkpoints, clock, cluster, owner, log } = options;
  const lease = () => ({ owner, now: clock.now(), until: clock.now() + LEASE_MS });
  const checkpoint = await checkpoints.read(cluster);
  const before = checkpoint?.resourceVersions ?? {};
  if (options.exclusive && !(await checkpoints.hold(cluster, lease(), before))) return false;

  const forwarder = createForwarder({
    ...options,
    ...(options.resume && checkpoint !== undefined && isComplete(before) ? { checkpoint } : {}),
    loadOpen: () => loadOpenIds(options.ledger, cluster),
  });
  options.onRunning?.(forwarder);

  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const window =
    options.windowMs === undefined ? undefined : clock.sleep(options.windowMs, both).then(() => stop.abort());
  const work = forwarder.run(both).finally(() => stop.abort());

  const save = async (): Promise<void> => {
    try {
      const held = await checkpoints.hold(cluster, lease(), forwarder.resourceVersions());
      if (!held && options.exclusive) {
        log.warn("another forwarder took the lease; this one stops", { cluster });
        stop.abort();
      }
    } catch (error) {
      // The checkpoint stays where it was: what comes after it is sent again, which is harmless.
      if (!isFault(error)) throw error;
      log.warn("the checkpoint could not be saved", { cluster, reasons: error.reasons });
    }
  };
  const saving = (async () => {
    while (!both.aborted) {
      await clock.sleep(SAVE_EVERY_MS, both);
      if (!both.aborted) {
        await save();
        options.meter.count("ForwarderHeartbeat");
        options.meter.duration("ForwarderSilence", measureSilence(forwarder, clock.now()));
      }
    }
  })();
  await Promise.all([work, window, saving]);
  await save();
  return true;
}

/** Milliseconds since the quietest watch last showed a sign of life; the server sends bookmarks each minute or so. */
function measureSilence(forwarder: Forwarder, now: number): number {
  const times = Object.values(forwarder.lastActivity()).filter((at) => at !== undefined);
  return times.length === 0 ? 0 : Math.max(0, now - Math.min(...times));
}

/** A checkpoint from a session that ended before its first lists did says too little to go on from. */
function isComplete(resourceVersions: Readonly<Record<string, string>>): boolean {
  return resourceVersions.stages !== undefined && resourceVersions.analysisruns !== undefined;
}

async function loadOpenIds(ledger: Ledger, cluster: string): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  let cursor: string | undefined;
  do {
    const page = await ledger.listOpen(cluster, { cursor, limit: 500 });
    for (const { id } of page.items) ids.add(id);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return ids;
}
