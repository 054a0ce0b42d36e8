import { Duration } from "aws-cdk-lib";
import { Construct } from "constructs";
import { QUEUE_DEFINITION } from "../shared/queue/definition.ts";
import { Lambda } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";
import type { MessageQueue } from "./message-queue.ts";

export interface WorkerProps {
  readonly queue: MessageQueue;
  readonly ledger: Ledger;
  readonly environment: Readonly<Record<string, string>>;
  /** Batches that are worked on at the same time. */
  readonly concurrency: number;
}

/** The function of one kind of message, fed by its queue. */
export class Worker extends Construct {
  readonly lambda: Lambda;

  constructor(scope: Construct, id: string, { queue, ledger, environment, concurrency }: WorkerProps) {
    super(scope, id);
    this.lambda = new Lambda(this, "Lambda", {
      entry: `functions/${queue.kind}/handler.ts`,
      description: `Tallyman: works on the ${queue.kind} queue`,
      timeout: Duration.seconds(QUEUE_DEFINITION.functionTimeout),
      memory: 512,
      environment,
      statements: [
        ...ledger.allow({ actions: ["GetItem", "PutItem", "UpdateItem"] }),
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
