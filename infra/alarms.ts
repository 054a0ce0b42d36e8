import { Duration } from "aws-cdk-lib";
import {
  Alarm,
  ComparisonOperator,
  type IMetric,
  Metric,
  TreatMissingData,
} from "aws-cdk-lib/aws-cloudwatch";
import { Construct } from "constructs";
import type { MetricName } from "../shared/runtime/telemetry.ts";
import type { MessageQueue } from "./message-queue.ts";

export interface AlarmsProps {
  readonly queues: readonly MessageQueue[];
}

const STALE = Duration.minutes(15);
const PERIOD = Duration.minutes(5);

/** The few things that somebody has to look at; who is told is for the account's own alarm actions to say. */
export class Alarms extends Construct {
  constructor(scope: Construct, id: string, { queues }: AlarmsProps) {
    super(scope, id);
    for (const { kind, queue, deadLetterQueue } of queues) {
      this.add(
        `${kind}-dead-letters`,
        `Messages of the ${kind} queue were given up; each carries its reasons`,
        deadLetterQueue.metricApproximateNumberOfMessagesVisible({ period: PERIOD }),
        1,
      );
      this.add(
        `${kind}-stale`,
        `A message of the ${kind} queue has waited for ${STALE.toMinutes()} minutes`,
        queue.metricApproximateAgeOfOldestMessage({ period: PERIOD }),
        STALE.toSeconds(),
      );
    }
    const heartbeat = new Metric({
      namespace: "Tallyman",
      metricName: "ForwarderHeartbeat" satisfies MetricName,
      dimensionsMap: { service: "tallyman", component: "forwarder" },
      statistic: "Sum",
      period: PERIOD,
    });
    new Alarm(this, "forwarder-silent", {
      alarmDescription: "No forwarder watches a cluster; what changes there waits for the sweeper",
      metric: heartbeat,
      threshold: 1,
      evaluationPeriods: 2,
      comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
      // A forwarder that is not there sends nothing.
      treatMissingData: TreatMissingData.BREACHING,
    });
  }

  private add(id: string, alarmDescription: string, metric: IMetric, threshold: number): void {
    new Alarm(this, id, {
      alarmDescription,
      metric,
      threshold,
      evaluationPeriods: 1,
      comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
  }
}
