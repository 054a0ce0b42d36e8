import { Metric, type MetricProps } from "aws-cdk-lib/aws-cloudwatch";
import type { MetricName } from "../shared/runtime/telemetry.ts";

/** Which of an installation's functions measured it; `cluster` for what a forwarder measures, `receiver` for what the webhook does. */
export interface MetricSource {
  readonly service: string;
  readonly component: string;
  readonly cluster?: string;
  readonly receiver?: string;
}

/** A metric that the code writes, by the name that the code has for it. */
export function ownMetric(
  metricName: MetricName,
  source: MetricSource,
  props: Pick<MetricProps, "statistic" | "period" | "label">,
): Metric {
  return new Metric({ namespace: "Tallyman", metricName, dimensionsMap: { ...source }, ...props });
}
