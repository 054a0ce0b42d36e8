import {
  ChangeMessageVisibilityCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  SendMessageCommand,
  type SQSClient,
} from "@aws-sdk/client-sqs";
import { Fault, type FaultKind } from "../domain/fault.ts";
import { deriveDeduplicationId, deriveMessageGroup } from "../messages/group.ts";
import type { Message, MessageKind } from "../messages/schema.ts";
import { LETTER_ATTRIBUTES } from "./dead-letter.ts";

/** Where a kind's queue and its dead-letter queue are. */
export interface QueueUrls {
  readonly queue: string;
  readonly deadLetterQueue: string;
}

/** A message that a handler gives up, with what it takes to understand and to redrive it. */
export interface DeadLetter {
  readonly body: string;
  readonly group: string;
  readonly messageId: string;
  readonly receiveCount: number;
  /** Why it was given up; `Invalid` would come back as it went. */
  readonly fault: FaultKind;
  readonly reasons: readonly string[];
}

/** The few things that senders and handlers do with queues. All throw `Transient` faults. */
export interface MessageQueue {
  /** Sends in batches of ten, in order; returns when SQS has accepted all of them. `cluster` is the default one. */
  send(kind: MessageKind, messages: readonly Message[]): Promise<void>;
  /** Moves a message to the dead-letter queue with its reasons; the caller then acknowledges it. */
  deadLetter(kind: MessageKind, letter: DeadLetter): Promise<void>;
  /** Makes a received message visible again after so many seconds. */
  delay(kind: MessageKind, receiptHandle: string, seconds: number): Promise<void>;
}

const BATCH = 10;
/** SQS takes this much for a whole batch, in bytes; a little is left for attributes. */
const BATCH_BYTES = 1_000_000;
/** A message attribute may hold more, but this is read by people. */
const REASONS_LIMIT = 4096;

/** Queues on SQS. `defaultCluster` names the cluster of messages that name none. */
export function createMessageQueue(
  client: SQSClient,
  urls: Readonly<Record<MessageKind, QueueUrls>>,
  defaultCluster: string,
): MessageQueue {
  return {
    async send(kind, messages) {
      const entries = messages.map((message, index) => toEntry(message, index, defaultCluster));
      for (const batch of splitBatches(entries)) {
        const output = await callSqs(`take ${kind} messages`, () =>
          client.send(new SendMessageBatchCommand({ QueueUrl: urls[kind].queue, Entries: batch })),
        );
        const failed = output.Failed ?? [];
        if (failed.length > 0) {
          // What was accepted is sent again with the rest; its deduplication id makes that harmless.
          throw new Fault(
            "Transient",
            `SQS refused ${failed.length} ${kind} messages: ${failed[0]?.Message ?? ""}`,
          );
        }
      }
    },

    async deadLetter(kind, letter) {
      await callSqs(`take a ${kind} dead letter`, () =>
        client.send(
          new SendMessageCommand({
            QueueUrl: urls[kind].deadLetterQueue,
            MessageBody: letter.body,
            // A group of its own: one that is looked at, or kept, must not hide the others of its Stage.
            MessageGroupId: letter.messageId,
            MessageDeduplicationId: letter.messageId,
            MessageAttributes: {
              [LETTER_ATTRIBUTES.reasons]: text(formatReasons(letter.reasons)),
              [LETTER_ATTRIBUTES.fault]: text(letter.fault),
              [LETTER_ATTRIBUTES.receives]: { DataType: "Number", StringValue: String(letter.receiveCount) },
              [LETTER_ATTRIBUTES.messageId]: text(letter.messageId),
              [LETTER_ATTRIBUTES.group]: text(letter.group),
            },
          }),
        ),
      );
    },

    async delay(kind, receiptHandle, seconds) {
      await callSqs(`delay a ${kind} message`, () =>
        client.send(
          new ChangeMessageVisibilityCommand({
            QueueUrl: urls[kind].queue,
            ReceiptHandle: receiptHandle,
            VisibilityTimeout: Math.min(43_200, Math.max(0, Math.round(seconds))),
          }),
        ),
      );
    },
  };
}

const text = (value: string) => ({ DataType: "String", StringValue: value });

/** @throws Fault `Transient` for whatever a call of SQS throws. */
export async function callSqs<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    const said = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new Fault("Transient", `SQS could not ${what}: ${said}`, { cause: error });
  }
}

function toEntry(message: Message, index: number, defaultCluster: string): SendMessageBatchRequestEntry {
  const { cluster, project, stage } = message.data;
  return {
    Id: String(index),
    MessageBody: JSON.stringify(message),
    MessageGroupId: deriveMessageGroup({ cluster: cluster ?? defaultCluster, project, stage }),
    MessageDeduplicationId: deriveDeduplicationId(message),
  };
}

function* splitBatches(
  entries: readonly SendMessageBatchRequestEntry[],
): Generator<SendMessageBatchRequestEntry[]> {
  let batch: SendMessageBatchRequestEntry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    const size = Buffer.byteLength(entry.MessageBody ?? "");
    if (batch.length === BATCH || (batch.length > 0 && bytes + size > BATCH_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

/** A JSON list of sentences; the last ones are left out where it would be too long. */
function formatReasons(reasons: readonly string[]): string {
  const list = reasons.map((reason) => reason.slice(0, 1000));
  while (list.length > 1 && Buffer.byteLength(JSON.stringify(list)) > REASONS_LIMIT) list.pop();
  return JSON.stringify(list);
}
