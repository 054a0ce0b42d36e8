import { Duration } from "aws-cdk-lib";
import { Construct } from "constructs";
import { Lambda, type LambdaSetting } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";
import type { MessageQueue } from "./message-queue.ts";

export interface ForwarderProps {
  /** The name of the cluster that it watches; one of the environment's. */
  readonly cluster: string;
  readonly ledger: Ledger;
  /** One of each kind. */
  readonly queues: readonly MessageQueue[];
  /** Its environment is that of {@link buildEnvironment}. */
  readonly setting: LambdaSetting;
}

/**
 * The watch of one cluster in windows: each invocation watches for as long as it may last, and one is started each
 * minute, so that a gap between windows is shorter than that. The lease in the ledger lets only one of them work.
 */
export class Forwarder extends Construct {
  readonly lambda: Lambda;

  constructor(scope: Construct, id: string, { cluster, ledger, queues, setting }: ForwarderProps) {
    super(scope, id);
    this.lambda = new Lambda(this, "Lambda", {
      entry: "functions/forwarder/handler.ts",
      description: `Tallyman: watches the cluster ${cluster}`,
      timeout: Duration.minutes(15),
      memory: 1024,
      setting,
      environment: { TALLYMAN_FORWARDER_CLUSTER: cluster },
      statements: [
        ...ledger.allow({ actions: ["GetItem", "PutItem"], indexes: ["open"] }),
        ...queues.flatMap((queue) => queue.allowSending()),
      ],
    });
    this.lambda.runEachMinute();
  }
}
