import type { KubernetesObject } from "../cluster/cluster.ts";
import { readStage } from "../cluster/stage-reader.ts";
import { readVerificationHistory } from "../cluster/verification-history-reader.ts";
import { adoptEntry, digestHistory, type ForeignEntry, mergeEntry } from "../domain/foreign.ts";
import type { FreightCollection } from "../domain/freight.ts";
import type { StageKey } from "../domain/identity.ts";
import { isTerminal } from "../domain/phase.ts";
import { settleRequest } from "../domain/request.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import { isForeign, type StageRecord, type Verification } from "../domain/verification.ts";
import { reportPhase } from "./report-phase.ts";
import { loadStageRecord, newest } from "./stage-record.ts";
import { voidWaiting } from "./waiting-request.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/**
 * Records what a Stage's status shows of another verifier's verifications: those of every FreightCollection, as they
 * are. What the ledger has already costs one batch of reads, or nothing where the Stage's record says that nothing is
 * new. Harmless to repeat: a phase only ever goes forward, and what is terminal stays.
 */
export async function recordStage(world: World, key: StageKey, object: KubernetesObject): Promise<number> {
  const stage = readStage(object);
  const digest = digestHistory(stage.history);
  return decideAgainOnConflict(async () => {
    const record = await loadStageRecord(world, key, stage);
    if (record === undefined || record.shown === digest) return 0;
    const changed = await recordEntries(world, key, stage, object);
    await recordLatest(world, key, stage, record, digest);
    return changed;
  });
}

/** Records the entries alone, and leaves open which verification is the Stage's latest. Returns how many were news. */
export async function recordEntries(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  object: KubernetesObject,
): Promise<number> {
  const history = readVerificationHistory(object);
  const ids = [...new Set(history.flatMap(({ entries }) => entries.map(({ id }) => id)))];
  const heads = await world.ledger.readVerifications(ids.map((id) => ({ key, id })));
  const known = new Map(heads.map((head) => [head.id, head]));
  let changed = 0;
  // Oldest first, as they came about.
  for (const [index, { collection, entries }] of [...history.entries()].reverse()) {
    // Which Promotion brought older Freight nobody says any more.
    const promotion = index === 0 ? (stage.lastPromotion?.name ?? "") : "";
    for (const entry of entries.toReversed()) {
      const head = known.get(entry.id);
      // An earlier try may have died between the end of what was to be aborted and its request.
      if (head !== undefined && isForeign(head)) await settleAbort(world, head);
      const isNews = head === undefined || (isForeign(head) && mergeEntry(head, entry, 0) !== undefined);
      if (!isNews) continue;
      if (await recordEntry(world, { key, uid: stage.uid, promotion }, collection, entry)) changed++;
    }
  }
  return changed;
}

async function recordEntry(
  world: World,
  stage: Parameters<typeof adoptEntry>[0],
  collection: FreightCollection,
  entry: ForeignEntry,
): Promise<boolean> {
  const now = world.clock.now();
  const existing = await world.ledger.readVerification(stage.key, entry.id);
  if (existing === undefined) {
    const adopted = adoptEntry(stage, collection, entry, now);
    if (!(await world.ledger.createVerification(adopted))) return false;
    reportPhase(world, adopted, undefined);
    return true;
  }
  if (!isForeign(existing.verification)) return false;
  const next = mergeEntry(existing.verification, entry, now);
  if (next === undefined) return false;
  await world.ledger.updateVerification(next, existing.revision);
  if (next.phase !== existing.verification.phase) {
    reportPhase(world, next, existing.verification.phase);
    await world.ledger.recordTransition(next, undefined);
    await settleAbort(world, next);
  }
  return true;
}

/** An abort that was passed on has come to its end, one way or the other. */
export async function settleAbort(world: World, verification: Verification): Promise<void> {
  const { abort, id, key, phase } = verification;
  if (abort === undefined || !isTerminal(phase)) return;
  const request = await world.ledger.readRequest(key, abort.requestId);
  if (request === undefined) return;
  await world.ledger.writeRequest(
    settleRequest(
      request,
      phase === "Aborted"
        ? { outcome: "aborted", verificationId: id, message: `verification ${id} was aborted` }
        : { outcome: "too-late", message: `verification ${id} had already ended ${phase}` },
    ),
  );
}

/** Notes which verification the Stage is at, and what became of a request that waited for it. Written last. */
async function recordLatest(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  record: StageRecord,
  digest: string,
): Promise<void> {
  const shown = stage.history[0];
  const newestId = shown?.verifications[0]?.id;
  const promotion = stage.lastPromotion?.name ?? "";
  const latest =
    newestId === undefined || newestId === record.latest?.id
      ? record.latest
      : { id: newestId, promotion, collectionId: shown?.collectionId ?? "" };
  const { waiting } = record;
  const isAnswered = waiting !== undefined && latest?.id !== waiting.after;
  if (isAnswered && latest !== undefined) await answer(world, key, record, latest.id);
  await world.ledger.writeStage({
    ...record,
    observed: newest(record.observed, stage.resourceVersion),
    latest,
    waiting: isAnswered ? undefined : waiting,
    shown: digest,
  });
}

/** The verification that came after the one which was to be repeated is its successor, unless other Freight came. */
async function answer(world: World, key: StageKey, record: StageRecord, id: string): Promise<void> {
  const { waiting } = record;
  if (waiting === undefined) return;
  const successor = await world.ledger.readVerification(key, id);
  const repeated = await world.ledger.readVerification(key, waiting.after);
  if (successor?.verification.collection.id !== repeated?.verification.collection.id) {
    await voidWaiting(world, key, waiting, "another Promotion brought other Freight");
    return;
  }
  if (successor !== undefined && successor.verification.cause.kind === "observed") {
    await world.ledger.updateVerification(
      {
        ...successor.verification,
        cause: { kind: "observed", of: waiting.after },
        // The other verifier only knows Tallyman as the one who asked.
        ...(waiting.actor === undefined ? {} : { actor: waiting.actor }),
      },
      successor.revision,
    );
  }
  const request = await world.ledger.readRequest(key, waiting.requestId);
  if (request === undefined) return;
  await world.ledger.writeRequest(
    settleRequest(request, { outcome: "started", verificationId: id, message: `verification ${id} started` }),
  );
}
