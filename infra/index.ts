/**
 * What other CDK apps may build with: `import { TallymanStack } from "tallyman/infra"`. The stack is a whole
 * installation; the constructs are its parts, for an app that composes its own. The functions' code is bundled from
 * this package's sources when the app is synthesized.
 */
export { Alarms, type AlarmsProps } from "./alarms.ts";
export { ClusterAccess, type ClusterAccessProps } from "./cluster-access.ts";
export {
  type ClusterConfiguration,
  ConfigurationError,
  type NotificationConfiguration,
  parseConfiguration,
  type StackConfiguration,
} from "./configuration.ts";
export { Dashboard, type DashboardProps } from "./dashboard.ts";
export { buildEnvironment, type EnvironmentProps } from "./environment.ts";
export { EventFeed, type EventFeedProps } from "./event-feed.ts";
export { Forwarder, type ForwarderProps } from "./forwarder.ts";
export { Lambda, type LambdaProps, type LambdaSetting } from "./lambda.ts";
export { type IndexName, Ledger, type LedgerAccess, type LedgerAction, type LedgerProps } from "./ledger.ts";
export { MessageQueue, type MessageQueueProps } from "./message-queue.ts";
export { TallymanStack } from "./stack.ts";
export { Sweeper, type SweeperProps } from "./sweeper.ts";
export { Webhook, type WebhookProps } from "./webhook.ts";
export { Worker, type WorkerProps } from "./worker.ts";
