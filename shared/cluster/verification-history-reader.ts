import type { ForeignEntry, ForeignHistory } from "../domain/foreign.ts";
import type { FreightReference } from "../domain/freight.ts";
import { computeCollectionId } from "../domain/identity.ts";
import { cutText, isPlainObject, readList, readPath, readText } from "./plain-object.ts";

const MAX_MESSAGE = 4096;
const MAX_ACTOR = 512;
/** What can be an id in the ledger's keys; Kargo writes UUIDs. */
const ID = /^[0-9a-zA-Z-]{1,64}$/;

/**
 * Reads every verification that a Stage's status shows, of every FreightCollection, newest first, whoever wrote it.
 * Entries without a usable id, which older versions of Kargo wrote, cannot be told apart and are left out.
 */
export function readVerificationHistory(stage: unknown): ForeignHistory[] {
  return readList(readPath(stage, "status", "freightHistory")).map((item) => {
    const freight = readFreight(readPath(item, "items"));
    return {
      collection: {
        id: readText(readPath(item, "id")) ?? computeCollectionId(freight.map(({ name }) => name)),
        freight,
      },
      entries: readList(readPath(item, "verificationHistory")).flatMap(readEntry),
    };
  });
}

function readFreight(items: unknown): FreightReference[] {
  const entries = isPlainObject(items) ? Object.entries(items) : [];
  return entries
    .flatMap(([origin, item]): FreightReference[] => {
      const name = readText(readPath(item, "name"));
      return name === undefined ? [] : [{ name, origin }];
    })
    .sort((a, b) => (a.origin < b.origin ? -1 : 1));
}

function readEntry(value: unknown): ForeignEntry[] {
  const id = readText(readPath(value, "id"));
  if (id === undefined || !ID.test(id)) return [];
  const actor = readText(readPath(value, "actor"));
  const startTime = readTime(readPath(value, "startTime"));
  const finishTime = readTime(readPath(value, "finishTime"));
  const run = readText(readPath(value, "analysisRun", "name"));
  return [
    {
      id,
      phase: readText(readPath(value, "phase")) ?? "",
      message: cutText(readText(readPath(value, "message")) ?? "", MAX_MESSAGE),
      ...(actor === undefined ? {} : { actor: cutText(actor, MAX_ACTOR) }),
      ...(startTime === undefined ? {} : { startTime }),
      ...(finishTime === undefined ? {} : { finishTime }),
      ...(run === undefined || run.length > 253
        ? {}
        : { run: { name: run, phase: readText(readPath(value, "analysisRun", "phase")) ?? "" } }),
    },
  ];
}

function readTime(value: unknown): number | undefined {
  const time = Date.parse(readText(value) ?? "");
  return Number.isNaN(time) ? undefined : time;
}
