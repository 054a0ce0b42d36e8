import { Stack, type StackProps, Tags } from "aws-cdk-lib";
import type { Construct } from "constructs";
import { MESSAGE_KINDS } from "../shared/messages/schema.ts";
import { Alarms } from "./alarms.ts";
import { ClusterAccess } from "./cluster-access.ts";
import type { StackConfiguration } from "./configuration.ts";
import { Dashboard } from "./dashboard.ts";
import { buildEnvironment } from "./environment.ts";
import { EventFeed } from "./event-feed.ts";
import { Forwarder } from "./forwarder.ts";
import type { Lambda } from "./lambda.ts";
import { Ledger } from "./ledger.ts";
import { MessageQueue } from "./message-queue.ts";
import { Sweeper } from "./sweeper.ts";
import { Webhook } from "./webhook.ts";
import { Worker } from "./worker.ts";

/** One installation, under the configuration's name. It only composes. */
export class TallymanStack extends Stack {
  /** `props` are CDK's own, `env` above all. */
  constructor(scope: Construct, configuration: StackConfiguration, props: StackProps = {}) {
    const { name, clusters, concurrency, logRetentionDays, vpc } = configuration;
    super(scope, name, { description: "Tallyman: the verification ledger for Kargo Stages", ...props });
    const ledger = new Ledger(this, "Ledger", {
      outlivesStack: configuration.removalPolicy === "retain",
      hasStream: configuration.eventFeed,
    });
    const queues = MESSAGE_KINDS.map(
      (kind) => new MessageQueue(this, `${capitalize(kind)}Queue`, { kind, prefix: name }),
    );
    const environment = buildEnvironment(configuration, ledger, queues);
    const setting = { environment, logRetentionDays, vpc };
    const everywhere: Record<string, Lambda> = {};
    for (const queue of queues) {
      const id = `${capitalize(queue.kind)}Worker`;
      everywhere[id] = new Worker(this, id, { queue, ledger, setting, concurrency }).lambda;
    }
    everywhere.Sweeper = new Sweeper(this, "Sweeper", { ledger, setting }).lambda;
    const functions = { ...everywhere };
    for (const cluster of clusters) {
      const id = `Forwarder-${cluster.name}`;
      const { lambda } = new Forwarder(this, id, { cluster: cluster.name, ledger, queues, setting });
      functions[id] = lambda;
      new ClusterAccess(this, `Access-${cluster.name}`, {
        cluster,
        functions: { ...everywhere, Forwarder: lambda },
      });
    }
    const { notifications, receivers } = configuration;
    if (receivers.length > 0) {
      functions.Webhook = new Webhook(this, "Webhook", { receivers, ledger, queues, setting }).lambda;
    }
    const feed = configuration.eventFeed
      ? new EventFeed(this, "EventFeed", { name, ledger, setting, notifications })
      : undefined;
    const watched = {
      service: name,
      clusters: clusters.map((each) => each.name),
      receivers: receivers.map((each) => each.name),
      queues,
      ledger,
      functions,
    };
    new Alarms(this, "Alarms", {
      ...watched,
      undelivered: feed?.undelivered,
      topic: configuration.alarmTopic,
    });
    new Dashboard(this, "Dashboard", watched);
    for (const [key, value] of Object.entries(configuration.tags)) Tags.of(this).add(key, value);
  }
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
