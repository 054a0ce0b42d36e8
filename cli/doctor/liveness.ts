import { readAnalysisRun } from "../../shared/cluster/analysis-run-reader.ts";
import type { Cluster } from "../../shared/cluster/cluster.ts";
import { isFault } from "../../shared/domain/fault.ts";
import { isTerminal, readRunPhase } from "../../shared/domain/phase.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import type { CheckpointStore } from "../../shared/ledger/checkpoint.ts";
import type { Ledger } from "../../shared/ledger/ledger.ts";
import { collect } from "../lookup.ts";
import { formatAge } from "../render/time.ts";
import { type Finding, fail, inspect, ok, warn } from "./finding.ts";

/** A sweep comes each minute; whatever ended before the one before last has been missed by it. */
const SWEPT_MS = 120_000;
/** A forwarder signs each few seconds; between two windows of a Lambda lies less than a minute. */
const HEARTBEAT_WARN_MS = 120_000;
const HEARTBEAT_FAIL_MS = 900_000;
/** Open verifications whose AnalysisRun is looked at, the oldest first. */
const LOOKED_AT = 50;
const NAMED = 5;

export interface LivenessCheck {
  readonly name: string;
  readonly cluster: Cluster;
  readonly ledger: Ledger;
  readonly checkpoints: CheckpointStore;
  readonly now: () => number;
}

/** Whether events and sweeps of a cluster arrive in the ledger. */
export async function checkLiveness(check: LivenessCheck): Promise<readonly Finding[]> {
  return (
    await Promise.all([
      inspect(`forwarder of ${check.name}`, "dynamodb:GetItem on the table", () => checkForwarder(check)),
      inspect(`verifications of ${check.name}`, "dynamodb:Query on the index open", () => checkOpen(check)),
    ])
  ).flat();
}

async function checkForwarder({ name, checkpoints, now }: LivenessCheck): Promise<readonly Finding[]> {
  const subject = `forwarder of ${name}`;
  const advice =
    "Look at the forwarder's log, and at its schedule (AWS) or process (cluster, npm start); " +
    "until it works, sweeps find what changes within a minute.";
  const checkpoint = await checkpoints.read(name);
  if (checkpoint === undefined) return [fail(subject, "has never worked", advice)];
  const age = now() - checkpoint.heartbeatAt;
  const message = `gave a sign of life ${formatAge(checkpoint.heartbeatAt, now())}`;
  const watched = Object.keys(checkpoint.resourceVersions);
  if (age > HEARTBEAT_FAIL_MS) return [fail(subject, message, advice)];
  if (age > HEARTBEAT_WARN_MS) return [warn(subject, message, advice)];
  if (watched.length === 0) return [warn(subject, `${message}, and has listed nothing yet`, advice)];
  return [ok(subject, `${message}; watches ${watched.join(", ")}`)];
}

async function checkOpen({ name, cluster, ledger, now }: LivenessCheck): Promise<readonly Finding[]> {
  const subject = `verifications of ${name}`;
  const { items } = await collect((cursor, limit) =>
    ledger.listOpen(name, { limit, ...(cursor === undefined ? {} : { cursor }) }),
  );
  const old = items
    .filter(({ createdAt }) => now() - createdAt > SWEPT_MS)
    .sort((a, b) => a.createdAt - b.createdAt);
  const summary = `${items.length} open, ${old.length} of them for longer than a sweep`;
  const [oldest] = old;
  if (oldest === undefined) return [ok(subject, summary)];
  try {
    const looked = old.slice(0, LOOKED_AT);
    const missed = await Promise.all(looked.map((each) => hasEnded(cluster, each, now())));
    const stuck = looked.filter((_, index) => missed[index]);
    if (stuck.length > 0) return [describeStuck(subject, stuck)];
  } catch (error) {
    if (!isFault(error)) throw error;
    return [
      warn(subject, `${summary}; whether their AnalysisRuns go on could not be seen: ${error.message}`),
    ];
  }
  return [
    ok(
      subject,
      `${summary}, and their AnalysisRuns go on; the oldest began ${formatAge(oldest.createdAt, now())}`,
    ),
  ];
}

/** True when the cluster has known for longer than a sweep what the ledger does not. */
async function hasEnded(cluster: Cluster, { key, run }: Verification, now: number): Promise<boolean> {
  if (run === undefined) return false;
  const object = await cluster.getAnalysisRun(key.project, run.name);
  if (object === undefined) return true;
  const { phase, completedAt } = readAnalysisRun(object) ?? {};
  if (!isTerminal(readRunPhase(phase) ?? "Running")) return false;
  const ended = Date.parse(completedAt ?? "");
  return Number.isNaN(ended) || now - ended > SWEPT_MS;
}

function describeStuck(subject: string, stuck: readonly Verification[]): Finding {
  const named = stuck.slice(0, NAMED).map(({ id, key }) => `${id} of Stage ${key.project}/${key.stage}`);
  const more = stuck.length > NAMED ? [`and ${stuck.length - NAMED} more`] : [];
  return fail(
    subject,
    `open although the AnalysisRun has ended: ${[...named, ...more].join(", ")}`,
    "The sweeper should have closed them: look at its schedule and log.",
  );
}
