import { Duration } from "aws-cdk-lib";
import { Alarm, ComparisonOperator, type IMetric, Stats, TreatMissingData } from "aws-cdk-lib/aws-cloudwatch";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import { type ITopic, Topic } from "aws-cdk-lib/aws-sns";
import type { IQueue } from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";
import type { Lambda } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";
import type { MessageQueue } from "./message-queue.ts";
import { ownMetric } from "./metrics.ts";

export interface AlarmsProps {
  /** The installation's name, by which its metrics are told from another's. */
  readonly service: string;
  /** Names of the clusters, for each of which a forwarder must be at work. */
  readonly clusters: readonly string[];
  /** Of webhooks, by name. */
  readonly receivers?: readonly string[];
  readonly queues: readonly MessageQueue[];
  readonly ledger: Ledger;
  /** By the name that their alarms are to have. */
  readonly functions: Readonly<Record<string, Lambda>>;
  /** Events that subscribers will not see. */
  readonly undelivered?: IQueue | undefined;
  /** ARN of the SNS topic that is told; without one the alarms are only to be looked at. */
  readonly topic?: string | undefined;
}

const STALE = Duration.minutes(15);
const PERIOD = Duration.minutes(5);
/** How late the ledger may know of an AnalysisRun's end: a sweep and what it has to wait for. */
const LATE = Duration.minutes(3);

/** What somebody has to look at, and what each means. */
export class Alarms extends Construct {
  readonly #topic: ITopic | undefined;

  constructor(scope: Construct, id: string, props: AlarmsProps) {
    super(scope, id);
    const { service, clusters, queues, ledger, functions, topic } = props;
    this.#topic = topic === undefined ? undefined : Topic.fromTopicArn(this, "Topic", topic);
    for (const { kind, queue, deadLetterQueue } of queues) {
      this.#whenAtLeast(
        1,
        `${kind}-dead-letters`,
        `Messages of the ${kind} queue were given up; each carries its reasons: tallyman dlq list`,
        deadLetterQueue.metricApproximateNumberOfMessagesVisible({
          period: PERIOD,
          statistic: Stats.MAXIMUM,
        }),
      );
      this.#whenAtLeast(
        STALE.toSeconds(),
        `${kind}-stale`,
        `A message of the ${kind} queue has waited for ${STALE.toMinutes()} minutes`,
        queue.metricApproximateAgeOfOldestMessage({ period: PERIOD, statistic: Stats.MAXIMUM }),
      );
    }
    if (props.undelivered !== undefined) {
      this.#whenAtLeast(
        1,
        "events-undelivered",
        "Changes of phase could not be published; subscribers have not seen them, the ledger has them",
        props.undelivered.metricApproximateNumberOfMessagesVisible({
          period: PERIOD,
          statistic: Stats.MAXIMUM,
        }),
      );
    }
    for (const [name, { function: lambda }] of Object.entries(functions)) {
      this.#whenAtLeast(
        1,
        `${name}-errors`,
        `${name} ended with an error; its log says which. Messages are not lost by it`,
        lambda.metricErrors({ period: PERIOD }),
        3,
      );
      this.#whenAtLeast(
        1,
        `${name}-throttled`,
        `${name} was not started, because the account's Lambda concurrency is used up`,
        lambda.metricThrottles({ period: PERIOD }),
        3,
      );
    }
    this.#whenAtLeast(
      1,
      "ledger-throttled",
      "DynamoDB refused requests to the ledger for their rate; they are made again",
      ledger.metricThrottled(PERIOD),
      3,
    );
    this.#whenAtLeast(
      LATE.toMilliseconds(),
      "outcomes-late",
      "The ledger knows of AnalysisRuns' ends only minutes later",
      ownMetric("DetectionLag", { service, component: "verify" }, { period: PERIOD, statistic: Stats.p(99) }),
      3,
    );
    this.#whenAtLeast(
      1,
      "clusters-not-swept",
      "The sweeper cannot reach a cluster; its log says which and why",
      ownMetric(
        "ClustersNotSwept",
        { service, component: "sweeper" },
        { period: PERIOD, statistic: Stats.SUM },
      ),
      3,
    );
    this.#whenAtLeast(
      1,
      "stale-stages",
      "A Stage does not show a Promotion that succeeded; the sweeper's log and an Event on the Stage say which",
      ownMetric("StaleStages", { service, component: "sweeper" }, { period: PERIOD, statistic: Stats.SUM }),
    );
    for (const receiver of props.receivers ?? []) {
      this.#whenAtLeast(
        1,
        `${receiver}-webhooks-deferred`,
        `Deliveries to the receiver ${receiver} were turned away for a trouble of ours; a sender that does not repeat them by itself has to be made to`,
        ownMetric(
          "WebhooksDeferred",
          { service, component: "webhook", receiver },
          { period: PERIOD, statistic: Stats.SUM },
        ),
      );
    }
    for (const cluster of clusters) {
      this.#add(
        new Alarm(this, `${cluster}-unwatched`, {
          alarmDescription: `No forwarder watches the cluster ${cluster}; what changes there waits for the sweeper`,
          metric: ownMetric(
            "ForwarderHeartbeat",
            { service, component: "forwarder", cluster },
            { period: PERIOD, statistic: Stats.SUM },
          ),
          threshold: 1,
          evaluationPeriods: 2,
          comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
          // A forwarder that is not there sends nothing.
          treatMissingData: TreatMissingData.BREACHING,
        }),
      );
    }
  }

  #whenAtLeast(
    threshold: number,
    id: string,
    alarmDescription: string,
    metric: IMetric,
    evaluationPeriods = 1,
  ): void {
    this.#add(
      new Alarm(this, id, {
        alarmDescription,
        metric,
        threshold,
        evaluationPeriods,
        comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treatMissingData: TreatMissingData.NOT_BREACHING,
      }),
    );
  }

  #add(alarm: Alarm): void {
    if (this.#topic !== undefined) alarm.addAlarmAction(new SnsAction(this.#topic));
  }
}
