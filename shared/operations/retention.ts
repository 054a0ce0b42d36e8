import type { StageKey } from "../domain/identity.ts";
import { isTerminal } from "../domain/phase.ts";
import { isSettled, type StageRecord } from "../domain/verification.ts";
import type { Retention } from "../ledger/retention.ts";
import type { World } from "./world.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
/** Sweeps in which every Stage has its turn once. */
const TURNS = 60;

/** True in one of the sixty minutes of an hour, the same for a Stage each hour: a pass over all at once would be a burst. */
export function hasTurn({ project, stage }: StageKey, now: number): boolean {
  let hash = 0;
  for (const character of `${project}/${stage}`)
    hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 65_521;
  return hash % TURNS === Math.floor(now / MINUTE_MS) % TURNS;
}

/**
 * Expires what a Stage's history holds from before the retention: closed verifications and settled requests. What was
 * the Stage's latest at any time since then stays, and so does what `isShown` says the cluster shows still: seen there,
 * it would be taken for something that the ledger has never heard of. Returns whether anything was expired.
 */
export async function expireHistory(
  world: World,
  retention: Retention,
  record: StageRecord,
  isShown: (verificationId: string) => boolean,
): Promise<boolean> {
  const now = world.clock.now();
  const { entries, isAll } = await retention.store.listOldest(record.key, now - retention.days * DAY_MS);
  const newest = isAll ? entries.findLast((entry) => entry.kind === "verification") : undefined;
  let isExpired = false;
  for (const entry of entries) {
    if (entry === newest) continue;
    if (entry.kind === "request") {
      if (!isSettled(entry.request.outcome)) continue;
    } else {
      const { id, phase } = entry.verification;
      if (!isTerminal(phase) || id === record.latest?.id || isShown(id)) continue;
    }
    await retention.store.expire(entry, now);
    isExpired = true;
  }
  return isExpired;
}
