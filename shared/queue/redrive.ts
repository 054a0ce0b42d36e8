import { isFault } from "../domain/fault.ts";
import type { MessageKind } from "../messages/schema.ts";
import type { ReceivedLetter } from "./dead-letter.ts";
import type { DeadLetterQueue } from "./dead-letter-queue.ts";

type Predicate = (letter: ReceivedLetter) => boolean;

export interface LetterListing {
  readonly letters: readonly ReceivedLetter[];
  /** How many there are besides, by what SQS says: in another's hands, or behind one of these in its group. */
  readonly unseen: number;
}

/** Up to `limit` dead letters of the kinds, oldest first; all of them are given back, whatever happens. */
export async function listLetters(
  queue: DeadLetterQueue,
  kinds: readonly MessageKind[],
  wanted: Predicate,
  limit: number,
): Promise<LetterListing> {
  const lists = await Promise.all(kinds.map((kind) => listKind(queue, kind, wanted, limit)));
  const letters = lists.flatMap((list) => list.letters).sort((a, b) => a.since - b.since);
  const unseen = lists.reduce((sum, list) => sum + list.unseen, 0);
  return { letters: letters.slice(0, limit), unseen: unseen + Math.max(0, letters.length - limit) };
}

async function listKind(
  queue: DeadLetterQueue,
  kind: MessageKind,
  wanted: Predicate,
  limit: number,
): Promise<LetterListing> {
  const taken: ReceivedLetter[] = [];
  try {
    for await (const batch of takeAll(queue, kind)) {
      taken.push(...batch);
      if (taken.filter(wanted).length >= limit) break;
    }
    const { visible, inFlight } = await queue.count(kind);
    return { letters: taken.filter(wanted), unseen: Math.max(0, visible + inFlight - taken.length) };
  } finally {
    await queue.giveBack(kind, taken);
  }
}

/** Batches until there are no more; one that came before means that its lease ran out and the round is over. */
async function* takeAll(
  queue: DeadLetterQueue,
  kind: MessageKind,
): AsyncGenerator<readonly ReceivedLetter[]> {
  const seen = new Set<string>();
  for (;;) {
    const batch = await queue.take(kind);
    const fresh = batch.filter(({ letterId }) => !seen.has(letterId));
    for (const { letterId } of fresh) seen.add(letterId);
    if (fresh.length < batch.length) {
      await queue.giveBack(
        kind,
        batch.filter((letter) => !fresh.includes(letter)),
      );
    }
    if (fresh.length === 0) return;
    yield fresh;
  }
}

/** What became of a dead letter that was meant: `kept` would come back as it went, `failed` could not be moved. */
export interface Redriven {
  readonly letter: ReceivedLetter;
  readonly outcome: "moved" | "kept" | "failed";
  /** Why, for all but `moved`. */
  readonly message: string;
}

export interface RedriveOptions {
  readonly kinds: readonly MessageKind[];
  readonly wanted: Predicate;
  /** Moves what is `Invalid` too. */
  readonly force: boolean;
  /** Told after each letter that was meant. */
  readonly report: (done: Redriven) => void;
}

export interface RedriveReport {
  readonly done: readonly Redriven[];
  /** True when some that stay may hide others, which were therefore not looked at. */
  readonly mayHideOthers: boolean;
}

/**
 * Moves dead letters back to their queues, those of a kind one after the other; those that are not moved are given back.
 */
export async function redriveLetters(
  queue: DeadLetterQueue,
  options: RedriveOptions,
): Promise<RedriveReport> {
  const reports = await Promise.all(options.kinds.map((kind) => redriveKind(queue, kind, options)));
  return {
    done: reports.flatMap(({ done }) => done),
    mayHideOthers: reports.some(({ mayHideOthers }) => mayHideOthers),
  };
}

async function redriveKind(
  queue: DeadLetterQueue,
  kind: MessageKind,
  { wanted, force, report }: RedriveOptions,
): Promise<RedriveReport> {
  const done: Redriven[] = [];
  const staying: ReceivedLetter[] = [];
  try {
    for await (const batch of takeAll(queue, kind)) {
      for (const letter of batch) {
        const redriven = wanted(letter) ? await redriveOne(queue, letter, force) : undefined;
        if (redriven !== undefined) {
          done.push(redriven);
          report(redriven);
        }
        if (redriven?.outcome !== "moved") staying.push(letter);
      }
    }
  } finally {
    await queue.giveBack(kind, staying);
  }
  return { done, mayHideOthers: staying.some((letter) => letter.hidesOthers) };
}

async function redriveOne(queue: DeadLetterQueue, letter: ReceivedLetter, force: boolean): Promise<Redriven> {
  if (letter.fault === "Invalid" && !force) {
    return { letter, outcome: "kept", message: "it is invalid and would come back" };
  }
  try {
    await queue.redrive(letter);
    return { letter, outcome: "moved", message: "" };
  } catch (error) {
    if (!isFault(error)) throw error;
    return { letter, outcome: "failed", message: error.message };
  }
}
