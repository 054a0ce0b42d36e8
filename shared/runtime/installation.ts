import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SQSClient } from "@aws-sdk/client-sqs";
import { type Cluster, createCluster } from "../cluster/cluster.ts";
import { Fault } from "../domain/fault.ts";
import { DEFAULT_POLICY } from "../domain/policy.ts";
import { createLedger } from "../ledger/ledger.ts";
import type { World } from "../operations/world.ts";
import { createMessageQueue, type MessageQueue } from "../queue/message-queue.ts";
import { systemClock } from "./clock.ts";
import { connectCluster } from "./cluster-connection.ts";
import { type Configuration, toPolicy } from "./configuration.ts";
import type { Log, Meter } from "./telemetry.ts";

/** The real parts of an installation, wired from its configuration; what an entry point works with. */
export interface Installation {
  readonly world: World;
  readonly queue: MessageQueue;
  readonly defaultCluster: string;
}

/** Wires DynamoDB, SQS and the clusters. Nothing connects before it is used. */
export function createInstallation(configuration: Configuration, log: Log, meter: Meter): Installation {
  const [first] = configuration.clusters;
  if (first === undefined) throw new Fault("Invalid", "TALLYMAN_CLUSTERS: names no cluster");
  const clusters = new Map<string, Cluster>(
    configuration.clusters.map((settings) => [
      settings.name,
      createCluster(settings.name, connectCluster(settings)),
    ]),
  );
  const policies = new Map(configuration.clusters.map((settings) => [settings.name, toPolicy(settings)]));
  return {
    defaultCluster: first.name,
    queue: createMessageQueue(new SQSClient({}), configuration.queues, first.name),
    world: {
      ledger: createLedger(new DynamoDBClient({}), configuration.table),
      clock: systemClock,
      log,
      meter,
      controllerInstanceId: configuration.controllerInstanceId,
      findPolicy: (name) => policies.get(name) ?? DEFAULT_POLICY,
      findCluster(name) {
        const cluster = clusters.get(name);
        if (cluster !== undefined) return cluster;
        throw new Fault(
          "Invalid",
          `data.cluster: ${name} is none of this installation's clusters (${[...clusters.keys()].join(", ")})`,
        );
      },
    },
  };
}
