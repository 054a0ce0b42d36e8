import { isFault } from "../../shared/domain/fault.ts";
import type { Message, MessageKind } from "../../shared/messages/schema.ts";
import type { MessageQueue } from "../../shared/queue/message-queue.ts";
import { type BackoffOptions, computeBackoff } from "../../shared/runtime/backoff.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Log } from "../../shared/runtime/telemetry.ts";

/** Whose messages these are. */
export interface Origin {
  readonly cluster: string;
  /** CloudEvents `source`. */
  readonly source: string;
  readonly now: () => Date;
}

/** A message on its way to a queue. */
export interface Outgoing {
  readonly kind: MessageKind;
  readonly message: Message;
  /** Messages of one key stand for each other: the last one says it all. Requests have none. */
  readonly coalesce?: string;
  /** For observations: whether the phase differs from the sight before. */
  readonly phaseChanged?: boolean;
}

/**
 * Keeps the last message of each coalescing key, in order, so that a burst of one Stage does not fill the part of
 * the queue that SQS looks at. A change of phase anywhere in the burst stays marked as one.
 */
export function coalesce(outgoing: readonly Outgoing[]): Outgoing[] {
  const last = new Map<string, number>();
  const changed = new Set<string>();
  outgoing.forEach((each, index) => {
    if (each.coalesce === undefined) return;
    last.set(each.coalesce, index);
    if (each.phaseChanged === true) changed.add(each.coalesce);
  });
  return outgoing
    .filter((each, index) => each.coalesce === undefined || last.get(each.coalesce) === index)
    .map((each) => (each.coalesce !== undefined && changed.has(each.coalesce) ? markChanged(each) : each));
}

function markChanged(outgoing: Outgoing): Outgoing {
  const { message } = outgoing;
  const { observed } = message.data;
  if (observed?.kind !== "AnalysisRun") return outgoing;
  return {
    ...outgoing,
    message: { ...message, data: { ...message.data, observed: { ...observed, phaseChanged: true } } },
  };
}

/** Aborts first: they are the ones that somebody waits for. */
const SENDING_ORDER: readonly MessageKind[] = ["abort", "reverify", "verify"];

const SEND_BACKOFF: BackoffOptions = { base: 0.5, cap: 30 };

export interface SenderOptions {
  readonly queue: MessageQueue;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Sends until SQS has accepted everything, however long that takes: whoever waits for this holds the watch back
 * and with it the checkpoint.
 *
 * @throws the last fault when the signal is aborted first, so that nothing counts as sent.
 */
export async function sendAll(outgoing: readonly Outgoing[], options: SenderOptions): Promise<void> {
  for (const kind of SENDING_ORDER) {
    const messages = outgoing.filter((each) => each.kind === kind).map((each) => each.message);
    for (let attempt = 1; messages.length > 0; attempt++) {
      try {
        await options.queue.send(kind, messages);
        break;
      } catch (error) {
        if (!isFault(error, "Transient") || options.signal.aborted) throw error;
        const seconds = computeBackoff(attempt, SEND_BACKOFF, options.random);
        options.log.warn("SQS did not accept messages; they are kept", {
          kind,
          seconds,
          reasons: error.reasons,
        });
        await options.clock.sleep(seconds * 1000, options.signal);
      }
    }
  }
}
