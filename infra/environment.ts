import { MESSAGE_KINDS } from "../shared/messages/schema.ts";
import { type ClusterSettings, queueVariables } from "../shared/runtime/configuration.ts";
import type { ClusterConfiguration, StackConfiguration } from "./configuration.ts";
import type { Ledger } from "./ledger.ts";
import type { MessageQueue } from "./message-queue.ts";

/** What the functions are told of the configuration. */
export type EnvironmentProps = Pick<
  StackConfiguration,
  "name" | "clusters" | "controllerInstanceId" | "logLevel" | "retentionDays"
>;

/**
 * The environment variables that `shared/runtime/configuration.ts` reads. Every function is told of every queue.
 *
 * @throws Error when a kind of message has no queue: the functions would not start.
 */
export function buildEnvironment(
  configuration: EnvironmentProps,
  ledger: Ledger,
  queues: readonly MessageQueue[],
): Record<string, string> {
  const { clusters, controllerInstanceId, logLevel, retentionDays } = configuration;
  const missing = MESSAGE_KINDS.filter((kind) => !queues.some((queue) => queue.kind === kind));
  if (missing.length > 0) throw new Error(`there is no queue for ${missing.join(", ")}`);
  const environment: Record<string, string> = {
    TALLYMAN_TABLE: ledger.table.tableName,
    TALLYMAN_CLUSTERS: JSON.stringify(clusters.map(toSettings)),
    POWERTOOLS_SERVICE_NAME: configuration.name,
    POWERTOOLS_LOG_LEVEL: logLevel.toUpperCase(),
  };
  if (controllerInstanceId !== undefined) environment.TALLYMAN_CONTROLLER_INSTANCE_ID = controllerInstanceId;
  if (retentionDays !== undefined) environment.TALLYMAN_RETENTION_DAYS = String(retentionDays);
  for (const { kind, queue, deadLetterQueue } of queues) {
    const names = queueVariables(kind);
    environment[names.queue] = queue.queueUrl;
    environment[names.deadLetterQueue] = deadLetterQueue.queueUrl;
  }
  return environment;
}

/** Settings name secrets and hold none: a function reads them when it needs them, so that they may rotate. */
function toSettings({ eks, ...rest }: ClusterConfiguration): ClusterSettings {
  if (eks === undefined) return rest;
  const { cluster, region } = eks;
  return { ...rest, eks: { cluster, ...(region === undefined ? {} : { region }) } };
}
