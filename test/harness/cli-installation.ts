import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { runCli } from "../../cli/program.ts";
import { startDynamoDb } from "../../local/dynamodb.ts";
import { buildEnvironment } from "../../local/environment.ts";
import { createLedgerTable } from "../../local/ledger-table.ts";
import { startQueueServer } from "../../local/queue-server.ts";
import { createQueues } from "../../local/queues.ts";
import { createLedger, type Ledger } from "../../shared/ledger/ledger.ts";
import { decodeMessage } from "../../shared/messages/codec.ts";
import type { Message, MessageKind } from "../../shared/messages/schema.ts";
import { createDeadLetterQueue } from "../../shared/queue/dead-letter-queue.ts";
import { createMessageQueue, type MessageQueue, type QueueUrls } from "../../shared/queue/message-queue.ts";
import { type ClusterSettings, readConfiguration } from "../../shared/runtime/configuration.ts";
import { createVirtualClock, type VirtualClock } from "../engines/virtual-clock.ts";

/** What a command wrote, and its exit code. */
interface Run {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

interface TestInstallation {
  readonly ledger: Ledger;
  readonly queue: MessageQueue;
  readonly dynamoDb: DynamoDBClient;
  readonly sqs: SQSClient;
  readonly urls: Readonly<Record<MessageKind, QueueUrls>>;
  readonly clock: VirtualClock;
  /** Runs a command line, written as a person types it (quotes are not understood); `during` while it waits. */
  run(line: string | readonly string[], during?: () => Promise<void>, color?: boolean): Promise<Run>;
  /** The oldest message of a queue, through the contract. */
  receive(kind: MessageKind): Promise<Message | undefined>;
  /** Likewise, and out of the queue. */
  take(kind: MessageKind): Promise<Message | undefined>;
  stop(): Promise<void>;
}

export interface TestInstallationOptions {
  /** The first is the default. Nothing listens where the default ones are said to be. */
  readonly clusters?: readonly ClusterSettings[];
  /** Where the clock stands, milliseconds since the epoch. */
  readonly now?: number;
}

const NOWHERE = "http://127.0.0.1:1";
const CLUSTERS: readonly ClusterSettings[] = [
  { name: "harbour", server: NOWHERE },
  { name: "outpost", server: NOWHERE },
];

export const REQUEST_ID = "11111111-2222-4333-8444-555555555555";

/** A real ledger and real queues, and nobody who works on them: the test does. */
export async function startTestInstallation({
  clusters = CLUSTERS,
  now,
}: TestInstallationOptions = {}): Promise<TestInstallation> {
  const [database, queues] = await Promise.all([startDynamoDb(), startQueueServer({ port: 0 })]);
  const aws = { region: "local", credentials: { accessKeyId: "local", secretAccessKey: "local" } };
  const dynamoDb = new DynamoDBClient({ ...aws, endpoint: database.endpoint });
  const sqs = new SQSClient({ ...aws, endpoint: queues.endpoint });
  await createLedgerTable(dynamoDb, "tallyman-test");
  const urls = await createQueues(sqs, "tallyman-test");
  const ledger = createLedger(dynamoDb, "tallyman-test");
  const queue = createMessageQueue(sqs, urls, "harbour");
  const clock = createVirtualClock(now);
  const configuration = readConfiguration(
    buildEnvironment({
      table: "tallyman-test",
      dynamoDbEndpoint: database.endpoint,
      sqsEndpoint: queues.endpoint,
      queues: urls,
      clusters,
      logLevel: "error",
    }),
  );

  async function take(kind: MessageKind, settle: boolean): Promise<Message | undefined> {
    const QueueUrl = urls[kind].queue;
    const { Messages: [message] = [] } = await sqs.send(
      new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 0 }),
    );
    if (message?.Body === undefined) return undefined;
    if (settle) await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle }));
    return decodeMessage(message.Body, kind);
  }

  return {
    ledger,
    queue,
    dynamoDb,
    sqs,
    urls,
    clock,
    async run(line, during, color = false) {
      const out: string[] = [];
      const err: string[] = [];
      let over = false;
      const running = runCli(typeof line === "string" ? line.split(" ") : line, {
        terminal: {
          out: (text) => void out.push(text),
          err: (text) => void err.push(text),
          rawErr: (text) => void err.push(text),
          columns: 80,
          color,
          live: false,
        },
        clock,
        env: {},
        user: "ada@quay",
        invokedAs: "tallyman",
        newId: () => REQUEST_ID,
        connect: () => ({
          ledger,
          queue,
          deadLetters: createDeadLetterQueue(sqs, urls, { waitSeconds: 0, defaultCluster: "harbour" }),
          clusters: clusters.map(({ name }) => name),
          parts: { dynamoDb, sqs, configuration },
          close() {},
        }),
      }).finally(() => {
        over = true;
      });
      // The clock goes on only when the command sleeps, and after the test has done its part.
      let acted = during === undefined;
      while (!over) {
        await new Promise(setImmediate);
        if (clock.sleepers().length === 0) continue;
        if (!acted) await during?.();
        acted = true;
        clock.wakeNext();
      }
      return { code: await running, out: out.join("\n"), err: err.join("\n") };
    },
    receive: (kind) => take(kind, false),
    take: (kind) => take(kind, true),
    async stop() {
      dynamoDb.destroy();
      sqs.destroy();
      await Promise.all([database.stop(), queues.stop()]);
    },
  };
}
