import { Duration } from "aws-cdk-lib";
import { Construct } from "constructs";
import { QUEUE_DEFINITION } from "../shared/queue/definition.ts";
import { Lambda, type LambdaSetting } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";
import type { MessageQueue } from "./message-queue.ts";

export interface WorkerProps {
  /** Its kind says which function works on it. */
  readonly queue: MessageQueue;
  readonly ledger: Ledger;
  /** Its environment is that of {@link buildEnvironment}. */
  readonly setting: LambdaSetting;
  /** Batches that are worked on at the same time, 2 to 1000. Default: 10. */
  readonly concurrency?: number;
}

/** The function of one kind of message, fed by its queue. */
export class Worker extends Construct {
  readonly lambda: Lambda;

  constructor(scope: Construct, id: string, { queue, ledger, setting, concurrency = 10 }: WorkerProps) {
    super(scope, id);
    this.lambda = new Lambda(this, "Lambda", {
      entry: `functions/${queue.kind}/handler.ts`,
      description: `Tallyman: works on the ${queue.kind} queue`,
      timeout: Duration.seconds(QUEUE_DEFINITION.functionTimeout),
      memory: 512,
      setting,
      statements: [
        ...ledger.allow({ actions: ["GetItem", "PutItem", "UpdateItem", "BatchGetItem"] }),
        ...queue.allowWorking(),
      ],
    });
    this.lambda.function.addEventSourceMapping("Messages", {
      eventSourceArn: queue.queue.queueArn,
      batchSize: QUEUE_DEFINITION.batchSize,
      reportBatchItemFailures: true,
      maxConcurrency: concurrency,
    });
  }
}
