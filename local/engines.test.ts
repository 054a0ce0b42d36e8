import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  DescribeTableCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
} from "@aws-sdk/client-dynamodb";
import {
  ChangeMessageVisibilityCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import { afterEach, describe, expect, it } from "vitest";
import { LEDGER_TABLE } from "../shared/ledger/table.ts";
import { QUEUE_DEFINITION } from "../shared/queue/definition.ts";
import { systemClock } from "../shared/runtime/clock.ts";
import { startDynamoDb } from "./dynamodb.ts";
import { createLedgerTable } from "./ledger-table.ts";
import { readListeningSockets } from "./loopback.ts";
import { startQueueServer } from "./queue-server.ts";
import { createQueues } from "./queues.ts";
import { startSandboxCluster } from "./sandbox/sandbox-cluster.ts";

const credentials = { accessKeyId: "local", secretAccessKey: "local" };
const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "tallyman-engines-"));
  cleanups.push(() => rm(folder, { recursive: true }));
  return folder;
}

function connect<Client extends { destroy(): void }>(client: Client): Client {
  cleanups.push(() => client.destroy());
  return client;
}
const dynamoDb = (endpoint: string) =>
  connect(new DynamoDBClient({ endpoint, region: "local", credentials, maxAttempts: 1 }));
const sqs = (endpoint: string) =>
  connect(new SQSClient({ endpoint, region: "local", credentials, maxAttempts: 1 }));

describe("the embedded DynamoDB", () => {
  it("gets the ledger's table as defined, and creating it again changes nothing", async () => {
    const server = await startDynamoDb();
    cleanups.push(() => server.stop());
    const client = dynamoDb(server.endpoint);
    await createLedgerTable(client, "ledger");
    await client.send(
      new PutItemCommand({ TableName: "ledger", Item: { pk: { S: "a/b/c" }, sk: { S: "STAGE" } } }),
    );
    await createLedgerTable(client, "ledger");

    const { Table: table } = await client.send(new DescribeTableCommand({ TableName: "ledger" }));
    expect(table?.BillingModeSummary?.BillingMode).toBe("PAY_PER_REQUEST");
    const key = { pk: { S: "a/b/c" }, sk: { S: "STAGE" } };
    const found = await client.send(new GetItemCommand({ TableName: "ledger", Key: key }));
    expect(found.Item).toEqual(key);
    for (const index of Object.values(LEDGER_TABLE.indexes)) {
      const built = table?.GlobalSecondaryIndexes?.find((each) => each.IndexName === index.name);
      expect(built?.KeySchema).toEqual([
        { AttributeName: index.partitionKey, KeyType: "HASH" },
        { AttributeName: index.sortKey, KeyType: "RANGE" },
      ]);
      expect(built?.Projection?.ProjectionType).toBe("INCLUDE");
      expect(built?.Projection?.NonKeyAttributes).toContain("ph");
    }
  });

  it("keeps its items across a restart when it has a folder", async () => {
    const path = join(await makeFolder(), "ledger");
    const item = { pk: { S: "a/b/c" }, sk: { S: "STAGE" } };
    const first = await startDynamoDb({ path });
    const before = dynamoDb(first.endpoint);
    await createLedgerTable(before, "ledger");
    await before.send(new PutItemCommand({ TableName: "ledger", Item: item }));
    await first.stop();

    const second = await startDynamoDb({ path });
    cleanups.push(() => second.stop());
    const after = dynamoDb(second.endpoint);
    await createLedgerTable(after, "ledger");
    const found = await after.send(new GetItemCommand({ TableName: "ledger", Key: item }));
    expect(found.Item).toEqual(item);
  });
});

describe("the embedded SQS", () => {
  it("has each kind's queues as defined, and creating them again keeps their messages", async () => {
    const server = await startQueueServer();
    cleanups.push(() => server.stop());
    const client = sqs(server.endpoint);
    const urls = await createQueues(client, "tallyman");
    await send(client, urls.abort.queue, "harbour", "1");
    expect(await createQueues(client, "tallyman")).toEqual(urls);

    const { Attributes: attributes } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: urls.abort.queue, AttributeNames: ["All"] }),
    );
    expect(attributes).toMatchObject({
      FifoQueue: "true",
      ContentBasedDeduplication: "false",
      VisibilityTimeout: String(QUEUE_DEFINITION.visibilityTimeout),
      ApproximateNumberOfMessages: "1",
    });
    expect(JSON.parse(attributes?.RedrivePolicy ?? "")).toEqual({
      deadLetterTargetArn: "arn:aws:sqs:local:000000000000:tallyman-abort-dlq.fifo",
      maxReceiveCount: QUEUE_DEFINITION.redriveAfter,
    });
    expect(new URL(urls.abort.queue).host).toBe(new URL(server.endpoint).host);
  });

  it("keeps its messages across a restart when it has a folder, those in flight and given back too", async () => {
    const path = await makeFolder();
    const first = await startQueueServer({ path });
    const before = sqs(first.endpoint);
    const { verify } = await createQueues(before, "tallyman");
    for (const group of ["waits", "flies", "returns"]) await send(before, verify.queue, group, group);
    const received = await before.send(
      new ReceiveMessageCommand({ QueueUrl: verify.queue, MaxNumberOfMessages: 10, VisibilityTimeout: 1 }),
    );
    const returned = received.Messages?.find((message) => message.Body === "returns");
    await before.send(
      new ChangeMessageVisibilityCommand({
        QueueUrl: verify.queue,
        ReceiptHandle: returned?.ReceiptHandle,
        VisibilityTimeout: 0,
      }),
    );
    await first.stop();

    const second = await startQueueServer({ path });
    cleanups.push(() => second.stop());
    const after = sqs(second.endpoint);
    const again = await createQueues(after, "tallyman");
    expect(new URL(again.verify.queue).host).toBe(new URL(second.endpoint).host);
    const bodies = new Set<string>();
    while (bodies.size < 3) {
      const { Messages: messages = [] } = await after.send(
        new ReceiveMessageCommand({
          QueueUrl: again.verify.queue,
          MaxNumberOfMessages: 10,
          WaitTimeSeconds: 3,
        }),
      );
      for (const { Body: body = "" } of messages) bodies.add(body);
    }
    expect(bodies).toEqual(new Set(["waits", "flies", "returns"]));
  });

  it("hands out no message to a receiver that has gone away", async () => {
    const server = await startQueueServer();
    cleanups.push(() => server.stop());
    const client = sqs(server.endpoint);
    const { verify } = await createQueues(client, "tallyman");
    const gone = new AbortController();
    const poll = client.send(new ReceiveMessageCommand({ QueueUrl: verify.queue, WaitTimeSeconds: 20 }), {
      abortSignal: gone.signal,
    });
    // Nothing tells from outside when the server has the poll, and when it has seen the connection end.
    setTimeout(() => gone.abort(), 150);
    await expect(poll).rejects.toThrow("aborted");
    await systemClock.sleep(50);
    await send(client, verify.queue, "harbour", "hello");
    const { Messages: messages } = await client.send(
      new ReceiveMessageCommand({ QueueUrl: verify.queue, WaitTimeSeconds: 3 }),
    );
    expect(messages?.map((message) => message.Body)).toEqual(["hello"]);
  });
});

describe("what the stack listens on", () => {
  it.skipIf(readListeningSockets() === undefined)("is loopback only", async () => {
    const servers = [await startDynamoDb(), await startQueueServer(), await startSandboxCluster()];
    for (const server of servers) cleanups.push(() => server.stop());
    const ports = servers.map((server) =>
      Number(new URL("endpoint" in server ? server.endpoint : server.url).port),
    );
    const sockets = readListeningSockets() ?? [];
    expect(sockets.filter((socket) => !socket.isLoopback)).toEqual([]);
    for (const port of ports) expect(sockets.map((socket) => socket.port)).toContain(port);
  });

  it.skipIf(readListeningSockets() === undefined)("would be noticed if it were more", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, resolve));
    cleanups.push(() => new Promise((resolve) => server.close(resolve)));
    expect(readListeningSockets()?.some((socket) => !socket.isLoopback)).toBe(true);
  });
});

async function send(client: SQSClient, queueUrl: string, group: string, body: string): Promise<void> {
  await client.send(
    new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: body,
      MessageGroupId: group,
      MessageDeduplicationId: `${group}-${body}`,
    }),
  );
}
