import { Duration } from "aws-cdk-lib";
import {
  Dashboard as CloudWatchDashboard,
  GraphWidget,
  type IMetric,
  MathExpression,
  SingleValueWidget,
  Stats,
} from "aws-cdk-lib/aws-cloudwatch";
import { Construct } from "constructs";
import { isTerminal, PHASES } from "../shared/domain/phase.ts";
import type { MetricName } from "../shared/runtime/telemetry.ts";
import type { Lambda } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";
import type { MessageQueue } from "./message-queue.ts";
import { ownMetric } from "./metrics.ts";

export interface DashboardProps {
  /** The installation's name, which is the dashboard's too. */
  readonly service: string;
  /** Names of the clusters. */
  readonly clusters: readonly string[];
  /** Of webhooks, by name. */
  readonly receivers?: readonly string[];
  readonly queues: readonly MessageQueue[];
  readonly ledger: Ledger;
  /** By the name that they are to have on the page. */
  readonly functions: Readonly<Record<string, Lambda>>;
}

const PERIOD = Duration.minutes(5);
const HALF = 12;

/** One page: what verifications come to, whether the way there is clear, and what it costs. */
export class Dashboard extends Construct {
  constructor(scope: Construct, id: string, props: DashboardProps) {
    super(scope, id);
    const { service, clusters, receivers = [], queues, ledger, functions } = props;
    const sum = { period: PERIOD, statistic: Stats.SUM };
    const verify = { service, component: "verify" };
    const sweeper = { service, component: "sweeper" };
    /** Each function counts what it did itself. */
    const sumOf = (label: string, name: MetricName): MathExpression =>
      new MathExpression({
        label,
        expression: `SUM(METRICS("of${label}"))`,
        period: PERIOD,
        usingMetrics: Object.fromEntries(
          ["verify", "abort", "reverify", "sweeper"].map((component) => [
            `${component}of${label}`,
            ownMetric(name, { service, component }, sum),
          ]),
        ),
      });
    const ofWebhook = (name: MetricName, receiver: string): IMetric =>
      ownMetric(name, { service, component: "webhook", receiver }, { ...sum, label: receiver });
    new CloudWatchDashboard(this, "Page", {
      dashboardName: service,
      widgets: [
        [
          graph(
            "Verifications by phase",
            PHASES.filter(isTerminal).map((phase) => sumOf(phase, `Verifications${phase}`)),
          ),
          graph("From an AnalysisRun's end to the ledger", [
            ownMetric("DetectionLag", verify, { period: PERIOD, statistic: Stats.p(50), label: "p50" }),
            ownMetric("DetectionLag", verify, { period: PERIOD, statistic: Stats.p(99), label: "p99" }),
          ]),
        ],
        [
          graph(
            "Oldest message, seconds",
            queues.map(({ kind, queue }) =>
              queue.metricApproximateAgeOfOldestMessage({ period: PERIOD, label: kind }),
            ),
          ),
          graph(
            "Dead letters",
            queues.map(({ kind, deadLetterQueue }) =>
              deadLetterQueue.metricApproximateNumberOfMessagesVisible({ period: PERIOD, label: kind }),
            ),
          ),
        ],
        [
          graph(
            "Quietest watch, milliseconds",
            clusters.map((cluster) =>
              ownMetric(
                "ForwarderSilence",
                { service, component: "forwarder", cluster },
                { period: PERIOD, statistic: Stats.MAXIMUM, label: cluster },
              ),
            ),
          ),
          graph(
            "Messages forwarded",
            clusters.map((cluster) =>
              ownMetric(
                "ForwarderMessages",
                { service, component: "forwarder", cluster },
                { ...sum, label: cluster },
              ),
            ),
          ),
        ],
        [
          graph(
            "Function errors and throttles",
            Object.entries(functions).flatMap(([name, { function: lambda }]) => [
              lambda.metricErrors({ period: PERIOD, label: `${name} errors` }),
              lambda.metricThrottles({ period: PERIOD, label: `${name} throttles` }),
            ]),
          ),
          graph(
            "Function duration, p99",
            Object.entries(functions).map(([name, { function: lambda }]) =>
              lambda.metricDuration({ period: PERIOD, statistic: Stats.p(99), label: name }),
            ),
          ),
        ],
        [
          graph("Ledger capacity", [
            ledger.table.metricConsumedReadCapacityUnits({ ...sum, label: "read units" }),
            ledger.table.metricConsumedWriteCapacityUnits({ ...sum, label: "write units" }),
          ]),
          new SingleValueWidget({
            title: "Open verifications, repaired by the sweeper, refused requests",
            width: HALF,
            metrics: [
              ownMetric("SweepOpen", sweeper, { period: PERIOD, statistic: Stats.MAXIMUM, label: "open" }),
              ownMetric("SweepRepairs", sweeper, { ...sum, label: "repaired" }),
              sumOf("refused", "RequestsRefused"),
            ],
          }),
        ],
        ...(receivers.length === 0
          ? []
          : [
              [
                graph(
                  "Webhooks accepted",
                  receivers.map((receiver) => ofWebhook("WebhooksAccepted", receiver)),
                ),
                graph(
                  "Webhooks rejected",
                  [...receivers, "unknown"].map((receiver) => ofWebhook("WebhooksRejected", receiver)),
                ),
              ],
            ]),
      ],
    });
  }
}

function graph(title: string, left: IMetric[]): GraphWidget {
  return new GraphWidget({ title, width: HALF, left });
}
