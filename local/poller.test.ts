import { GetQueueAttributesCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { systemClock } from "../shared/runtime/clock.ts";
import { silentLog } from "../shared/runtime/telemetry.ts";
import { type Poller, readFailures, startPoller } from "./poller.ts";
import { type RunningQueueServer, startQueueServer } from "./queue-server.ts";
import { createQueues } from "./queues.ts";

const SOON = { timeout: 4_000, interval: 5 };
let server: RunningQueueServer;
let client: SQSClient;
let installations = 0;
const benches: Bench[] = [];

beforeAll(async () => {
  server = await startQueueServer();
  client = connect(server.endpoint);
});
afterAll(async () => {
  await Promise.all(benches.map((bench) => bench.stop()));
  client.destroy();
  await server.stop();
});

function connect(endpoint: string): SQSClient {
  const credentials = { accessKeyId: "local", secretAccessKey: "local" };
  return new SQSClient({ endpoint, region: "local", credentials });
}

type Handler = (event: SQSEvent, context: Context) => unknown;

/** A queue of its own with a poller on it. */
interface Bench {
  start(handler: Handler, more?: { concurrency?: number; timeoutMs?: number }): void;
  stop(): Promise<void>;
  send(group: string, body: string): Promise<void>;
  count(): Promise<{ waiting: number; inFlight: number }>;
  expectLeft(left: { waiting: number; inFlight: number }): Promise<void>;
}

async function createBench(sqs: SQSClient, name = `test${++installations}`): Promise<Bench> {
  const queueUrl = (await createQueues(sqs, name)).verify.queue;
  let poller: Poller | undefined;
  const count: Bench["count"] = async () => {
    const { Attributes: attributes } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }),
    );
    return {
      waiting: Number(attributes?.ApproximateNumberOfMessages),
      inFlight: Number(attributes?.ApproximateNumberOfMessagesNotVisible),
    };
  };
  const bench: Bench = {
    count,
    expectLeft: (left) => vi.waitFor(async () => expect(await count()).toEqual(left), SOON),
    stop: async () => poller?.stop(),
    start(handler, more = {}) {
      poller = startPoller({
        client: sqs,
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
        random: () => 0,
        log: silentLog,
        ...more,
      });
    },
    async send(group, body) {
      await sqs.send(
        new SendMessageCommand({
          QueueUrl: queueUrl,
          MessageBody: body,
          MessageGroupId: group,
          MessageDeduplicationId: `${group}-${body}`,
          MessageAttributes: { origin: { DataType: "String", StringValue: "test" } },
        }),
      );
    },
  };
  benches.push(bench);
  return bench;
}

// Side by side, because each has to wait for a long poll to end. No vi.fn: its calls are forgotten as the next test begins.
const it = test.concurrent;

describe("the event that a handler gets", () => {
  it("has every field that Lambda sends", async () => {
    const bench = await createBench(client);
    let seen: { event: SQSEvent; context: Context } | undefined;
    bench.start((event, context) => {
      seen = { event, context };
    });
    await bench.send("harbour/lighthouse/dev", "hello");
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
    const bench = await createBench(client);
    bench.start((event): SQSBatchResponse => {
      const failed = event.Records.filter((record) => record.body === "bad");
      return { batchItemFailures: failed.map((record) => ({ itemIdentifier: record.messageId })) };
    });
    await bench.send("a", "good");
    await bench.send("b", "bad");
    await bench.send("c", "good");
    await bench.expectLeft({ waiting: 0, inFlight: 1 });
  });

  it.for([
    ["throws", () => Promise.reject(new Error("on purpose"))],
    ["answers with a text", () => "done"],
    ["reports a message that it did not get", () => ({ batchItemFailures: [{ itemIdentifier: "other" }] })],
    ["reports without an id", () => ({ batchItemFailures: [{}] })],
  ] as [string, Handler][])("fails the whole batch when it %s", async ([, handler]) => {
    const bench = await createBench(client);
    let called = false;
    bench.start((event, context) => {
      called = true;
      return handler(event, context);
    });
    await bench.send("a", "one");
    await vi.waitFor(() => expect(called).toBe(true), SOON);
    await bench.stop();
    expect(await bench.count()).toEqual({ waiting: 0, inFlight: 1 });
  });

  it("comes too late after the function's time-out", async () => {
    const bench = await createBench(client);
    let called = false;
    const hang = (): Promise<never> => {
      called = true;
      return new Promise(() => undefined);
    };
    bench.start(hang, { timeoutMs: 20 });
    await bench.send("a", "one");
    await vi.waitFor(() => expect(called).toBe(true), SOON);
    await bench.stop();
    expect(await bench.count()).toEqual({ waiting: 0, inFlight: 1 });
  });
});

describe("delivery", () => {
  it("keeps the order within a group, one at a time, and works on groups side by side", async () => {
    const bench = await createBench(client);
    const order: Record<string, string[]> = {};
    const working = new Map<string, number>();
    let together = 0;
    bench.start(async (event) => {
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
    for (let n = 1; n <= 5; n++) for (const group of ["a", "b", "c"]) await bench.send(group, String(n));
    await vi.waitFor(() => expect(Object.values(order).flat()).toHaveLength(15), SOON);
    expect(order).toEqual({ a: [..."12345"], b: [..."12345"], c: [..."12345"] });
  });

  it("goes on with other groups while one is slow, up to its concurrency", async () => {
    const bench = await createBench(client);
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const done: string[] = [];
    bench.start(
      async (event) => {
        for (const { body } of event.Records) {
          if (body === "slow") await gate;
          done.push(body);
        }
      },
      { concurrency: 2 },
    );
    await bench.send("a", "slow");
    await vi.waitFor(async () => expect((await bench.count()).inFlight).toBe(1), SOON);
    await bench.send("b", "quick");
    await vi.waitFor(() => expect(done).toEqual(["quick"]), SOON);
    release();
    await vi.waitFor(() => expect(done).toEqual(["quick", "slow"]), SOON);
    await bench.expectLeft({ waiting: 0, inFlight: 0 });
  });

  it("stops only when the invocations under way are done, and takes nothing more", async () => {
    const bench = await createBench(client);
    let release = (): void => undefined;
    let started = 0;
    bench.start(async () => {
      started++;
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    });
    await bench.send("a", "one");
    await vi.waitFor(() => expect(started).toBe(1), SOON);
    let stopped = false;
    const stopping = bench.stop().then(() => {
      stopped = true;
    });
    await bench.send("b", "two");
    await vi.waitFor(async () => expect(await bench.count()).toEqual({ waiting: 1, inFlight: 1 }), SOON);
    expect(stopped).toBe(false);
    release();
    await stopping;
    expect(await bench.count()).toEqual({ waiting: 1, inFlight: 0 });
    expect(started).toBe(1);
  });

  it("comes back after the queue server was away", async () => {
    const first = await startQueueServer();
    const sqs = connect(first.endpoint);
    const lonely = await createBench(sqs, "lonely");
    let calls = 0;
    lonely.start(() => {
      calls++;
    });
    await lonely.send("a", "before");
    await vi.waitFor(() => expect(calls).toBe(1), SOON);
    await first.stop();
    const again = await startQueueServer({ port: Number(new URL(first.endpoint).port) });
    await createQueues(sqs, "lonely");
    await lonely.send("a", "after");
    await vi.waitFor(() => expect(calls).toBe(2), SOON);
    await lonely.stop();
    sqs.destroy();
    await again.stop();
  });
});

describe("a partial batch response", () => {
  test.each([
    [undefined, []],
    [null, []],
    [{}, []],
    [{ batchItemFailures: null }, []],
    [{ batchItemFailures: [] }, []],
    [{ batchItemFailures: [{ itemIdentifier: "a" }] }, ["a"]],
  ])("%j fails only what it names", (response, failed) => {
    expect(readFailures(response, ["a", "b"])).toEqual(new Set(failed));
  });

  test.each([
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
