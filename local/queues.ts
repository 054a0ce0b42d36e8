import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  QueueDoesNotExist,
  SetQueueAttributesCommand,
  type SQSClient,
} from "@aws-sdk/client-sqs";
import { MESSAGE_KINDS, type MessageKind } from "../shared/messages/schema.ts";
import { deadLetterQueueName, QUEUE_DEFINITION, queueName } from "../shared/queue/definition.ts";
import type { QueueUrls } from "../shared/queue/message-queue.ts";

/**
 * Creates each kind's FIFO queue and dead-letter queue through the SQS API, from their one definition. Those
 * that exist get the definition's attributes and keep their messages.
 */
export async function createQueues(
  client: SQSClient,
  prefix: string,
): Promise<Readonly<Record<MessageKind, QueueUrls>>> {
  const retention = String(QUEUE_DEFINITION.retention);
  const urls: Partial<Record<MessageKind, QueueUrls>> = {};
  for (const kind of MESSAGE_KINDS) {
    const deadLetterQueue = await ensureQueue(client, deadLetterQueueName(prefix, kind), {
      MessageRetentionPeriod: retention,
    });
    const { Attributes: attributes } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: deadLetterQueue, AttributeNames: ["QueueArn"] }),
    );
    const queue = await ensureQueue(client, queueName(prefix, kind), {
      MessageRetentionPeriod: retention,
      VisibilityTimeout: String(QUEUE_DEFINITION.visibilityTimeout),
      RedrivePolicy: JSON.stringify({
        deadLetterTargetArn: attributes?.QueueArn,
        maxReceiveCount: QUEUE_DEFINITION.redriveAfter,
      }),
    });
    urls[kind] = { queue, deadLetterQueue };
  }
  return urls as Record<MessageKind, QueueUrls>;
}

async function ensureQueue(
  client: SQSClient,
  name: string,
  attributes: Readonly<Record<string, string>>,
): Promise<string> {
  const known = await findQueue(client, name);
  if (known !== undefined) {
    await client.send(new SetQueueAttributesCommand({ QueueUrl: known, Attributes: attributes }));
    return known;
  }
  const { QueueUrl } = await client.send(
    new CreateQueueCommand({
      QueueName: name,
      // Two messages with one body are two requests; only their identity makes them one.
      Attributes: {
        ...attributes,
        FifoQueue: "true",
        ContentBasedDeduplication: "false",
        // As deployed: the limits count for each Stage. The engine keeps these, and takes them at creation only.
        DeduplicationScope: "messageGroup",
        FifoThroughputLimit: "perMessageGroupId",
      },
    }),
  );
  return localUrl(client, name, QueueUrl);
}

async function findQueue(client: SQSClient, name: string): Promise<string | undefined> {
  try {
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName: name }));
    return await localUrl(client, name, QueueUrl);
  } catch (error) {
    if (error instanceof QueueDoesNotExist) return undefined;
    throw error;
  }
}

/** A queue from an earlier run is remembered under that run's port; where we reached it now is what counts. */
async function localUrl(client: SQSClient, name: string, url: string | undefined): Promise<string> {
  if (url === undefined) throw new Error(`the queue ${name} has no URL`);
  const endpoint = await client.config.endpoint?.();
  if (endpoint === undefined) return url;
  const port = endpoint.port === undefined ? "" : `:${endpoint.port}`;
  return `${endpoint.protocol}//${endpoint.hostname}${port}${new URL(url).pathname}`;
}
