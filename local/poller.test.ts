import { GetQueueAttributesCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../shared/runtime/clock.ts";
import { silentLog } from "../shared/runtime/telemetry.ts";
import { type Poller, readFailures, startPoller } from "./poller.ts";
import { type RunningQueueServer, startQueueServer } from "./queue-server.ts";
import { createQueues } from "./queues.ts";

const SOON = { timeout: 4_000, interval: 5 };
let server: RunningQueueServer;
let client: SQSClient;
let queueUrl: string;
let poller: Poller | undefined;
let installation = 0;

beforeAll(async () => {
  server = await startQueueServer();
  client = new SQSClient({
    endpoint: server.endpoint,
    region: "local",
    credentials: { accessKeyId: "local", secretAccessKey: "local" },
  });
});
afterAll(async () => {
  client.destroy();
  await server.stop();
});
beforeEach(async () => {
  queueUrl = (await createQueues(client, `test${++installation}`)).verify.queue;
});
afterEach(async () => {
  await poller?.stop();
  poller = undefined;
});

type Handler = (event: SQSEvent, context: Context) => unknown;

function start(handler: Handler, more: { concurrency?: number; timeoutMs?: number } = {}): void {
  poller = startPoller({
    client,
    queueUrl,
    queueArn: "arn:aws:sqs:local:000000000000:test.fifo",
    region: "local",
    functionName: "stub",
    handler,
    timeoutMs: 30_000,
    batchSize: 10,
    concurrency: 4,
    waitSeconds: 1,
    clock: systemClock,
    random: () => 0.5,
    log: silentLog,
    ...more,
  });
}

async function send(group: string, body: string): Promise<void> {
  await client.send(
    new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: body,
      MessageGroupId: group,
      MessageDeduplicationId: `${group}-${body}`,
      MessageAttributes: { origin: { DataType: "String", StringValue: "test" } },
    }),
  );
}

async function count(): Promise<{ waiting: number; inFlight: number }> {
  const { Attributes: attributes } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }),
  );
  return {
    waiting: Number(attributes?.ApproximateNumberOfMessages),
    inFlight: Number(attributes?.ApproximateNumberOfMessagesNotVisible),
  };
}

const expectLeft = (left: { waiting: number; inFlight: number }): Promise<void> =>
  vi.waitFor(async () => expect(await count()).toEqual(left), SOON);

describe("the event that a handler gets", () => {
  it("has every field that Lambda sends", async () => {
    let seen: { event: SQSEvent; context: Context } | undefined;
    start((event, context) => {
      seen = { event, context };
    });
    await send("harbour/lighthouse/dev", "hello");
    await vi.waitFor(() => expect(seen).toBeDefined(), SOON);
    expect(seen?.event.Records).toEqual([
      {
        messageId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        receiptHandle: expect.any(String),
        body: "hello",
        attributes: {
          ApproximateReceiveCount: "1",
          SentTimestamp: expect.stringMatching(/^\d{13}$/),
          SenderId: expect.any(String),
          ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
          MessageGroupId: "harbour/lighthouse/dev",
          MessageDeduplicationId: "harbour/lighthouse/dev-hello",
          SequenceNumber: expect.stringMatching(/^\d+$/),
        },
        messageAttributes: {
          origin: { dataType: "String", stringValue: "test", stringListValues: [], binaryListValues: [] },
        },
        md5OfBody: "5d41402abc4b2a76b9719d911017c592",
        eventSource: "aws:sqs",
        eventSourceARN: "arn:aws:sqs:local:000000000000:test.fifo",
        awsRegion: "local",
      },
    ]);
    expect(seen?.context.functionName).toBe("stub");
    expect(seen?.context.getRemainingTimeInMillis()).toBeGreaterThan(25_000);
  });
});

describe("the answer of a handler", () => {
  it("deletes what it does not report, and leaves what it does", async () => {
    start((event): SQSBatchResponse => {
      const failed = event.Records.filter((record) => record.body === "bad");
      return { batchItemFailures: failed.map((record) => ({ itemIdentifier: record.messageId })) };
    });
    await send("a", "good");
    await send("b", "bad");
    await send("c", "good");
    await expectLeft({ waiting: 0, inFlight: 1 });
  });

  it.each([
    ["throws", () => Promise.reject(new Error("on purpose"))],
    ["answers with a text", () => "done"],
    ["reports a message that it did not get", () => ({ batchItemFailures: [{ itemIdentifier: "other" }] })],
    ["reports without an id", () => ({ batchItemFailures: [{}] })],
  ] satisfies [string, Handler][])("fails the whole batch when it %s", async (_, handler) => {
    const answer = vi.fn(handler);
    start(answer);
    await send("a", "one");
    await vi.waitFor(() => expect(answer).toHaveBeenCalled(), SOON);
    await poller?.stop();
    expect(await count()).toEqual({ waiting: 0, inFlight: 1 });
  });

  it("comes too late after the function's time-out", async () => {
    const hang = vi.fn(() => new Promise(() => undefined));
    start(hang, { timeoutMs: 20 });
    await send("a", "one");
    await vi.waitFor(() => expect(hang).toHaveBeenCalled(), SOON);
    await poller?.stop();
    expect(await count()).toEqual({ waiting: 0, inFlight: 1 });
  });
});

describe("delivery", () => {
  it("keeps the order within a group, one at a time, and works on groups side by side", async () => {
    const order: Record<string, string[]> = {};
    const working = new Map<string, number>();
    let together = 0;
    start(async (event) => {
      for (const { attributes, body } of event.Records) {
        const group = attributes.MessageGroupId ?? "";
        working.set(group, (working.get(group) ?? 0) + 1);
        expect(working.get(group)).toBe(1);
        together = Math.max(together, [...working.values()].filter((n) => n > 0).length);
        await new Promise((resolve) => setImmediate(resolve));
        order[group] = [...(order[group] ?? []), body];
        working.set(group, 0);
      }
    });
    for (let n = 1; n <= 5; n++) for (const group of ["a", "b", "c"]) await send(group, String(n));
    await vi.waitFor(() => expect(Object.values(order).flat()).toHaveLength(15), SOON);
    expect(order).toEqual({ a: [..."12345"], b: [..."12345"], c: [..."12345"] });
  });

  it("goes on with other groups while one is slow, up to its concurrency", async () => {
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const done: string[] = [];
    start(
      async (event) => {
        for (const { body } of event.Records) {
          if (body === "slow") await gate;
          done.push(body);
        }
      },
      { concurrency: 2 },
    );
    await send("a", "slow");
    await vi.waitFor(async () => expect((await count()).inFlight).toBe(1), SOON);
    await send("b", "quick");
    await vi.waitFor(() => expect(done).toEqual(["quick"]), SOON);
    release();
    await vi.waitFor(() => expect(done).toEqual(["quick", "slow"]), SOON);
    await expectLeft({ waiting: 0, inFlight: 0 });
  });

  it("stops only when the invocations under way are done, and takes nothing more", async () => {
    let release = (): void => undefined;
    const started = vi.fn();
    start(async () => {
      started();
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    });
    await send("a", "one");
    await vi.waitFor(() => expect(started).toHaveBeenCalled(), SOON);
    const stopped = vi.fn();
    const stopping = poller?.stop().then(stopped);
    await send("b", "two");
    await vi.waitFor(async () => expect(await count()).toEqual({ waiting: 1, inFlight: 1 }), SOON);
    expect(stopped).not.toHaveBeenCalled();
    release();
    await stopping;
    expect(await count()).toEqual({ waiting: 1, inFlight: 0 });
    expect(started).toHaveBeenCalledTimes(1);
  });

  it("comes back after the queue server was away", async () => {
    const own = await startQueueServer();
    const port = Number(new URL(own.endpoint).port);
    const ownClient = new SQSClient({
      endpoint: own.endpoint,
      region: "local",
      credentials: { accessKeyId: "local", secretAccessKey: "local" },
      maxAttempts: 1,
    });
    const url = (await createQueues(ownClient, "test")).verify.queue;
    const handler = vi.fn();
    const lonely = startPoller({
      client: ownClient,
      queueUrl: url,
      queueArn: "",
      region: "local",
      functionName: "stub",
      handler,
      timeoutMs: 1_000,
      batchSize: 10,
      concurrency: 1,
      waitSeconds: 1,
      clock: systemClock,
      random: () => 0,
      log: silentLog,
    });
    await own.stop();
    const again = await startQueueServer({ port });
    await createQueues(ownClient, "test");
    await ownClient.send(
      new SendMessageCommand({
        QueueUrl: url,
        MessageBody: "hello",
        MessageGroupId: "a",
        MessageDeduplicationId: "a",
      }),
    );
    await vi.waitFor(() => expect(handler).toHaveBeenCalled(), SOON);
    await lonely.stop();
    ownClient.destroy();
    await again.stop();
  });
});

describe("a partial batch response", () => {
  it.each([
    [undefined, []],
    [null, []],
    [{}, []],
    [{ batchItemFailures: null }, []],
    [{ batchItemFailures: [] }, []],
    [{ batchItemFailures: [{ itemIdentifier: "a" }] }, ["a"]],
  ])("%j fails only what it names", (response, failed) => {
    expect(readFailures(response, ["a", "b"])).toEqual(new Set(failed));
  });

  it.each([
    [[]],
    ["ok"],
    [{ ok: true }],
    [{ batchItemFailures: "a" }],
    [{ batchItemFailures: [null] }],
    [{ batchItemFailures: [{ itemIdentifier: "" }] }],
  ])("%j fails everything", (response) => {
    expect(readFailures(response, ["a", "b"])).toBe("all");
  });
});
