import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import { isFault } from "../domain/fault.ts";
import { digestHistory } from "../domain/foreign.ts";
import type { StageKey } from "../domain/identity.ts";
import { endVerification } from "../domain/observation.ts";
import { isTerminal } from "../domain/phase.ts";
import { findLimit, findMode, findOtherShard } from "../domain/policy.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import { findBringer } from "../domain/start.ts";
import { isForeign, type StageRecord, type Verification } from "../domain/verification.ts";
import { endAborted, endOverdue } from "./abort-verification.ts";
import { type Attempt, type ClusterSight, isSeen, isShown, lookAround } from "./cluster-sight.ts";
import { followForeignRun, observeRun } from "./observe-run.ts";
import { publishPhase } from "./record.ts";
import { recordStage } from "./record-stage.ts";
import { reportPhase } from "./report-phase.ts";
import { expireHistory, hasTurn } from "./retention.ts";
import { reportStaleStages } from "./stale-stages.ts";
import { passOn } from "./sweep-control-flow.ts";
import { lookAtTemplates } from "./sweep-templates.ts";
import { continueAfter, republishLatest, verifyStage } from "./verify-stage.ts";
import { voidForDeletedStage } from "./waiting-request.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/** What a sweep found and mended. */
export interface SweepReport {
  readonly open: number;
  readonly repaired: number;
  /** What could not be looked at this time; the next sweep will. */
  readonly failures: readonly string[];
}

/**
 * Reconciles every open verification of a cluster against ALL AnalysisRuns and Stages, so that an event which
 * never arrived costs one interval and not the truth. The ledger is read before the cluster: a run that the
 * lists lack is then really gone, and not merely younger than they are.
 */
export async function sweepCluster(world: World, clusterName: string): Promise<SweepReport> {
  const cluster = world.findCluster(clusterName);
  const open = await collect((cursor) => world.ledger.listOpen(clusterName, { cursor, limit: 500 }));
  const records = await collect((cursor) =>
    world.ledger.listStages(clusterName, undefined, { cursor, limit: 500 }),
  );
  const sight = await lookAround(cluster, world);

  const failures: string[] = [];
  let repaired = 0;
  const attempt: Attempt = async (what, work) => {
    try {
      if (await work()) repaired++;
    } catch (error) {
      if (!isFault(error)) throw error;
      failures.push(`${what}: ${error.message}`);
    }
  };

  const recordByStage = new Map(
    records.map((record) => [`${record.key.project}/${record.key.stage}`, record]),
  );
  for (const verification of open) {
    const record = recordByStage.get(`${verification.key.project}/${verification.key.stage}`);
    await attempt(`verification ${verification.id}`, () => reconcile(world, verification, record, sight));
  }
  const policy = world.findPolicy(clusterName);
  const openIds = new Set(open.map((verification) => verification.id));
  const isOurs = ({ project, stage }: AnalysisRunSnapshot): boolean => {
    const seen = sight.stages.get(`${project}/${stage}`);
    return seen === undefined || findOtherShard(seen, policy) === undefined;
  };
  const ours = [...sight.runs.values()].filter(isOurs);
  for (const run of await findOrphans(world, clusterName, ours, openIds)) {
    await attempt(`AnalysisRun ${run.project}/${run.name}`, async () => {
      await observeRun(world, stageOf(clusterName, run), run, { phaseChanged: true, redelivered: false });
      return true;
    });
  }
  for (const record of records) {
    const { project, stage } = record.key;
    if (sight.stages.get(`${project}/${stage}`)?.uid === record.uid) continue;
    await attempt(`requests of Stage ${project}/${stage}`, () => voidForDeletedStage(world, record));
  }
  for (const record of records) {
    const { retention } = world;
    if (retention === undefined || !hasTurn(record.key, world.clock.now())) continue;
    await attempt(`history of Stage ${record.key.project}/${record.key.stage}`, () =>
      expireHistory(world, retention, record, (id) => isSeen(sight, record.key, id)),
    );
  }
  for (const [name, stage] of sight.stages) {
    if (findOtherShard(stage, policy) !== undefined) continue;
    const key: StageKey = { cluster: clusterName, project: stage.project, stage: stage.name };
    await attempt(`Stage ${name}`, () => revisit(world, key, stage, recordByStage.get(name), openIds, sight));
  }
  for (const project of new Set([...sight.stages.values()].map((stage) => stage.project))) {
    // Beside another verifier we have no right to look at Promotions. They are many, so each Project has one turn an hour.
    if (policy.mode === "companion") break;
    if (!hasTurn({ cluster: clusterName, project, stage: "" }, world.clock.now())) continue;
    await attempt(`Promotions of Project ${project}`, async () => {
      await reportStaleStages(world, cluster, project, sight.stages);
      return false;
    });
  }
  await passOn(world, clusterName, sight, attempt);
  await attempt("templates", () => lookAtTemplates(world, cluster, records, sight));
  world.meter.count("SweepOpen", open.length);
  world.meter.count("SweepRepairs", repaired);
  return { open: open.length, repaired, failures };
}

async function reconcile(
  world: World,
  verification: Verification,
  record: StageRecord | undefined,
  sight: ClusterSight,
): Promise<boolean> {
  const { key, run: known } = verification;
  const stage = sight.stages.get(`${key.project}/${key.stage}`);
  if (stage === undefined || stage.uid !== verification.stageUid)
    return endForDeletedStage(world, verification);
  if (isForeign(verification)) return reconcileForeign(world, verification, sight);
  const limit = findLimit("deadline", stage, world.findPolicy(key.cluster));
  const run = known === undefined ? undefined : sight.runs.get(`${key.project}/${known.name}`);
  if (verification.abort !== undefined) {
    return decideAgainOnConflict(async () => {
      const current = await world.ledger.readVerification(key, verification.id);
      if (current === undefined || isTerminal(current.verification.phase)) return false;
      await continueAfter(world, await endAborted(world, current));
      return true;
    });
  }
  if (limit !== undefined && world.clock.now() - verification.createdAt > limit * 1000) {
    return decideAgainOnConflict(async () => {
      const current = await world.ledger.readVerification(key, verification.id);
      if (current === undefined || isTerminal(current.verification.phase)) return false;
      await continueAfter(world, await endOverdue(world, current, limit));
      return true;
    });
  }
  const seen = run ?? describeGone(verification, sight.runListVersion);
  const ended = await observeRun(world, key, seen, { phaseChanged: true, redelivered: false });
  if (ended !== undefined) {
    await continueAfter(world, ended);
    return true;
  }
  if (isShown(stage, verification)) return false;
  if (record?.latest?.id === verification.id) await republishLatest(world, key, record);
  else await publishAgain(world, key, verification.id, run);
  return true;
}

/** Another verifier may have let it freeze: only its AnalysisRun tells the truth. */
async function reconcileForeign(
  world: World,
  verification: Verification,
  sight: ClusterSight,
): Promise<boolean> {
  const { id, key, run: known } = verification;
  if (known === undefined) return false;
  const run =
    sight.runs.get(`${key.project}/${known.name}`) ?? describeGone(verification, sight.runListVersion);
  return (await followForeignRun(world, key, id, run)) !== undefined;
}

/** Repeats what follows a change of phase, whose author died before it was done. */
async function publishAgain(
  world: World,
  key: StageKey,
  id: string,
  run: AnalysisRunSnapshot | undefined,
): Promise<boolean> {
  const current = await world.ledger.readVerification(key, id);
  if (current === undefined) return false;
  await publishPhase(world, current.verification, run);
  return true;
}

/** A run that the cluster no longer has, as an observation made at the time of the list. */
function describeGone(verification: Verification, listVersion: string): AnalysisRunSnapshot {
  return {
    uid: "",
    project: verification.key.project,
    name: verification.run?.name ?? "",
    resourceVersion: listVersion,
    stage: verification.key.stage,
    ...(verification.cause.kind === "observed"
      ? {}
      : {
          identity: {
            id: verification.id,
            stageUid: verification.stageUid,
            cause: verification.cause,
            promotion: verification.promotion,
            collection: verification.collection,
            missingOrigins: verification.missingOrigins,
          },
        }),
    phase: verification.run?.phase ?? "",
    terminating: false,
    deleted: true,
    metrics: [],
    omittedMetrics: 0,
  };
}

async function endForDeletedStage(world: World, verification: Verification): Promise<boolean> {
  const { key, id } = verification;
  return decideAgainOnConflict(async () => {
    const current = await world.ledger.readVerification(key, id);
    if (current === undefined || isTerminal(current.verification.phase)) return false;
    const { run } = current.verification;
    const isOurs = !isForeign(current.verification);
    if (run !== undefined && isOurs)
      await world.findCluster(key.cluster).terminateAnalysisRun(key.project, run.name);
    const next = endVerification(current.verification, {
      phase: "Error",
      reason: "StageDeleted",
      message: `Stage ${key.project}/${key.stage} was deleted before its verification ended`,
      now: world.clock.now(),
    });
    await world.ledger.updateVerification(next, current.revision);
    reportPhase(world, next, current.verification.phase);
    await publishPhase(world, next, undefined);
    return true;
  });
}

function stageOf(cluster: string, run: AnalysisRunSnapshot): StageKey {
  return { cluster, project: run.project, stage: run.stage };
}

/** Runs of ours that the ledger has never heard of: their maker died, and its message with it. */
async function findOrphans(
  world: World,
  cluster: string,
  runs: Iterable<AnalysisRunSnapshot>,
  openIds: ReadonlySet<string>,
): Promise<AnalysisRunSnapshot[]> {
  const candidates = new Map<string, AnalysisRunSnapshot>();
  for (const run of runs) {
    if (run.identity !== undefined && !openIds.has(run.identity.id)) candidates.set(run.identity.id, run);
  }
  const ids = [...candidates].map(([id, run]) => ({ key: stageOf(cluster, run), id }));
  for (const { id } of await world.ledger.readVerifications(ids)) candidates.delete(id);
  return [...candidates.values()];
}

/** A Stage whose event was lost: a verification is due, or its status shows as open what the ledger has closed. */
async function revisit(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  record: StageRecord | undefined,
  openIds: ReadonlySet<string>,
  sight: ClusterSight,
): Promise<boolean> {
  if (findMode(stage, world.findPolicy(key.cluster)) === "companion") {
    if (record?.uid === stage.uid && record.shown === digestHistory(stage.history)) return false;
    const object = await world.findCluster(key.cluster).getStage(key.project, key.stage);
    return object !== undefined && (await recordStage(world, key, object)) > 0;
  }
  let repaired = false;
  for (const { verifications } of stage.history) {
    for (const entry of verifications) {
      if (
        openIds.has(entry.id) ||
        (entry.phase !== "" && entry.phase !== "Pending" && entry.phase !== "Running")
      )
        continue;
      const run = [...sight.runs.values()].find((each) => each.identity?.id === entry.id);
      repaired = (await publishAgain(world, key, entry.id, run)) || repaired;
    }
  }
  const isAtLatest =
    record?.latest?.collectionId === stage.current?.id &&
    record?.latest?.promotion === (record === undefined ? "" : findBringer(stage, record));
  if (record?.latest !== undefined && isAtLatest && record.waiting === undefined) {
    const { id } = record.latest;
    const isTold = stage.history.some(({ verifications }) => verifications.some((entry) => entry.id === id));
    // What is open was looked at above.
    if (isTold || openIds.has(id)) return repaired;
    await republishLatest(world, key, record);
    return true;
  }
  return (await verifyStage(world, key, stage, { redelivered: false })).started !== undefined || repaired;
}

async function collect<T>(
  page: (cursor: string | undefined) => Promise<{ items: readonly T[]; cursor?: string | undefined }>,
): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  do {
    const { items, cursor: next } = await page(cursor);
    all.push(...items);
    cursor = next;
  } while (cursor !== undefined);
  return all;
}
