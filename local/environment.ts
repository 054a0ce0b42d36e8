import { MESSAGE_KINDS, type MessageKind } from "../shared/messages/schema.ts";
import type { QueueUrls } from "../shared/queue/message-queue.ts";
import type { ClusterSettings } from "../shared/runtime/configuration.ts";
import { queueVariables } from "../shared/runtime/configuration.ts";

/** No region of AWS, so that nothing local can be taken for the real thing. */
export const LOCAL_REGION = "local";

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface EnvironmentOptions {
  readonly table: string;
  readonly dynamoDbEndpoint: string;
  readonly sqsEndpoint: string;
  readonly queues: Readonly<Record<MessageKind, QueueUrls>>;
  readonly clusters: readonly ClusterSettings[];
  readonly logLevel: LogLevel;
}

/** The environment variables that a function would have on Lambda, leading to the embedded engines. */
export function buildEnvironment(options: EnvironmentOptions): Record<string, string> {
  const environment: Record<string, string> = {
    AWS_REGION: LOCAL_REGION,
    AWS_ENDPOINT_URL_DYNAMODB: options.dynamoDbEndpoint,
    AWS_ENDPOINT_URL_SQS: options.sqsEndpoint,
    AWS_ACCESS_KEY_ID: "local",
    AWS_SECRET_ACCESS_KEY: "local",
    TALLYMAN_TABLE: options.table,
    TALLYMAN_CLUSTERS: JSON.stringify(options.clusters),
    POWERTOOLS_LOG_LEVEL: options.logLevel.toUpperCase(),
    // Nobody reads embedded metrics on a desk, and they would fill the log.
    POWERTOOLS_METRICS_DISABLED: "true",
  };
  for (const kind of MESSAGE_KINDS) {
    const names = queueVariables(kind);
    environment[names.queue] = options.queues[kind].queue;
    environment[names.deadLetterQueue] = options.queues[kind].deadLetterQueue;
  }
  return environment;
}

/** Variables of a person's own AWS setup that would lead a client, or its credentials, elsewhere. */
const FOREIGN = /^(AWS_|TALLYMAN_|POWERTOOLS_)/;

/** A child's whole environment: this process's, without what could lead it to a real account. */
export function withEnvironment(
  own: Readonly<Record<string, string | undefined>>,
  environment: Readonly<Record<string, string>>,
): Record<string, string> {
  const kept = Object.entries(own).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !FOREIGN.test(entry[0]),
  );
  return { ...Object.fromEntries(kept), ...environment };
}
