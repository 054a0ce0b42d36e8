import { Logger } from "@aws-lambda-powertools/logger";
import { Metrics, MetricUnit } from "@aws-lambda-powertools/metrics";
import type { Log, Meter, MetricName } from "./telemetry.ts";

/** Tells one installation's logs and metrics from another's. */
const SERVICE = process.env.POWERTOOLS_SERVICE_NAME || "tallyman";
const NAMESPACE = "Tallyman";

/** Metrics whose values are not counts. */
const UNITS: Partial<Record<MetricName, (typeof MetricUnit)[keyof typeof MetricUnit]>> = {
  DetectionLag: MetricUnit.Milliseconds,
  ForwarderSilence: MetricUnit.Milliseconds,
};

/** Structured JSON log lines, as CloudWatch Logs Insights reads them. */
export function createLog(component: string): Log & { readonly logger: Logger } {
  const logger = new Logger({ serviceName: SERVICE, persistentKeys: { component } });
  const write =
    (level: "debug" | "info" | "warn" | "error") =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}): void => {
      // Logger drops a field that is called `message`, and complains, since the line itself has one.
      const { message: detail, ...others } = fields;
      logger[level](message, detail === undefined ? others : { ...others, detail });
    };
  return { logger, debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}

/**
 * Metrics in embedded metric format: written with the log at the end of an invocation, at no request. What is measured
 * for one cluster alone has the cluster as a dimension too.
 */
export function createMeter(component: string, cluster?: string): Meter & { readonly metrics: Metrics } {
  const metrics = new Metrics({ namespace: NAMESPACE, serviceName: SERVICE });
  metrics.setDefaultDimensions({ component, ...(cluster === undefined ? {} : { cluster }) });
  return {
    metrics,
    count: (name, value = 1) => metrics.addMetric(name, UNITS[name] ?? MetricUnit.Count, value),
    duration: (name, milliseconds) => metrics.addMetric(name, MetricUnit.Milliseconds, milliseconds),
  };
}

/** Counters that have the receiver of a webhook as a dimension: each is written at once, so that requests may overlap. */
export function createReceiverMeter(component: string) {
  const { metrics } = createMeter(component);
  return (name: MetricName, receiver: string, value = 1): void => {
    metrics.singleMetric().addDimension("receiver", receiver).addMetric(name, MetricUnit.Count, value);
  };
}
