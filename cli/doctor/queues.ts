import { GetQueueAttributesCommand, QueueDoesNotExist, type SQSClient } from "@aws-sdk/client-sqs";
import { MESSAGE_KINDS, type MessageKind } from "../../shared/messages/schema.ts";
import { QUEUE_DEFINITION } from "../../shared/queue/definition.ts";
import type { QueueUrls } from "../../shared/queue/message-queue.ts";
import { type Finding, fail, inspect, ok, warn } from "./finding.ts";

type Attributes = Readonly<Record<string, string | undefined>>;

const DEPLOY = "Deploy the stack again, or give the queue the attributes of shared/queue/definition.ts.";

/** Each kind's queue and dead-letter queue. `maxReceives` is the workers' own limit. */
export async function checkQueues(
  client: SQSClient,
  urls: Readonly<Record<MessageKind, QueueUrls>>,
  maxReceives: number,
): Promise<readonly Finding[]> {
  const checks = MESSAGE_KINDS.map((kind) =>
    inspect(`${kind} queue`, "sqs:GetQueueAttributes", () =>
      checkKind(client, kind, urls[kind], maxReceives),
    ),
  );
  return (await Promise.all(checks)).flat();
}

async function checkKind(
  client: SQSClient,
  kind: MessageKind,
  urls: QueueUrls,
  maxReceives: number,
): Promise<readonly Finding[]> {
  const subject = `${kind} queue`;
  const queue = await readAttributes(client, urls.queue);
  const letters = await readAttributes(client, urls.deadLetterQueue);
  const missing = [
    ...(queue === undefined ? [fail(subject, `${urls.queue} does not exist`, DEPLOY)] : []),
    ...(letters === undefined ? [fail(subject, `${urls.deadLetterQueue} does not exist`, DEPLOY)] : []),
  ];
  if (queue === undefined || letters === undefined) return missing;
  const problems = [...findProblems(queue, letters, maxReceives)].map((problem) =>
    fail(subject, problem, DEPLOY),
  );
  const risks = [...findRisks(queue)].map((risk) => warn(subject, risk, DEPLOY));
  const count = (name: string): number => Number(queue[name] ?? 0);
  const waiting = count("ApproximateNumberOfMessages") + count("ApproximateNumberOfMessagesDelayed");
  const inFlight = count("ApproximateNumberOfMessagesNotVisible");
  return [
    ...problems,
    ...risks,
    ...(problems.length + risks.length === 0
      ? [ok(subject, `is as it has to be; ${waiting} messages wait, ${inFlight} are worked on or delayed`)]
      : []),
    describeLetters(kind, Number(letters.ApproximateNumberOfMessages ?? 0)),
  ];
}

async function readAttributes(client: SQSClient, url: string): Promise<Attributes | undefined> {
  try {
    const { Attributes: attributes = {} } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ["All"] }),
    );
    return attributes;
  } catch (error) {
    if (error instanceof QueueDoesNotExist) return undefined;
    throw error;
  }
}

/** What makes messages be lost, doubled or stuck. */
function* findProblems(queue: Attributes, letters: Attributes, maxReceives: number): Generator<string> {
  if (queue.FifoQueue !== "true" || letters.FifoQueue !== "true") yield "is no FIFO queue";
  if (queue.ContentBasedDeduplication === "true") {
    yield "takes two requests with one body for one (ContentBasedDeduplication)";
  }
  const policy = readPolicy(queue.RedrivePolicy);
  if (policy === undefined) {
    yield "has no redrive policy: a message that kills its worker comes back until it expires";
    return;
  }
  if (policy.deadLetterTargetArn !== letters.QueueArn) {
    yield `its redrive policy leads to ${policy.deadLetterTargetArn}, not to ${letters.QueueArn}`;
  }
  const receives = Number(policy.maxReceiveCount);
  if (!(receives > maxReceives)) {
    yield `SQS gives up after ${receives} receives, before a worker would say why after ${maxReceives}`;
  }
}

function* findRisks(queue: Attributes): Generator<string> {
  const visibility = Number(queue.VisibilityTimeout);
  if (visibility < QUEUE_DEFINITION.visibilityTimeout) {
    yield `hands a message out again after ${visibility} s; ${QUEUE_DEFINITION.visibilityTimeout} are needed`;
  }
  const retention = Number(queue.MessageRetentionPeriod);
  if (retention < QUEUE_DEFINITION.retention) {
    yield `forgets messages after ${Math.floor(retention / 3600)} h; SQS can keep them for 14 days`;
  }
  // Engines on a desk do not say.
  if (queue.FifoThroughputLimit === "perQueue") {
    yield "limits all Stages together instead of each (FifoThroughputLimit)";
  }
}

function readPolicy(text: string | undefined): Readonly<Record<string, unknown>> | undefined {
  if (text === undefined || text === "") return undefined;
  try {
    const policy: unknown = JSON.parse(text);
    return typeof policy === "object" && policy !== null ? (policy as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function describeLetters(kind: MessageKind, count: number): Finding {
  const subject = `${kind} dead letters`;
  if (count === 0) return ok(subject, "none");
  return warn(
    subject,
    `${count} messages were given up`,
    `See why: tallyman dlq list --kind ${kind}; then: tallyman dlq redrive --kind ${kind}`,
  );
}
