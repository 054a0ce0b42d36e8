import type { SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";
import { Fault, isFault } from "../domain/fault.ts";
import { decodeMessage } from "../messages/codec.ts";
import type { Message, MessageKind } from "../messages/schema.ts";
import { LETTER_ATTRIBUTES } from "../queue/dead-letter.ts";
import type { MessageQueue } from "../queue/message-queue.ts";
import { type BackoffOptions, computeBackoff } from "./backoff.ts";
import type { Log, Meter } from "./telemetry.ts";

/** How a message came: what was tried before may have been done half. */
export interface Delivery {
  /** True when this message was received before, itself or before a redrive: an earlier try may have died at any line. */
  readonly redelivered: boolean;
}

export interface BatchOptions {
  readonly kind: MessageKind;
  readonly process: (message: Message, delivery: Delivery) => Promise<void>;
  readonly queue: MessageQueue;
  readonly log: Log;
  readonly meter: Meter;
  readonly backoff: BackoffOptions;
  /** Receives after which a message that still fails is given up, with its reasons. */
  readonly maxReceives: number;
  readonly random: () => number;
}

/**
 * Works on a batch of a FIFO queue. Groups (Stages) run side by side, the messages of a group in order; after
 * a failure the later messages of the same group are returned too, the other groups go on. Reports failures
 * per item and never throws for them: a thrown error would make Lambda cut the event source's concurrency.
 */
export function createBatchHandler(options: BatchOptions): (event: SQSEvent) => Promise<SQSBatchResponse> {
  return async (event) => {
    const failed: string[] = [];
    await Promise.all(
      [...groupRecords(event.Records)].map(async ([, records]) => {
        let blocked = false;
        for (const record of records) {
          if (blocked) {
            // Visible at once: FIFO order alone keeps it behind the one that failed.
            await delayQuietly(options, record, 0);
            failed.push(record.messageId);
            continue;
          }
          blocked = !(await settleRecord(options, record));
          if (blocked) failed.push(record.messageId);
        }
      }),
    );
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

function groupRecords(records: readonly SQSRecord[]): Map<string, SQSRecord[]> {
  const groups = new Map<string, SQSRecord[]>();
  for (const record of records) {
    const group = record.attributes.MessageGroupId ?? "";
    const list = groups.get(group);
    if (list === undefined) groups.set(group, [record]);
    else list.push(record);
  }
  return groups;
}

/** True when the message is done with (processed, or given up for good), false when it has to come back. */
async function settleRecord(options: BatchOptions, record: SQSRecord): Promise<boolean> {
  const { kind, log, meter } = options;
  const receives = Number(record.attributes.ApproximateReceiveCount) || 1;
  const fields = { messageId: record.messageId, group: record.attributes.MessageGroupId, receives };
  try {
    const message = decodeMessage(record.body, kind);
    await options.process(message, { redelivered: receives > 1 || isRedriven(record) });
    meter.count("MessagesProcessed");
    return true;
  } catch (error) {
    const fault = isFault(error) ? error : new Fault("Transient", describeBug(error), { cause: error });
    if (!isFault(error)) log.error("a message met an error that nobody foresaw", { ...fields, error });
    const hopeless =
      fault.kind === "Invalid" || fault.kind === "Permanent" || receives >= options.maxReceives;
    if (hopeless && (await deadLetter(options, record, receives, fault))) return true;
    const seconds = computeBackoff(receives, options.backoff, options.random);
    log.warn("message will be tried again", {
      ...fields,
      seconds,
      fault: fault.kind,
      reasons: fault.reasons,
    });
    meter.count("MessagesRetried");
    await delayQuietly(options, record, seconds);
    return false;
  }
}

/**
 * A redrive sends a message anew, so its receives count from one again; but what its earlier tries did half is still
 * there. One that another tool took out of a dead-letter queue carries the attributes that the worker gave it.
 */
function isRedriven({ messageAttributes }: SQSRecord): boolean {
  return (
    messageAttributes[LETTER_ATTRIBUTES.redriven] !== undefined ||
    messageAttributes[LETTER_ATTRIBUTES.reasons] !== undefined
  );
}

/** False when not even the dead-letter queue took it; then the message goes back like any other failure. */
async function deadLetter(
  options: BatchOptions,
  record: SQSRecord,
  receives: number,
  fault: Fault,
): Promise<boolean> {
  const fields = {
    messageId: record.messageId,
    kind: options.kind,
    fault: fault.kind,
    reasons: fault.reasons,
  };
  try {
    await options.queue.deadLetter(options.kind, {
      body: record.body,
      group: record.attributes.MessageGroupId ?? "none",
      messageId: record.messageId,
      receiveCount: receives,
      fault: fault.kind,
      reasons: fault.reasons,
    });
    options.log.error("message moved to the dead-letter queue", fields);
    options.meter.count("MessagesDeadLettered");
    return true;
  } catch (error) {
    options.log.error("the dead-letter queue did not take a message", { ...fields, error });
    return false;
  }
}

/** A delay that cannot be set only means that the queue's own visibility timeout applies. */
async function delayQuietly(options: BatchOptions, record: SQSRecord, seconds: number): Promise<void> {
  try {
    await options.queue.delay(options.kind, record.receiptHandle, seconds);
  } catch (error) {
    options.log.debug("visibility timeout left as it was", { messageId: record.messageId, error });
  }
}

function describeBug(error: unknown): string {
  return `unexpected error: ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}`;
}
