import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { type Message, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { expect, onTestFinished, test } from "vitest";
import { bundleFunction, bundleText, type FunctionBundle, writeBundle } from "../../infra/function-bundle.ts";
import { startDynamoDb } from "../../local/dynamodb.ts";
import { buildEnvironment, withEnvironment } from "../../local/environment.ts";
import { createContext } from "../../local/lambda-context.ts";
import { createLedgerTable } from "../../local/ledger-table.ts";
import { startQueueServer } from "../../local/queue-server.ts";
import { createQueues } from "../../local/queues.ts";
import { deadLetterQueueName } from "../../shared/queue/definition.ts";

const FUNCTIONS = ["verify", "abort", "reverify", "sweeper", "forwarder", "events", "webhook"];
/** What no function can do without, bundled as usual: with every way to find credentials. */
const BASELINE = `
  import { DynamoDBClient, GetItemCommand, PutItemCommand } from "@aws-sdk/client-dynamodb";
  import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
  import middy from "@middy/core";
  const [ledger, queue] = [new DynamoDBClient({}), new SQSClient({})];
  export const handler = middy().handler(async () => [
    await ledger.send(new GetItemCommand({})), await ledger.send(new PutItemCommand({})),
    await queue.send(new SendMessageCommand({})),
  ]);
`;

const bundles = new Map<string, FunctionBundle>(
  FUNCTIONS.map((name) => [name, bundleFunction(`functions/${name}/handler.ts`)]),
);
const baseline = bundleText(BASELINE);

test.each(FUNCTIONS)("the %s bundle is at most 1.6 times the SDK clients and middy alone", (name) => {
  const size = bundles.get(name)?.size ?? Number.NaN;
  // A baseline that lost its packages would make the comparison void.
  expect(baseline.size).toBeGreaterThan(200_000);
  console.log(`${name}: ${size} bytes, ${(size / baseline.size).toFixed(2)} × ${baseline.size}`);
  expect(size).toBeLessThanOrEqual(1.6 * baseline.size);
});

test.each(FUNCTIONS)("the %s bundle has neither client-node nor what only other processes need", (name) => {
  const inputs = Object.keys(bundles.get(name)?.inputs ?? {});
  expect(inputs).toContain(`functions/${name}/handler.ts`);
  const forbidden =
    /@kubernetes\/client-node|node_modules\/(yaml|commander|dynalite|fauxqs|undici)\/|^(cli|local|test)\//;
  expect(inputs.filter((path) => forbidden.test(path))).toEqual([]);
});

test("a bundle is the same twice, and tells nothing of the machine that made it", () => {
  const again = bundleFunction("functions/verify/handler.ts");
  expect(again.files).toEqual(bundles.get("verify")?.files);
  for (const contents of again.files.values()) {
    expect(Buffer.from(contents).includes(join(import.meta.dirname, "../.."))).toBe(false);
  }
  const map = JSON.parse(Buffer.from(again.files.get("index.mjs.map") ?? []).toString());
  expect(map.sources).toContain("functions/verify/handler.ts");
});

test("the verify bundle, in a process of its own, gives up an invalid message with its reasons", async () => {
  const [dynamoDb, queueServer] = await Promise.all([startDynamoDb(), startQueueServer()]);
  onTestFinished(async () => {
    await Promise.all([dynamoDb.stop(), queueServer.stop()]);
  });
  const local = { region: "local", credentials: { accessKeyId: "local", secretAccessKey: "local" } };
  const database = new DynamoDBClient({ ...local, endpoint: dynamoDb.endpoint });
  const sqs = new SQSClient({ ...local, endpoint: queueServer.endpoint });
  onTestFinished(() => {
    database.destroy();
    sqs.destroy();
  });
  await createLedgerTable(database, "ledger");
  const queues = await createQueues(sqs, "tallyman");
  const environment = buildEnvironment({
    table: "ledger",
    dynamoDbEndpoint: dynamoDb.endpoint,
    sqsEndpoint: queueServer.endpoint,
    queues,
    clusters: [{ name: "main", server: "https://127.0.0.1:1" }],
    logLevel: "error",
  });

  const response = await invokeBundle("verify", withEnvironment(process.env, environment), toEvent("{}"));
  expect(response).toEqual({ batchItemFailures: [] });

  const { Messages: letters } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl: queues.verify.deadLetterQueue,
      MessageAttributeNames: ["All"],
      WaitTimeSeconds: 5,
    }),
  );
  expect(letters).toHaveLength(1);
  const [letter] = letters as [Message];
  expect(letter.Body).toBe("{}");
  const reasons: unknown = JSON.parse(letter.MessageAttributes?.reasons?.StringValue ?? "[]");
  expect(reasons).toEqual(expect.arrayContaining([expect.stringMatching(/^type: /)]));
  expect(queues.verify.deadLetterQueue).toContain(deadLetterQueueName("tallyman", "verify"));
});

/** Imports the bundle as Lambda does, in a folder without node_modules, and calls its handler once. */
async function invokeBundle(
  name: string,
  env: Record<string, string>,
  event: SQSEvent,
): Promise<SQSBatchResponse> {
  const folder = mkdtempSync(join(tmpdir(), "tallyman-bundle-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeBundle(bundles.get(name) as FunctionBundle, folder);
  const context = createContext(`tallyman-${name}`, "local", 30_000);
  writeFileSync(
    join(folder, "invoke.mjs"),
    `import { handler } from "./index.mjs";
     process.once("message", async ({ event, context }) => {
       context.getRemainingTimeInMillis = () => 30_000;
       process.send(await handler(event, context), () => process.exit());
     });`,
  );
  const child: ChildProcess = fork(join(folder, "invoke.mjs"), { cwd: folder, env, execArgv: [] });
  onTestFinished(() => void child.kill());
  child.send({ event, context: JSON.parse(JSON.stringify(context)) });
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`the bundle's process ended with ${code} before it answered`);
  });
  const [response] = await Promise.race([once(child, "message"), ended]);
  return response as SQSBatchResponse;
}

/** A batch of one, as the event source passes it. */
function toEvent(body: string): SQSEvent {
  return {
    Records: [
      {
        messageId: "00000000-0000-4000-8000-000000000001",
        receiptHandle: "handle",
        body,
        attributes: {
          ApproximateReceiveCount: "1",
          SentTimestamp: "0",
          SenderId: "sender",
          ApproximateFirstReceiveTimestamp: "0",
          MessageGroupId: "main/shop/dev",
          SequenceNumber: "1",
        },
        messageAttributes: {},
        md5OfBody: "",
        eventSource: "aws:sqs",
        eventSourceARN: "arn:aws:sqs:local:000000000000:tallyman-verify.fifo",
        awsRegion: "local",
      },
    ],
  };
}
