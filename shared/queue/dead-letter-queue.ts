import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from "@aws-sdk/client-sqs";
import type { MessageKind } from "../messages/schema.ts";
import { LETTER_ATTRIBUTES, type ReceivedLetter, readLetter } from "./dead-letter.ts";
import { callSqs, type QueueUrls } from "./message-queue.ts";

/** What a dead-letter queue says it holds; SQS calls these numbers approximate. */
export interface LetterCount {
  readonly visible: number;
  /** Taken by somebody who has neither given them back nor moved them yet. */
  readonly inFlight: number;
}

/** Looking at dead letters and moving them back. All throw `Transient` faults. */
export interface DeadLetterQueue {
  count(kind: MessageKind): Promise<LetterCount>;
  /** Takes up to ten that nobody else has, for `LEASE_SECONDS`; none when there are no more to be seen. */
  take(kind: MessageKind): Promise<readonly ReceivedLetter[]>;
  /** Makes letters that were taken visible again, as they were. */
  giveBack(kind: MessageKind, letters: readonly ReceivedLetter[]): Promise<void>;
  /**
   * Sends a letter to its queue and then deletes it here. Whoever dies between the two leaves a letter that has been
   * redriven already: redriven again it is a duplicate, which the handlers are made for. Never is there neither.
   */
  redrive(letter: ReceivedLetter): Promise<void>;
}

/** How long what was taken stays hidden: longer than a listing takes, short enough that a killed one does no harm. */
const LEASE_SECONDS = 300;
const BATCH = 10;

export interface DeadLetterOptions {
  /** Seconds that an empty queue is waited for: SQS asks only some of its servers when it may not wait. */
  readonly waitSeconds: number;
  /** The cluster of messages that name none. */
  readonly defaultCluster: string;
}

/** Dead-letter queues on SQS. */
export function createDeadLetterQueue(
  client: SQSClient,
  urls: Readonly<Record<MessageKind, QueueUrls>>,
  { waitSeconds, defaultCluster }: DeadLetterOptions,
): DeadLetterQueue {
  return {
    async count(kind) {
      const { Attributes: attributes = {} } = await callSqs(`count ${kind} dead letters`, () =>
        client.send(
          new GetQueueAttributesCommand({
            QueueUrl: urls[kind].deadLetterQueue,
            AttributeNames: ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
          }),
        ),
      );
      return {
        visible: Number(attributes.ApproximateNumberOfMessages ?? 0),
        inFlight: Number(attributes.ApproximateNumberOfMessagesNotVisible ?? 0),
      };
    },

    async take(kind) {
      const { Messages: messages = [] } = await callSqs(`hand out ${kind} dead letters`, () =>
        client.send(
          new ReceiveMessageCommand({
            QueueUrl: urls[kind].deadLetterQueue,
            MaxNumberOfMessages: BATCH,
            VisibilityTimeout: LEASE_SECONDS,
            WaitTimeSeconds: waitSeconds,
            MessageSystemAttributeNames: ["All"],
            MessageAttributeNames: ["All"],
          }),
        ),
      );
      return messages.map((message) => readLetter(kind, message, defaultCluster));
    },

    async giveBack(kind, letters) {
      // Newest first: a queue that puts each in front then has them in their order again.
      const entries = [...letters].reverse().map(({ receiptHandle }, index) => ({
        Id: String(index),
        ReceiptHandle: receiptHandle,
        VisibilityTimeout: 0,
      }));
      for (let start = 0; start < entries.length; start += BATCH) {
        await callSqs(`take ${kind} dead letters back`, () =>
          client.send(
            new ChangeMessageVisibilityBatchCommand({
              QueueUrl: urls[kind].deadLetterQueue,
              Entries: entries.slice(start, start + BATCH),
            }),
          ),
        );
      }
    },

    async redrive({ kind, body, group, id, letterId, receiptHandle }) {
      await callSqs(`take the ${kind} message ${id} back`, () =>
        client.send(
          new SendMessageCommand({
            QueueUrl: urls[kind].queue,
            MessageBody: body,
            MessageGroupId: group,
            // The letter's identity, not the message's: that one may have been sent within the last five minutes, and
            // SQS would drop this in silence. The same letter sent twice is the one thing that may be dropped.
            MessageDeduplicationId: `redrive-${letterId}`,
            MessageAttributes: {
              [LETTER_ATTRIBUTES.redriven]: { DataType: "String", StringValue: id || letterId },
            },
          }),
        ),
      );
      await callSqs(`delete the ${kind} dead letter ${id}, which went back to its queue`, () =>
        client.send(
          new DeleteMessageCommand({ QueueUrl: urls[kind].deadLetterQueue, ReceiptHandle: receiptHandle }),
        ),
      );
    },
  };
}
