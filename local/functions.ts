import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { ScheduledEvent, SQSEvent } from "aws-lambda";
import { MESSAGE_KINDS, type MessageKind } from "../shared/messages/schema.ts";
import { QUEUE_DEFINITION } from "../shared/queue/definition.ts";
import { systemClock } from "../shared/runtime/clock.ts";
import { readConfiguration } from "../shared/runtime/configuration.ts";
import type { Log } from "../shared/runtime/telemetry.ts";
import { createContext, type LambdaHandler } from "./lambda-context.ts";
import { startPoller } from "./poller.ts";
import { startSchedule } from "./schedule.ts";

export interface FunctionsOptions {
  readonly log: Log;
  /** Milliseconds between sweeps. */
  readonly sweepEveryMs: number;
  /** Batches at a time, for each queue. */
  readonly concurrency: number;
  /** Seconds that a receive waits, and so the longest that a stop takes when nothing is under way. */
  readonly waitSeconds: number;
}

export interface RunningFunctions {
  /** Invokes the sweeper now. */
  sweep(): Promise<unknown>;
  stop(): Promise<void>;
}

/** One sweep looks at every Stage and AnalysisRun; as on Lambda, where it may take longest of all. */
const SWEEP_TIMEOUT_MS = 300_000;

/**
 * The four Lambda functions with their event sources, in this process. They configure themselves from
 * `process.env`, once and when they are imported, as on Lambda: it has to be set before.
 */
export async function startFunctions(options: FunctionsOptions): Promise<RunningFunctions> {
  const { queues } = readConfiguration(process.env);
  const region = process.env.AWS_REGION ?? "";
  const [verify, abort, reverify, sweeper] = await Promise.all([
    import("../functions/verify/handler.ts"),
    import("../functions/abort/handler.ts"),
    import("../functions/reverify/handler.ts"),
    import("../functions/sweeper/handler.ts"),
  ]);
  const handlers: Record<MessageKind, LambdaHandler<SQSEvent>> = {
    verify: verify.handler as LambdaHandler<SQSEvent>,
    abort: abort.handler as LambdaHandler<SQSEvent>,
    reverify: reverify.handler as LambdaHandler<SQSEvent>,
  };
  const client = new SQSClient({});
  const pollers = await Promise.all(
    MESSAGE_KINDS.map(async (kind) => {
      const queueUrl = queues[kind].queue;
      const { Attributes: attributes } = await client.send(
        new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["QueueArn"] }),
      );
      return startPoller({
        ...options,
        client,
        region,
        queueUrl,
        queueArn: attributes?.QueueArn ?? "",
        functionName: `tallyman-${kind}`,
        handler: handlers[kind],
        timeoutMs: QUEUE_DEFINITION.functionTimeout * 1000,
        batchSize: QUEUE_DEFINITION.batchSize,
        clock: systemClock,
        random: Math.random,
      });
    }),
  );
  const sweep = {
    functionName: "tallyman-sweeper",
    region,
    timeoutMs: SWEEP_TIMEOUT_MS,
    handler: sweeper.handler as LambdaHandler<ScheduledEvent>,
  };
  const schedule = startSchedule({
    ...sweep,
    everyMs: options.sweepEveryMs,
    clock: systemClock,
    log: options.log,
  });
  return {
    sweep: async () =>
      sweep.handler({} as ScheduledEvent, createContext(sweep.functionName, region, SWEEP_TIMEOUT_MS)),
    async stop() {
      await Promise.all([schedule.stop(), ...pollers.map((poller) => poller.stop())]);
      client.destroy();
    },
  };
}
