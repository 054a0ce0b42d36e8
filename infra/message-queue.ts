import { CfnOutput, Duration } from "aws-cdk-lib";
import { PolicyStatement } from "aws-cdk-lib/aws-iam";
import {
  DeduplicationScope,
  FifoThroughputLimit,
  Queue,
  QueueEncryption,
  type QueueProps,
} from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";
import type { MessageKind } from "../shared/messages/schema.ts";
import { deadLetterQueueName, QUEUE_DEFINITION, queueName } from "../shared/queue/definition.ts";

export interface MessageQueueProps {
  /** Which messages it carries, and so which worker it feeds. */
  readonly kind: MessageKind;
  /** Begins the queues' names, `PREFIX-verify.fifo` and `PREFIX-verify-dlq.fifo`: one for each installation. */
  readonly prefix: string;
}

/** One kind's queue and its dead-letter queue, both FIFO: a Stage's dead letters keep their order too. */
export class MessageQueue extends Construct {
  readonly kind: MessageKind;
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;

  constructor(scope: Construct, id: string, { kind, prefix }: MessageQueueProps) {
    super(scope, id);
    this.kind = kind;
    this.deadLetterQueue = new Queue(this, "DeadLetters", {
      ...common,
      queueName: deadLetterQueueName(prefix, kind),
    });
    this.queue = new Queue(this, "Queue", {
      ...common,
      queueName: queueName(prefix, kind),
      visibilityTimeout: Duration.seconds(QUEUE_DEFINITION.visibilityTimeout),
      deadLetterQueue: { queue: this.deadLetterQueue, maxReceiveCount: QUEUE_DEFINITION.redriveAfter },
    });
    new CfnOutput(this, "Url", { value: this.queue.queueUrl });
  }

  /** What a worker of this queue does: receive, acknowledge, delay, and give up with its reasons. */
  allowWorking(): PolicyStatement[] {
    return [
      new PolicyStatement({
        actions: [
          "sqs:ReceiveMessage",
          "sqs:DeleteMessage",
          "sqs:GetQueueAttributes",
          "sqs:ChangeMessageVisibility",
        ],
        resources: [this.queue.queueArn],
      }),
      new PolicyStatement({ actions: ["sqs:SendMessage"], resources: [this.deadLetterQueue.queueArn] }),
    ];
  }

  /** What a sender does. */
  allowSending(): PolicyStatement[] {
    return [new PolicyStatement({ actions: ["sqs:SendMessage"], resources: [this.queue.queueArn] })];
  }
}

const common: QueueProps = {
  fifo: true,
  // High throughput: the limits count for each Stage, not for the whole queue.
  fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
  deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
  // Two requests may have one body; only their identity, which the sender gives, makes them one.
  contentBasedDeduplication: false,
  encryption: QueueEncryption.SQS_MANAGED,
  enforceSSL: true,
  retentionPeriod: Duration.seconds(QUEUE_DEFINITION.retention),
};
