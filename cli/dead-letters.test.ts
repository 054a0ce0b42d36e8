import { ReceiveMessageCommand, SendMessageCommand, SetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { buildMessage } from "../shared/messages/codec.ts";
import type { Message } from "../shared/messages/schema.ts";
import { startTestInstallation } from "../test/harness/cli-installation.ts";
import { measure } from "./render/text.ts";

let installation: Awaited<ReturnType<typeof startTestInstallation>>;
const run = (line: string) => installation.run(line);

beforeEach(async () => {
  installation = await startTestInstallation();
});
afterEach(() => installation.stop());

const makeMessage = (id: string, stage: string, project = "harbour-demo"): Message =>
  buildMessage("verify", { id, source: "test", time: new Date(0) }, { project, stage });

let letters = 0;
/** As a worker gives a message up. */
async function giveUp(
  message: Message | string,
  fault: "Invalid" | "Transient" = "Transient",
): Promise<string> {
  const messageId = `0000000${++letters}-0000-4000-8000-000000000000`.slice(-36);
  await installation.queue.deadLetter("verify", {
    body: typeof message === "string" ? message : JSON.stringify(message),
    group: "harbour/harbour-demo/dev",
    messageId,
    receiveCount: 20,
    fault,
    reasons: ["cluster harbour answered 503"],
  });
  return messageId;
}

/** As SQS gives messages up, whose worker never lives to answer: with all that stand behind in the group. */
async function loseWorker(...messages: readonly Message[]): Promise<void> {
  const { sqs, urls, queue } = installation;
  const { queue: QueueUrl } = urls.verify;
  await queue.send("verify", messages);
  const RedrivePolicy = JSON.stringify({
    deadLetterTargetArn: "arn:aws:sqs:local:000000000000:tallyman-test-verify-dlq.fifo",
    maxReceiveCount: 1,
  });
  await sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { RedrivePolicy } }));
  for (let receive = 0; receive < 2 * messages.length; receive++) {
    await sqs.send(new ReceiveMessageCommand({ QueueUrl, VisibilityTimeout: 0 }));
  }
}

describe("dlq list", () => {
  it("shows both kinds of dead letter, with what is known of each, and takes nothing out", async () => {
    const id = await giveUp(makeMessage("1", "dev"));
    await giveUp("{oops", "Invalid");
    await loseWorker(makeMessage("3", "uat"));
    const { code, out, err } = await run("dlq list");
    expect(code).toBe(0);
    for (const line of out.split("\n")) expect(measure(line)).toBeLessThanOrEqual(80);
    expect(out).toMatch(/verify +0000000. +harbour-demo +dev +20 +cluster harbour/);
    expect(out).toMatch(/verify .* \? +20 +invalid: cluster/);
    expect(out).toMatch(/verify .* uat +no worker said/);
    expect(err).toContain("dlq redrive --help");
    const again = JSON.parse((await run("dlq list -o json")).out);
    expect(again).toMatchObject({
      kind: "DeadLetterList",
      items: expect.arrayContaining([
        expect.objectContaining({
          kind: "DeadLetter",
          id,
          queue: "verify",
          project: "harbour-demo",
          stage: "dev",
          fault: "Transient",
          receives: 20,
          reasons: ["cluster harbour answered 503"],
        }),
        expect.objectContaining({ fault: "Invalid", body: "{oops" }),
        expect.objectContaining({ stage: "uat" }),
      ]),
    });
    expect(again.items).toHaveLength(3);
    expect(parse((await run("dlq list -o yaml")).out)).toEqual(again);
  });

  it("says how many it does not show", async () => {
    for (const id of ["1", "2", "3"]) await giveUp(makeMessage(id, "dev"));
    const limited = await run("dlq list --limit 2");
    expect(limited.out.split("\n")).toHaveLength(3);
    expect(limited.err).toContain("About 1 more");
    await loseWorker(makeMessage("4", "uat"), makeMessage("5", "uat"));
    expect((await run("dlq list --stage uat")).err).toContain("About 1 more");
    expect((await run("dlq list --kind abort")).err).toBe("No dead letters.");
  });

  it("finds letters that name no Project although the environment names one", async () => {
    await giveUp("{oops", "Invalid");
    await giveUp(makeMessage("2", "dev", "other"));
    const names = async (line: string) => (await run(line)).out.split("\n").filter(Boolean).length;
    process.env.TALLYMAN_PROJECT = "harbour-demo";
    try {
      expect(await names("dlq list -o name")).toBe(2);
      expect(await names("dlq list -o name --stage dev")).toBe(0);
      expect(await names("dlq list -o name -p other")).toBe(1);
    } finally {
      delete process.env.TALLYMAN_PROJECT;
    }
  });
});

describe("dlq redrive", () => {
  it("puts a letter back as it was, in its Stage's group and marked as tried before", async () => {
    const message = makeMessage("1", "dev");
    const id = await giveUp(message);
    const { code, out } = await run("dlq redrive");
    expect([code, out]).toEqual([0, "1 moved, 0 kept, 0 failed"]);
    const { Messages: [back] = [] } = await installation.sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: installation.urls.verify.queue,
        MessageSystemAttributeNames: ["All"],
        MessageAttributeNames: ["All"],
      }),
    );
    expect(JSON.parse(back?.Body ?? "")).toEqual(message);
    expect(back?.Attributes?.MessageGroupId).toBe("harbour/harbour-demo/dev");
    expect(back?.MessageAttributes?.redriven?.StringValue).toBe(id);
    expect((await run("dlq list")).err).toBe("No dead letters.");
    expect((await run("dlq redrive")).out).toBe("no dead letters to move");
  });

  it("moves those of a Stage, of a kind, or with an id, and leaves the rest", async () => {
    const first = await giveUp(makeMessage("1", "dev"));
    await giveUp(makeMessage("2", "uat"));
    await giveUp(makeMessage("3", "prod"));
    expect((await run("dlq redrive --kind abort")).out).toBe("no dead letters to move");
    expect((await run("dlq redrive --stage uat -o name")).out).toMatch(/^deadletter\//);
    expect((await run(`dlq redrive ${first.slice(0, 8)}`)).out).toBe("1 moved, 0 kept, 0 failed");
    expect(JSON.parse((await run("dlq list -o json")).out).items).toMatchObject([{ stage: "prod" }]);
  });

  it("names an id that is no dead letter's, and too short a start of one", async () => {
    const id = await giveUp(makeMessage("1", "dev"));
    expect(await run("dlq redrive ffffffff")).toMatchObject({
      code: 4,
      err: expect.stringContaining("no dead letter ffffffff"),
    });
    expect((await run(`dlq redrive ${id.slice(0, 7)}`)).code).toBe(4);
  });

  it("keeps an invalid one, with its own exit code, and it hides no other", async () => {
    await giveUp("{oops", "Invalid");
    await giveUp(makeMessage("2", "dev"));
    const { code, out, err } = await run("dlq redrive");
    expect([code, out]).toEqual([17, "1 moved, 1 kept, 0 failed"]);
    expect(err).toContain("it is invalid and would come back");
    expect((await run("dlq redrive --force")).code).toBe(0);
  });

  it("keeps one that SQS moved and that no worker could decode: nobody had looked at it", async () => {
    const { sqs, urls } = installation;
    await sqs.send(
      new SendMessageCommand({
        QueueUrl: urls.verify.deadLetterQueue,
        MessageBody: "{oops",
        MessageGroupId: "by-hand",
        MessageDeduplicationId: "1",
      }),
    );
    expect((await run("dlq redrive")).out).toBe("0 moved, 1 kept, 0 failed");
  });

  it("moves a Stage's letters one by one out of their common group, in their order", async () => {
    await loseWorker(...["1", "2", "3"].map((id) => makeMessage(id, "uat")));
    expect((await run("dlq redrive")).out).toBe("3 moved, 0 kept, 0 failed");
    const { sqs, urls } = installation;
    const { Messages: [first] = [] } = await sqs.send(
      new ReceiveMessageCommand({ QueueUrl: urls.verify.queue }),
    );
    expect(JSON.parse(first?.Body ?? "{}").id).toBe("1");
  });

  it("says that a kept one may hide others of its Stage", async () => {
    await loseWorker(makeMessage("1", "uat"), makeMessage("2", "uat"));
    const { items } = JSON.parse((await run("dlq list -o json")).out);
    const { err } = await run("dlq redrive ffffffff");
    expect(items).toHaveLength(1);
    expect(err).toContain("may stand behind another of its Stage");
  });

  it("may send again what was sent within five minutes: the queue's deduplication does not swallow it", async () => {
    const message = makeMessage("1", "dev");
    for (let round = 0; round < 3; round++) {
      await giveUp(message);
      expect((await run("dlq redrive")).code).toBe(0);
      expect(await installation.take("verify")).toEqual(message);
    }
  });

  it("leaves a letter where it is when its queue does not take it, and says so", async () => {
    const body = JSON.stringify({ ...makeMessage("1", "dev"), padding: "x".repeat(1_048_000) });
    await giveUp(makeMessage("2", "uat"));
    await installation.sqs.send(
      new SendMessageCommand({
        QueueUrl: installation.urls.verify.deadLetterQueue,
        MessageBody: `${body}${" ".repeat(1_048_576 - Buffer.byteLength(body))}`,
        MessageGroupId: "large",
        MessageDeduplicationId: "1",
      }),
    );
    const { code, out, err } = await run("dlq redrive");
    expect([code, out]).toEqual([17, "1 moved, 0 kept, 1 failed"]);
    expect(err).toContain("What could not be moved is still there.");
    expect(JSON.parse((await run("dlq list -o json")).out).items).toMatchObject([{ stage: "dev" }]);
  });
});
