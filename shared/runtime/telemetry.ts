/** Structured log lines; `fields` are what one would search for. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** Counters and durations; on Lambda they are written in embedded metric format. */
export interface Meter {
  /** Adds to a counter of this invocation. */
  count(name: MetricName, value?: number): void;
  /** Records a duration in milliseconds. */
  duration(name: MetricName, milliseconds: number): void;
}

/** Every metric there is; alarms and the dashboard name the same ones. */
export type MetricName =
  | "MessagesProcessed"
  | "MessagesRetried"
  | "MessagesDeadLettered"
  | "VerificationsStarted"
  | "VerificationsSuccessful"
  | "VerificationsFailed"
  | "VerificationsError"
  | "VerificationsAborted"
  | "VerificationsInconclusive"
  | "RequestsRefused"
  | "SecondVerifierNoticed"
  | "SweepRepairs"
  | "StaleStages"
  | "SweepOpen"
  | "ClustersNotSwept"
  | "DetectionLag"
  | "ForwarderMessages"
  | "ForwarderInvalidObjects"
  | "AuthorizedStagesMalformed"
  | "ForwarderSilence"
  | "ForwarderHeartbeat"
  | "WebhooksAccepted"
  | "WebhooksRepeated"
  | "WebhooksUnmatched"
  | "WebhooksRejected"
  | "WebhooksDeferred"
  | "WebhookCommandsRefused";

/** Drops everything; for tools that have no use for telemetry. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };
export const silentMeter: Meter = { count() {}, duration() {} };
