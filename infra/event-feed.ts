import { CfnOutput, Duration, RemovalPolicy, Validations } from "aws-cdk-lib";
import { EventBus, Rule } from "aws-cdk-lib/aws-events";
import { SnsTopic } from "aws-cdk-lib/aws-events-targets";
import { PolicyStatement, Role, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { CfnPipe } from "aws-cdk-lib/aws-pipes";
import { Topic } from "aws-cdk-lib/aws-sns";
import { Queue, QueueEncryption } from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";
import { TRANSITION_FILTER } from "../shared/ledger/transition-image.ts";
import { PHASE_EVENT_TYPE } from "../shared/messages/phase-event.ts";
import type { NotificationConfiguration } from "./configuration.ts";
import { Lambda, type LambdaSetting } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";

export interface EventFeedProps {
  /** The installation's name, which is the bus's too. */
  readonly name: string;
  /** One that has a stream. */
  readonly ledger: Ledger;
  /** Its environment needs only `POWERTOOLS_SERVICE_NAME`, the installation's name. */
  readonly setting: LambdaSetting;
  /** SNS topics that are told, and of which phases. Default: none. */
  readonly notifications?: readonly NotificationConfiguration[];
}

/** EventBridge's own name for where our events come from. */
const SOURCE = "tallyman";

/**
 * Every change of phase as a CloudEvent on an event bus of its own, so that anyone can subscribe: the table's stream,
 * a pipe that picks the changes, a function that puts them into words, the bus. What cannot be delivered is kept.
 */
export class EventFeed extends Construct {
  readonly bus: EventBus;
  /** Changes that the bus did not take. */
  readonly undelivered: Queue;

  constructor(scope: Construct, id: string, { name, ledger, setting, notifications = [] }: EventFeedProps) {
    super(scope, id);
    const { tableStreamArn } = ledger.table;
    if (tableStreamArn === undefined) throw new Error("the ledger's table has no stream");
    this.bus = new EventBus(this, "Bus", {
      eventBusName: name,
      description: "Tallyman: changes of phase of verifications",
    });
    const { function: wording } = new Lambda(this, "Wording", {
      entry: "functions/events/handler.ts",
      description: "Tallyman: makes CloudEvents of changes of phase",
      timeout: Duration.seconds(10),
      memory: 256,
      setting,
      statements: [],
    });
    this.undelivered = new Queue(this, "Undelivered", {
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      retentionPeriod: Duration.days(14),
      removalPolicy: RemovalPolicy.DESTROY,
    });
    Validations.of(this.undelivered).acknowledge({
      id: "AwsSolutions-SQS3",
      reason: "It is a dead-letter queue itself, of a pipe, which the rule does not know",
    });
    const role = new Role(this, "Role", { assumedBy: new ServicePrincipal("pipes.amazonaws.com") });
    const allow = (actions: string[], resource: string): boolean =>
      role.addToPolicy(new PolicyStatement({ actions, resources: [resource] }));
    allow(["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], tableStreamArn);
    allow(["lambda:InvokeFunction"], wording.functionArn);
    allow(["events:PutEvents"], this.bus.eventBusArn);
    allow(["sqs:SendMessage"], this.undelivered.queueArn);
    const pipe = new CfnPipe(this, "Pipe", {
      roleArn: role.roleArn,
      source: tableStreamArn,
      sourceParameters: {
        dynamoDbStreamParameters: {
          startingPosition: "LATEST",
          batchSize: 10,
          maximumRetryAttempts: 100,
          deadLetterConfig: { arn: this.undelivered.queueArn },
        },
        filterCriteria: { filters: [{ pattern: JSON.stringify(TRANSITION_FILTER) }] },
      },
      enrichment: wording.functionArn,
      target: this.bus.eventBusArn,
      targetParameters: {
        eventBridgeEventBusParameters: { detailType: PHASE_EVENT_TYPE, source: SOURCE },
      },
    });
    // Without its rights a pipe is made and then fails.
    pipe.node.addDependency(role);
    for (const [index, notification] of notifications.entries()) {
      this.#notify(`Notification${index}`, notification);
    }
    new CfnOutput(this, "BusName", { value: this.bus.eventBusName });
  }

  #notify(id: string, { topic, phases }: NotificationConfiguration): void {
    new Rule(this, id, {
      eventBus: this.bus,
      description: `Tallyman: tells of ${phases.join(", ")}`,
      eventPattern: { source: [SOURCE], detailType: [PHASE_EVENT_TYPE], detail: { data: { phase: phases } } },
      targets: [new SnsTopic(Topic.fromTopicArn(this, `${id}Topic`, topic))],
    });
  }
}
