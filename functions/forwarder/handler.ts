import { injectLambdaContext } from "@aws-lambda-powertools/logger/middleware";
import { logMetrics } from "@aws-lambda-powertools/metrics/middleware";
import middy from "@middy/core";
import { readConfiguration } from "../../shared/runtime/configuration.ts";
import { createLog, createMeter } from "../../shared/runtime/powertools.ts";
import { runSession } from "./session.ts";
import { wireSession } from "./wiring.ts";

/** Kept free at the end of an invocation for the last checkpoint, milliseconds. */
const FAREWELL_MS = 8_000;

const log = createLog("forwarder");
const meter = createMeter("forwarder", process.env.TALLYMAN_FORWARDER_CLUSTER);
const session = wireSession(
  readConfiguration(process.env),
  process.env.TALLYMAN_FORWARDER_CLUSTER,
  log,
  meter,
);

/**
 * Lambda, on a schedule: watches for as long as the invocation may last, from where the one before stopped. An
 * invocation that finds another at work leaves at once, so windows may overlap without watching twice.
 */
export const handler = middy<unknown, { worked: boolean }>()
  .use(injectLambdaContext(log.logger))
  .use(logMetrics(meter.metrics))
  .handler(async (_event, context) => {
    const windowMs = Math.max(1_000, context.getRemainingTimeInMillis() - FAREWELL_MS);
    const worked = await runSession(
      { ...session, owner: context.awsRequestId, windowMs, resume: true, exclusive: true },
      new AbortController().signal,
    );
    if (!worked) log.info("another forwarder is at work", { cluster: session.cluster });
    return { worked };
  });
