import type { StageKey } from "../domain/identity.ts";
import { settleRequest } from "../domain/request.ts";
import type { StageRecord, WaitingRequest } from "../domain/verification.ts";
import { announceRefusal } from "./announce.ts";
import type { World } from "./world.ts";

/**
 * Refuses a request that waited for something which will not come any more, so that none waits for ever. Harmless to
 * repeat; whoever calls this takes the request out of the Stage's record in the write that follows.
 */
export async function voidWaiting(
  world: World,
  key: StageKey,
  waiting: WaitingRequest | undefined,
  why: string,
): Promise<void> {
  if (waiting === undefined) return;
  const known = await world.ledger.readRequest(key, waiting.requestId);
  if (known === undefined) return;
  const refused = settleRequest(known, {
    outcome: "refused",
    message: `${why} before verification ${waiting.after} could be repeated`,
  });
  if (await world.ledger.writeRequest(refused)) world.meter.count("RequestsRefused");
  await announceRefusal(world, refused, undefined);
}

/** Voids what waits in the record of a Stage that is no more; false when nothing does. */
export async function voidForDeletedStage(world: World, record: StageRecord): Promise<boolean> {
  if (record.waiting === undefined) return false;
  await voidWaiting(world, record.key, record.waiting, "the Stage was deleted");
  await world.ledger.writeStage({ ...record, waiting: undefined });
  return true;
}
