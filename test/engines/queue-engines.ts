import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { vi } from "vitest";
import { toRecord } from "../../local/poller.ts";
import { startQueueServer } from "../../local/queue-server.ts";
import { createQueues } from "../../local/queues.ts";
import type { MessageKind } from "../../shared/messages/schema.ts";
import { QUEUE_DEFINITION } from "../../shared/queue/definition.ts";
import { createMessageQueue, type MessageQueue } from "../../shared/queue/message-queue.ts";
import { createVirtualClock } from "./virtual-clock.ts";
import { createVirtualQueue } from "./virtual-queue.ts";

type Handle = (event: SQSEvent) => Promise<SQSBatchResponse>;

/** Queues with their event source, as far as our code relies on them, in time that a test moves on. */
export interface QueueEngine {
  readonly queue: MessageQueue;
  /** Receives once and settles what `handle` says, as Lambda's event source does; false when nothing is visible. */
  deliver(kind: MessageKind, handle: Handle): Promise<boolean>;
  advance(ms: number): void;
  /** Bodies of the dead letters, with reasons where a worker gave some. */
  deadLetters(kind: MessageKind): Promise<readonly { body: string; reasons: readonly string[] }[]>;
  stop(): Promise<void>;
}

/** The model that benches run on, and the SQS API that the embedded stack runs on: one suite holds for both. */
export const QUEUE_ENGINES: readonly { name: string; start(): Promise<QueueEngine> }[] = [
  { name: "the virtual queue of the benches", start: async () => startVirtual() },
  { name: "the embedded SQS", start: startEmbedded },
];

function startVirtual(): QueueEngine {
  const clock = createVirtualClock();
  const queue = createVirtualQueue(clock, "harbour");
  return {
    queue,
    deliver: (kind, handle) => queue.deliver(kind, handle),
    advance: (ms) => clock.advance(ms),
    deadLetters: async (kind) => queue.deadLetters.filter((letter) => letter.kind === kind),
    stop: async () => {},
  };
}

async function startEmbedded(): Promise<QueueEngine> {
  // The engine reads the time of this process: dates stand still, timers and sockets do not.
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2030, 0, 1) });
  const server = await startQueueServer();
  const client = new SQSClient({
    endpoint: server.endpoint,
    region: "local",
    credentials: { accessKeyId: "local", secretAccessKey: "local" },
  });
  const urls = await createQueues(client, "suite");
  const receive = async (QueueUrl: string, batch: number) => {
    const { Messages: messages = [] } = await client.send(
      new ReceiveMessageCommand({
        QueueUrl,
        MaxNumberOfMessages: batch,
        WaitTimeSeconds: 0,
        MessageSystemAttributeNames: ["All"],
        MessageAttributeNames: ["All"],
      }),
    );
    return messages;
  };
  return {
    queue: createMessageQueue(client, urls, "harbour"),
    async deliver(kind, handle) {
      const QueueUrl = urls[kind].queue;
      const messages = await receive(QueueUrl, QUEUE_DEFINITION.batchSize);
      if (messages.length === 0) return false;
      const Records = messages.map((message) => toRecord(message, { queueArn: "", region: "local" }));
      const { batchItemFailures } = await handle({ Records });
      const failed = new Set(batchItemFailures.map((failure) => failure.itemIdentifier));
      const done = Records.filter(({ messageId }) => !failed.has(messageId));
      if (done.length > 0) {
        const Entries = done.map(({ receiptHandle }, index) => ({
          Id: String(index),
          ReceiptHandle: receiptHandle,
        }));
        await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
      }
      return true;
    },
    advance: (ms) => void vi.setSystemTime(Date.now() + ms),
    async deadLetters(kind) {
      const letters: { body: string; reasons: readonly string[] }[] = [];
      for (;;) {
        const messages = await receive(urls[kind].deadLetterQueue, 10);
        if (messages.length === 0) return letters;
        for (const { Body: body = "", MessageAttributes: attributes } of messages) {
          letters.push({ body, reasons: JSON.parse(attributes?.reasons?.StringValue ?? "[]") });
        }
      }
    },
    async stop() {
      vi.useRealTimers();
      client.destroy();
      await server.stop();
    },
  };
}
