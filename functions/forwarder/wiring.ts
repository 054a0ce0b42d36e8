import { randomUUID } from "node:crypto";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { Fault } from "../../shared/domain/fault.ts";
import { createCheckpointStore } from "../../shared/ledger/checkpoint.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import { connectCluster } from "../../shared/runtime/cluster-connection.ts";
import { type Configuration, toPolicy } from "../../shared/runtime/configuration.ts";
import { createInstallation } from "../../shared/runtime/installation.ts";
import type { Log, Meter } from "../../shared/runtime/telemetry.ts";
import type { SessionOptions } from "./session.ts";

/** What both entry points share; `cluster` picks one of the configured clusters, the first by default. */
export function wireSession(
  configuration: Configuration,
  cluster: string | undefined,
  log: Log,
  meter: Meter,
): Omit<SessionOptions, "resume" | "exclusive"> {
  const settings = configuration.clusters.find((each) => cluster === undefined || each.name === cluster);
  if (settings === undefined) {
    const names = configuration.clusters.map((each) => each.name).join(", ");
    throw new Fault(
      "Invalid",
      `TALLYMAN_FORWARDER_CLUSTER: ${cluster} is none of TALLYMAN_CLUSTERS (${names})`,
    );
  }
  const { world, queue } = createInstallation(configuration, log, meter);
  return {
    cluster: settings.name,
    policy: toPolicy(settings),
    transport: connectCluster(settings),
    queue,
    ledger: world.ledger,
    checkpoints: createCheckpointStore(new DynamoDBClient({}), configuration.table),
    clock: systemClock,
    random: Math.random,
    log,
    meter,
    owner: randomUUID(),
  };
}
