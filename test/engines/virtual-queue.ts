import type { SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";
import { Fault } from "../../shared/domain/fault.ts";
import { deriveDeduplicationId, deriveMessageGroup } from "../../shared/messages/group.ts";
import type { Message, MessageKind } from "../../shared/messages/schema.ts";
import { QUEUE_DEFINITION } from "../../shared/queue/definition.ts";
import type { DeadLetter, MessageQueue } from "../../shared/queue/message-queue.ts";
import type { VirtualClock } from "./virtual-clock.ts";

/** A message in a queue, as SQS keeps it. */
interface Entry {
  readonly kind: MessageKind;
  readonly id: string;
  readonly group: string;
  readonly body: string;
  receives: number;
  visibleAt: number;
  /** Of the last receive; an earlier one is worth nothing any more. */
  receipt: string;
}

export interface VirtualQueue extends MessageQueue {
  /** Puts any text into a queue, as a producer by hand would. */
  sendText(kind: MessageKind, body: string, group: string): void;
  /** Gives the next batch to `handle` as Lambda would, and settles what it reports; false when nothing is visible. */
  deliver(kind: MessageKind, handle: (event: SQSEvent) => Promise<SQSBatchResponse>): Promise<boolean>;
  /** When the next message becomes visible, milliseconds since the epoch; undefined when the queues are empty. */
  nextVisibleAt(): number | undefined;
  /** Those that the queue itself moved, after `redriveAfter` receives, have no reasons. */
  readonly deadLetters: readonly (DeadLetter & { readonly kind: MessageKind })[];
  /** Every message that was ever accepted, oldest first. */
  readonly accepted: readonly { readonly kind: MessageKind; readonly message: Message }[];
  /** While set, sends are refused with this error. */
  refuse(error: Error | undefined): void;
}

/** Delivers worse than SQS promises: what is visible comes in any order, and everything comes again some time. */
export interface Disorder {
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** The copies come at any time from now up to so many milliseconds later. */
  readonly copiesWithinMs: number;
}

/**
 * FIFO queues in virtual time: a group's messages one after the other, none while an earlier one of the group is in
 * flight or delayed, visibility time-outs, receive counts and deduplication as SQS has them.
 */
export function createVirtualQueue(
  clock: VirtualClock,
  defaultCluster: string,
  disorder?: Disorder,
): VirtualQueue {
  const entries: Entry[] = [];
  const deadLetters: (DeadLetter & { kind: MessageKind })[] = [];
  const accepted: { kind: MessageKind; message: Message }[] = [];
  const seen = new Map<string, number>();
  let refusal: Error | undefined;
  let sequence = 0;

  function push(kind: MessageKind, body: string, group: string): void {
    const entry = () => ({ kind, id: `m-${++sequence}`, group, body, receives: 0, receipt: "" });
    entries.push({ ...entry(), visibleAt: 0 });
    if (disorder === undefined) return;
    entries.push({ ...entry(), visibleAt: clock.now() + disorder.random() * disorder.copiesWithinMs });
  }

  /** What nobody lived to settle for so often is moved by the queue itself, when it would be received once more. */
  function redrive(entry: Entry): void {
    entries.splice(entries.indexOf(entry), 1);
    const { kind, body, group, id, receives } = entry;
    deadLetters.push({
      kind,
      body,
      group,
      messageId: id,
      receiveCount: receives,
      fault: "Transient",
      reasons: [],
    });
  }

  function take(kind: MessageKind): Entry[] {
    const now = clock.now();
    if (disorder !== undefined) {
      const visible = entries.filter((entry) => entry.kind === kind && entry.visibleAt <= now);
      return visible.length === 0 ? [] : visible.splice(Math.floor(disorder.random() * visible.length), 1);
    }
    const blocked = new Set<string>();
    const batch: Entry[] = [];
    for (const entry of [...entries]) {
      if (entry.kind !== kind || batch.length === QUEUE_DEFINITION.batchSize) continue;
      if (blocked.has(entry.group) || entry.visibleAt > now) {
        blocked.add(entry.group);
        continue;
      }
      if (entry.receives >= QUEUE_DEFINITION.redriveAfter) redrive(entry);
      else batch.push(entry);
    }
    return batch;
  }

  return {
    deadLetters,
    accepted,
    refuse(error) {
      refusal = error;
    },
    sendText: push,
    async send(kind, messages) {
      if (refusal !== undefined) throw refusal;
      for (const message of messages) {
        const { cluster = defaultCluster, project, stage } = message.data;
        const deduplication = `${kind}/${deriveDeduplicationId(message)}`;
        const before = seen.get(deduplication);
        if (before !== undefined && clock.now() - before < 300_000) continue;
        seen.set(deduplication, clock.now());
        accepted.push({ kind, message });
        push(kind, JSON.stringify(message), deriveMessageGroup({ cluster, project, stage }));
      }
    },
    async deadLetter(kind, letter) {
      deadLetters.push({ kind, ...letter });
    },
    async delay(kind, receiptHandle, seconds) {
      const entry = entries.find((each) => each.receipt === receiptHandle);
      if (entry === undefined) {
        throw new Fault("Transient", `the queue could not delay a ${kind} message: it is not in flight`);
      }
      entry.visibleAt = clock.now() + seconds * 1000;
    },
    async deliver(kind, handle) {
      const batch = take(kind);
      if (batch.length === 0) return false;
      for (const entry of batch) {
        entry.receives++;
        entry.receipt = `${entry.id}/${entry.receives}`;
        entry.visibleAt = clock.now() + QUEUE_DEFINITION.visibilityTimeout * 1000;
      }
      const received = batch.map((entry) => ({ entry, receipt: entry.receipt }));
      const { batchItemFailures } = await handle({ Records: batch.map((entry) => toRecord(entry)) });
      const failed = new Set(batchItemFailures.map((failure) => failure.itemIdentifier));
      for (const { entry, receipt } of received) {
        // Received again meanwhile: whoever has it now settles it.
        if (failed.has(entry.id) || entry.receipt !== receipt) continue;
        entries.splice(entries.indexOf(entry), 1);
      }
      return true;
    },
    nextVisibleAt() {
      return entries.length === 0 ? undefined : Math.min(...entries.map((entry) => entry.visibleAt));
    },
  };
}

function toRecord(entry: Entry): SQSRecord {
  return {
    messageId: entry.id,
    receiptHandle: entry.receipt,
    body: entry.body,
    attributes: {
      ApproximateReceiveCount: String(entry.receives),
      SentTimestamp: "0",
      SenderId: "test",
      ApproximateFirstReceiveTimestamp: "0",
      MessageGroupId: entry.group,
    },
    messageAttributes: {},
    md5OfBody: "",
    eventSource: "aws:sqs",
    eventSourceARN: `arn:aws:sqs:local:000000000000:${entry.kind}.fifo`,
    awsRegion: "local",
  };
}
