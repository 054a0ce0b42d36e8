import { Stack } from "aws-cdk-lib";
import type { Construct } from "constructs";
import { MESSAGE_KINDS } from "../shared/messages/schema.ts";
import { Alarms } from "./alarms.ts";
import { ClusterAccess } from "./cluster-access.ts";
import type { StackConfiguration } from "./configuration.ts";
import { buildEnvironment } from "./environment.ts";
import { Forwarder } from "./forwarder.ts";
import type { Lambda } from "./lambda.ts";
import { Ledger } from "./ledger.ts";
import { MessageQueue } from "./message-queue.ts";
import { Sweeper } from "./sweeper.ts";
import { Worker } from "./worker.ts";

/** One installation. It only composes. */
export class TallymanStack extends Stack {
  constructor(scope: Construct, configuration: StackConfiguration) {
    super(scope, configuration.name, { description: "Tallyman: the verification ledger for Kargo Stages" });
    const ledger = new Ledger(this, "Ledger");
    const queues = MESSAGE_KINDS.map(
      (kind) => new MessageQueue(this, `${capitalize(kind)}Queue`, { kind, prefix: configuration.name }),
    );
    const environment = buildEnvironment(configuration, ledger, queues);
    const { concurrency } = configuration;
    const functions: Record<string, Lambda> = {};
    for (const queue of queues) {
      const id = `${capitalize(queue.kind)}Worker`;
      functions[id] = new Worker(this, id, { queue, ledger, environment, concurrency }).lambda;
    }
    functions.Sweeper = new Sweeper(this, "Sweeper", { ledger, environment }).lambda;
    for (const cluster of configuration.clusters) {
      const id = `Forwarder-${cluster.name}`;
      const forwarder = new Forwarder(this, id, { cluster: cluster.name, ledger, queues, environment });
      new ClusterAccess(this, `Access-${cluster.name}`, {
        cluster,
        functions: { ...functions, Forwarder: forwarder.lambda },
      });
    }
    new Alarms(this, "Alarms", { queues });
  }
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
