import type { SQSRecord } from "aws-lambda";
import { describe, expect, it } from "vitest";
import { Fault } from "../domain/fault.ts";
import type { DeadLetter, MessageQueue } from "../queue/message-queue.ts";
import { createBatchHandler, type Delivery } from "./batch.ts";
import { silentLog, silentMeter } from "./telemetry.ts";

/** What happened, in order. */
interface Diary {
  readonly handled: { id: string; delivery: Delivery }[];
  readonly delays: [string, number][];
  readonly letters: DeadLetter[];
}

function record(id: string, group: string, options: { receives?: number; body?: string } = {}): SQSRecord {
  const message = {
    specversion: "1.0",
    id,
    source: "test",
    type: "dev.tallyman.verify",
    data: { project: "harbour", stage: group.toLowerCase() },
  };
  return {
    messageId: id,
    receiptHandle: `receipt-${id}`,
    body: options.body ?? JSON.stringify(message),
    attributes: {
      ApproximateReceiveCount: String(options.receives ?? 1),
      SentTimestamp: "0",
      SenderId: "s",
      ApproximateFirstReceiveTimestamp: "0",
      MessageGroupId: group,
    },
    messageAttributes: {},
    md5OfBody: "",
    eventSource: "aws:sqs",
    eventSourceARN: "",
    awsRegion: "",
  };
}

/** A handler whose messages fail as `failures` says, by id; `stubborn` queues take neither delays nor letters. */
function open(failures: Record<string, unknown> = {}, stubborn = false) {
  const diary: Diary = { handled: [], delays: [], letters: [] };
  const queue: MessageQueue = {
    send: async () => {},
    delay: async (_kind, handle, seconds) => {
      if (stubborn) throw new Fault("Transient", "no");
      diary.delays.push([handle, seconds]);
    },
    deadLetter: async (_kind, letter) => {
      if (stubborn) throw new Fault("Transient", "no");
      diary.letters.push(letter);
    },
  };
  const handle = createBatchHandler({
    kind: "verify",
    process: async (message, delivery) => {
      diary.handled.push({ id: message.id, delivery });
      const failure = failures[message.id];
      if (failure !== undefined) throw failure;
    },
    queue,
    log: silentLog,
    meter: silentMeter,
    backoff: { base: 1, cap: 60 },
    maxReceives: 20,
    random: () => 1,
  });
  const run = async (...records: SQSRecord[]) =>
    (await handle({ Records: records })).batchItemFailures.map((each) => each.itemIdentifier);
  return { diary, run };
}

const transient = new Fault("Transient", "503 from the cluster");

describe("a batch of a FIFO queue", () => {
  it("after a failure returns the rest of that group, while other groups go on", async () => {
    const { diary, run } = open({ A1: transient });
    const failed = await run(record("A1", "A"), record("B1", "B"), record("A2", "A"), record("B2", "B"));
    expect(failed.sort()).toEqual(["A1", "A2"]);
    expect(diary.handled.map((each) => each.id).sort()).toEqual(["A1", "B1", "B2"]);
  });

  it("runs a group's messages one after the other, in order", async () => {
    const { diary, run } = open();
    expect(await run(record("A1", "A"), record("A2", "A"), record("A3", "A"))).toEqual([]);
    expect(diary.handled.map((each) => each.id)).toEqual(["A1", "A2", "A3"]);
  });

  it("remembers nothing from one invocation to the next", async () => {
    const failures: Record<string, unknown> = { A1: transient };
    const { diary, run } = open(failures);
    await run(record("A1", "A"));
    delete failures.A1;
    expect(await run(record("A1", "A", { receives: 2 }))).toEqual([]);
    expect(diary.handled.map((each) => each.delivery.redelivered)).toEqual([false, true]);
  });

  it("knows a message that a redrive sent anew as one that was tried before", async () => {
    const { diary, run } = open();
    const text = (stringValue: string) => ({ dataType: "String", stringValue }) as const;
    const marked = (name: string) => ({
      ...record(name, name),
      messageAttributes: { [name]: text("x") } as unknown as SQSRecord["messageAttributes"],
    });
    await run(marked("redriven"), marked("reasons"), marked("traceparent"));
    expect(diary.handled.map((each) => each.delivery.redelivered)).toEqual([true, true, false]);
  });
});

describe("a failure", () => {
  it("that may pass comes back after a backoff that doubles up to a minute", async () => {
    const { diary, run } = open({ A1: transient });
    for (const receives of [1, 2, 3, 7, 12]) await run(record("A1", "A", { receives }));
    expect(diary.delays.map(([, seconds]) => seconds)).toEqual([1, 2, 4, 60, 60]);
  });

  it("leaves what stands behind it visible at once, since order alone keeps it back", async () => {
    const { diary, run } = open({ A1: transient });
    await run(record("A1", "A"), record("A2", "A"));
    expect(diary.delays).toEqual([
      ["receipt-A1", 1],
      ["receipt-A2", 0],
    ]);
  });

  it("of an invalid message goes to the dead-letter queue with its reasons, at the first receive", async () => {
    const { diary, run } = open();
    expect(await run(record("A1", "A", { body: "{}" }), record("A2", "A"))).toEqual([]);
    expect(diary.letters).toMatchObject([
      { messageId: "A1", group: "A", receiveCount: 1, body: "{}", fault: "Invalid" },
    ]);
    expect(diary.letters[0]?.reasons.length).toBeGreaterThan(2);
    expect(diary.handled.map((each) => each.id)).toEqual(["A2"]);
  });

  it("that no retry can cure goes to the dead-letter queue at once", async () => {
    const { diary, run } = open({ A1: new Fault("Permanent", "the schema refuses it") });
    expect(await run(record("A1", "A"))).toEqual([]);
    expect(diary.letters[0]?.reasons).toEqual(["the schema refuses it"]);
  });

  it("that lasts goes to the dead-letter queue with its last reason, and frees its group", async () => {
    const { diary, run } = open({ A1: transient });
    expect(await run(record("A1", "A", { receives: 20 }), record("A2", "A"))).toEqual([]);
    expect(diary.letters[0]?.reasons).toEqual(["503 from the cluster"]);
    expect(diary.handled.map((each) => each.id)).toEqual(["A1", "A2"]);
  });

  it("that nobody foresaw is tried again like one that may pass, and is never thrown", async () => {
    const { diary, run } = open({ A1: new TypeError("x is not a function") });
    expect(await run(record("A1", "A"), record("B1", "B"))).toEqual(["A1"]);
    expect(diary.delays).toEqual([["receipt-A1", 1]]);
    await run(record("A1", "A", { receives: 20 }));
    expect(diary.letters[0]?.reasons[0]).toContain("x is not a function");
  });

  it("is still reported when SQS takes neither the delay nor the dead letter", async () => {
    const { run } = open({ A1: transient, B1: transient }, true);
    const failed = await run(
      record("A1", "A"),
      record("B1", "B", { receives: 20 }),
      record("C1", "C", { body: "?" }),
    );
    expect(failed.sort()).toEqual(["A1", "B1", "C1"]);
  });
});
