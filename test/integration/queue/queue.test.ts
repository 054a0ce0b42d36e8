import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildMessage } from "../../../shared/messages/codec.ts";
import type { Message, MessageKind } from "../../../shared/messages/schema.ts";
import { QUEUE_DEFINITION } from "../../../shared/queue/definition.ts";
import { QUEUE_ENGINES, type QueueEngine } from "../../engines/queue-engines.ts";

const MINUTE = 60_000;
const VISIBILITY = QUEUE_DEFINITION.visibilityTimeout * 1000;

/** Each Stage's producer counts for itself. */
const make = (id: string, stage = "dev", kind: MessageKind = "verify", source = `test/${stage}`): Message =>
  buildMessage(kind, { id, source, time: new Date(0) }, { project: "harbour-demo", stage });

/** `dev/1`: what a record is about. */
const nameOf = (body: string): string => {
  const { id, data } = JSON.parse(body) as Message;
  return `${data.stage}/${id}`;
};

describe.each(QUEUE_ENGINES)("$name", ({ start }) => {
  let engine: QueueEngine;
  beforeEach(async () => {
    engine = await start();
  });
  afterEach(() => engine.stop());

  /** One receive; `fails` says which come back. Gives what came, with its receive count. */
  async function receive(
    fails: (name: string) => boolean = () => false,
    kind: MessageKind = "verify",
  ): Promise<string[]> {
    const came: string[] = [];
    await engine.deliver(kind, async ({ Records }) => {
      came.push(...Records.map(({ body }) => nameOf(body)));
      const failed = Records.filter(({ body }) => fails(nameOf(body)));
      return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
    });
    return came;
  }

  /** Receives until nothing is visible. */
  async function receiveAll(kind: MessageKind = "verify"): Promise<string[]> {
    const came: string[] = [];
    for (let some = await receive(undefined, kind); some.length > 0; some = await receive(undefined, kind)) {
      came.push(...some);
    }
    return came;
  }

  const all = () => true;
  const settled: SQSBatchResponse = { batchItemFailures: [] };

  it("hands out a Stage's messages in the order in which they were sent", async () => {
    await engine.queue.send(
      "verify",
      ["1", "2", "3", "4"].map((id) => make(id)),
    );
    expect(await receiveAll()).toEqual(["dev/1", "dev/2", "dev/3", "dev/4"]);
  });

  it("keeps back what stands behind a message in flight, and nothing of other Stages", async () => {
    await engine.queue.send("verify", [make("1"), make("1", "uat")]);
    const inside: string[] = [];
    await engine.deliver("verify", async () => {
      await engine.queue.send("verify", [make("2"), make("1", "prod")]);
      inside.push(...(await receiveAll()));
      return settled;
    });
    expect(inside).toEqual(["prod/1"]);
    expect(await receiveAll()).toEqual(["dev/2"]);
  });

  it("keeps back what stands behind a message that failed, until it has come again", async () => {
    await engine.queue.send("verify", [make("1"), make("1", "uat")]);
    await receive((name) => name === "dev/1");
    await engine.queue.send("verify", [make("2"), make("2", "uat")]);
    expect(await receiveAll()).toEqual(["uat/2"]);
    engine.advance(VISIBILITY);
    expect(await receiveAll()).toEqual(["dev/1", "dev/2"]);
  });

  it("takes of a batch what did not fail, and hands out the rest again", async () => {
    const stages = ["a", "b", "c", "d"];
    await engine.queue.send(
      "verify",
      stages.map((stage) => make("1", stage)),
    );
    const came = await receive((name) => name === "b/1" || name === "d/1");
    expect(came.sort()).toEqual(stages.map((stage) => `${stage}/1`));
    engine.advance(VISIBILITY);
    expect((await receiveAll()).sort()).toEqual(["b/1", "d/1"]);
  });

  it("hands out at most a batch at once", async () => {
    const many = Array.from({ length: 25 }, (_, index) => make("1", `stage-${index}`));
    await engine.queue.send("verify", many);
    expect(await receive()).toHaveLength(QUEUE_DEFINITION.batchSize);
    expect(await receiveAll()).toHaveLength(15);
  });

  it("hands out again, after the visibility time-out and not before, what nobody settled, and counts", async () => {
    await engine.queue.send("verify", [make("1")]);
    const counts: string[] = [];
    const die = async ({ Records }: SQSEvent): Promise<SQSBatchResponse> => {
      counts.push(...Records.map(({ attributes }) => attributes.ApproximateReceiveCount));
      throw new Error("the worker died");
    };
    for (let round = 0; round < 3; round++) {
      await expect(engine.deliver("verify", die)).rejects.toThrow("died");
      engine.advance(VISIBILITY - 1);
      expect(await receive(all)).toEqual([]);
      engine.advance(1);
    }
    expect(counts).toEqual(["1", "2", "3"]);
  });

  it("hands out a message when it was delayed to, sooner or later than its time-out", async () => {
    await engine.queue.send("verify", [make("1"), make("2")]);
    const failAfter = (seconds: number) =>
      engine.deliver("verify", async ({ Records }) => {
        for (const record of Records) await engine.queue.delay("verify", record.receiptHandle, seconds);
        return { batchItemFailures: Records.map(({ messageId }) => ({ itemIdentifier: messageId })) };
      });
    await failAfter(1);
    engine.advance(999);
    expect(await receive()).toEqual([]);
    engine.advance(1);
    await failAfter(600);
    engine.advance(VISIBILITY);
    expect(await receive()).toEqual([]);
    engine.advance(600_000);
    expect(await receiveAll()).toEqual(["dev/1", "dev/2"]);
  });

  it("hands out at once what is given back, before what stands behind it", async () => {
    await engine.queue.send("verify", [make("1"), make("2")]);
    await engine.deliver("verify", async ({ Records }) => {
      for (const { receiptHandle } of Records) await engine.queue.delay("verify", receiptHandle, 0);
      return { batchItemFailures: Records.map(({ messageId }) => ({ itemIdentifier: messageId })) };
    });
    expect(await receiveAll()).toEqual(["dev/1", "dev/2"]);
  });

  it("lets a worker that was too slow neither delete nor delay what another one has now", async () => {
    await engine.queue.send("verify", [make("1")]);
    let second: string[] = [];
    await engine.deliver("verify", async ({ Records: [record] }) => {
      engine.advance(VISIBILITY);
      second = await receive(all);
      await expect(engine.queue.delay("verify", record?.receiptHandle ?? "", 0)).rejects.toThrow(
        "could not delay",
      );
      expect(await receive()).toEqual([]);
      return settled;
    });
    expect(second).toEqual(["dev/1"]);
    engine.advance(VISIBILITY);
    expect(await receive()).toEqual(["dev/1"]);
  });

  it("drops the same request within five minutes, also when it was worked on already, and not after", async () => {
    await engine.queue.send("verify", [make("1")]);
    await engine.queue.send("verify", [make("1")]);
    expect(await receiveAll()).toEqual(["dev/1"]);
    engine.advance(5 * MINUTE - 1);
    await engine.queue.send("verify", [make("1")]);
    expect(await receiveAll()).toEqual([]);
    engine.advance(2);
    await engine.queue.send("verify", [make("1")]);
    expect(await receiveAll()).toEqual(["dev/1"]);
  });

  it("takes a second, legitimate request: another id, another source, another kind", async () => {
    await engine.queue.send("verify", [make("1"), make("2"), make("1", "dev", "verify", "other")]);
    await engine.queue.send("abort", [make("1", "dev", "abort")]);
    expect(await receiveAll()).toEqual(["dev/1", "dev/2", "dev/1"]);
    expect(await receiveAll("abort")).toEqual(["dev/1"]);
  });

  it("lets no kind wait for another", async () => {
    await engine.queue.send("verify", [make("1")]);
    await receive(all);
    await engine.queue.send("abort", [make("2", "dev", "abort")]);
    expect(await receive(undefined, "abort")).toEqual(["dev/2"]);
  });

  it("keeps a worker's dead letter with its reasons, and frees its group", async () => {
    await engine.queue.send("verify", [make("1"), make("2")]);
    await engine.deliver("verify", async ({ Records: [record] }) => {
      if (record === undefined) throw new Error("nothing came");
      const { body, messageId, attributes } = record;
      await engine.queue.deadLetter("verify", {
        body,
        group: attributes.MessageGroupId ?? "",
        messageId,
        receiveCount: 1,
        fault: "Permanent",
        reasons: ["the template is gone"],
      });
      return settled;
    });
    expect(await engine.deadLetters("verify")).toMatchObject([
      { body: JSON.stringify(make("1")), reasons: ["the template is gone"] },
    ]);
  });

  it("moves what no worker survives after its limit of receives, without reasons, and frees its group", async () => {
    await engine.queue.send("verify", [make("1")]);
    for (let count = 0; count < QUEUE_DEFINITION.redriveAfter; count++) {
      expect(await receive(all)).toEqual(["dev/1"]);
      engine.advance(VISIBILITY);
    }
    expect(await engine.deadLetters("verify")).toEqual([]);
    await engine.queue.send("verify", [make("2")]);
    expect(await receiveAll()).toEqual(["dev/2"]);
    expect(await engine.deadLetters("verify")).toMatchObject([
      { body: JSON.stringify(make("1")), reasons: [] },
    ]);
  });
});
