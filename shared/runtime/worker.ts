import { injectLambdaContext } from "@aws-lambda-powertools/logger/middleware";
import { logMetrics } from "@aws-lambda-powertools/metrics/middleware";
import middy from "@middy/core";
import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import type { StageKey } from "../domain/identity.ts";
import type { Message, MessageKind } from "../messages/schema.ts";
import type { World } from "../operations/world.ts";
import { createBatchHandler, type Delivery } from "./batch.ts";
import { readConfiguration } from "./configuration.ts";
import { createInstallation } from "./installation.ts";
import { createLog, createMeter } from "./powertools.ts";

/** What a worker does with one message. */
export type ProcessMessage = (
  world: World,
  key: StageKey,
  message: Message,
  delivery: Delivery,
) => Promise<void>;

/** The Lambda handler of a queue's worker: everything but what to do with a message. */
export function createWorker(kind: MessageKind, process: ProcessMessage) {
  const log = createLog(kind);
  const meter = createMeter(kind);
  const configuration = readConfiguration(globalThis.process.env);
  const { world, queue, defaultCluster } = createInstallation(configuration, log, meter);
  const handleBatch = createBatchHandler({
    kind,
    queue,
    log,
    meter,
    backoff: configuration.backoff,
    maxReceives: configuration.maxReceives,
    random: Math.random,
    process: (message, delivery) => process(world, keyOf(message, defaultCluster), message, delivery),
  });
  return middy<SQSEvent, SQSBatchResponse>()
    .use(injectLambdaContext(log.logger))
    .use(logMetrics(meter.metrics))
    .handler((event) => handleBatch(event));
}

/** The Stage that a message is for; the installation's first cluster where it names none. */
function keyOf(message: Message, defaultCluster: string): StageKey {
  const { cluster = defaultCluster, project, stage } = message.data;
  return { cluster, project, stage };
}
