import * as z from "zod";
import { parseDuration } from "../shared/domain/duration.ts";
import { PHASES } from "../shared/domain/phase.ts";
import { MIN_RETENTION_DAYS } from "../shared/runtime/configuration.ts";
import { type ReceiverSettings, receiversSchema } from "../shared/webhooks/receiver.ts";

/** The key in the `context` of cdk.json, or of `cdk deploy --context`, that holds the configuration. */
export const CONTEXT_KEY = "tallyman";

/** Lambda refuses a function whose environment variables are together larger, in bytes. */
const ENVIRONMENT_LIMIT = 4096;
/** What the variables besides the clusters take: queue URLs, the table's name, log level. */
const ENVIRONMENT_REST = 1200;

const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const LABEL_HELP = "must be a DNS label: up to 63 lower-case letters, digits and `-`, not first or last";

/** The name or ARN of a secret; what it holds must not be in a template, which many may read. */
const secretId = (what: string) =>
  z
    .string()
    .regex(
      /^[A-Za-z0-9/_+=.@:-]{1,512}$/,
      `must be the name or the ARN of a Secrets Manager secret that holds the ${what}, not the ${what}`,
    )
    .refine(
      (text) => !/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/.test(text),
      "is a token; put it into a Secrets Manager secret and name that here",
    );

/** EKS, which lets the functions in by their IAM roles: no secret is anywhere. */
const eksSchema = z.strictObject({
  /** The cluster's name in EKS. */
  cluster: z.string().regex(/^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$/, "must be the name of an EKS cluster"),
  /** Default: the stack's region. */
  region: z
    .string()
    .regex(/^[a-z]{2}(-[a-z]+)+-\d$/, "must be a region, for example eu-central-1")
    .optional(),
  /**
   * Whether the stack makes the access entries that let its roles in. False for a cluster of another account or
   * region, or where somebody else makes them.
   */
  accessEntries: z.boolean().default(true),
});

const duration = z
  .string()
  .refine((text) => parseDuration(text) !== undefined, "must be a duration such as 30m or 1h30m");

/** How a cluster lets us in. */
const CREDENTIALS = ["eks", "tokenSecret", "kubeconfigSecret"] as const;

/** A cluster that Tallyman verifies Stages in. */
const clusterSchema = z
  .strictObject({
    /** Stands in the ledger's keys: a cluster that is renamed has no history. */
    name: z.string().regex(dnsLabel, LABEL_HELP),
    server: z
      .url({
        protocol: /^https$/,
        error: "must be the https URL of the API server, for example https://kubernetes.example.com:6443",
      })
      .optional(),
    eks: eksSchema.optional(),
    /** The secret whose text is a ServiceAccount's token and nothing else. */
    tokenSecret: secretId("token").optional(),
    /** The secret whose text is a kubeconfig as JSON. */
    kubeconfigSecret: secretId("kubeconfig").optional(),
    /** Whether Tallyman is the verifier (`managed`), or another one is (`companion`); a Stage may say otherwise. */
    mode: z.enum(["managed", "companion"], "must be managed or companion").optional(),
    /** How long a verification may take; a Stage may say otherwise. Default: for ever. */
    deadline: duration.optional(),
    /** How long Freight may wait for its verification to start; a Stage may say otherwise. Default: for ever. */
    startDeadline: duration.optional(),
    /** Only this shard's Stages are this installation's; `""` for Stages without one. Default: every Stage. */
    shard: z
      .string()
      .regex(
        /^([a-z0-9A-Z]([-\w.]{0,61}[a-z0-9A-Z])?)?$/,
        "must be a shard's name, or empty for Stages without one",
      )
      .optional(),
    ca: z
      .string()
      .regex(/^-----BEGIN CERTIFICATE-----\n/, "must be a certificate as PEM, with line breaks as \\n")
      .optional(),
    /** The name to expect in the server's certificate when it is not the address. */
    tlsServerName: z.string().min(1, "must not be empty; leave it out").optional(),
  })
  .superRefine((cluster, context) => {
    const given = CREDENTIALS.filter((each) => cluster[each] !== undefined);
    if (given.length !== 1) {
      const what = given.length === 0 ? "has no" : `has ${given.join(" and ")}, but must have one`;
      context.addIssue(`${what} way in; give it one of ${CREDENTIALS.join(", ")}`);
    }
    const { kubeconfigSecret } = cluster;
    for (const key of ["server", "ca", "tlsServerName"] as const) {
      if (kubeconfigSecret !== undefined && cluster[key] !== undefined) {
        context.addIssue({ code: "custom", path: [key], message: "is in the kubeconfig; leave it out" });
      }
    }
    if (kubeconfigSecret === undefined && cluster.server === undefined) {
      context.addIssue({ code: "custom", path: ["server"], message: "is missing; add a string" });
    }
  });

/** Days that CloudWatch Logs can keep a log. */
const LOG_DAYS = [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653] as const;

/** Where the functions run, for API servers with private addresses. */
const vpcSchema = z.strictObject({
  /** Subnets with a way to DynamoDB, SQS, STS, Secrets Manager and CloudWatch Logs: a NAT gateway or endpoints. */
  subnetIds: z
    .array(z.string().regex(/^subnet-[0-9a-f]+$/, "must be a subnet's id"))
    .min(1, "must name a subnet"),
  securityGroupIds: z
    .array(z.string().regex(/^sg-[0-9a-f]+$/, "must be a security group's id"))
    .min(1, "must name a security group")
    .max(5, "must be at most 5, the most that Lambda accepts"),
});

const topicArn = z
  .string()
  .regex(/^arn:aws[\w-]*:sns:[a-z0-9-]+:\d{12}:[\w-]{1,256}$/, "must be the ARN of an SNS topic");

/** Who is told of which phases. */
const notificationSchema = z.strictObject({
  /** Its policy must let events.amazonaws.com publish; AWS Chatbot takes it to a chat channel. */
  topic: topicArn,
  phases: z
    .array(z.enum(PHASES, `must be one of ${PHASES.join(", ")}`))
    .min(1, "must name a phase")
    .default(["Failed", "Error"]),
});

const configurationSchema = z.strictObject({
  /** Begins the names of the stack and of its queues. */
  name: z.string().regex(dnsLabel, LABEL_HELP).max(40, "must be at most 40 characters").default("tallyman"),
  vpc: vpcSchema.optional(),
  /** The SNS topic that alarms are sent to. */
  alarmTopic: topicArn.optional(),
  /** Whether changes of phase are published on an event bus, for anyone to subscribe. */
  eventFeed: z.boolean().default(true),
  /** SNS topics that are told of changes of phase. */
  notifications: z.array(notificationSchema).default([]),
  /** Senders of webhooks and what their deliveries ask for. Without any there is no door. */
  receivers: z._default(receiversSchema, []),
  /** Days that the functions' logs are kept. */
  logRetentionDays: z
    .literal(LOG_DAYS, `must be one of ${LOG_DAYS.join(", ")}, which CloudWatch Logs knows`)
    .default(30),
  /** Days that closed verifications and settled requests stay in the ledger. Default: for ever. */
  retentionDays: z
    .int("must be a whole number")
    .min(MIN_RETENTION_DAYS, `must be at least ${MIN_RETENTION_DAYS}: messages may be on their way for 28`)
    .optional(),
  /** Of every resource. */
  tags: z.record(z.string().min(1).max(128), z.string().max(256)).default({}),
  /** What becomes of the ledger when the stack is deleted: it stays, or it goes with all that it holds. */
  removalPolicy: z.enum(["retain", "destroy"], "must be retain or destroy").default("retain"),
  /** The first is the cluster of messages that name none. */
  clusters: z.array(clusterSchema).min(1, "must name at least one cluster"),
  /** Becomes the label `argo-rollouts.argoproj.io/controller-instance-id` of every AnalysisRun. */
  controllerInstanceId: z.string().min(1, "must not be empty; leave it out").optional(),
  /**
   * Batches of one queue that are worked on at the same time. Bounds what hits the API servers; reserved
   * concurrency would make Lambda refuse batches and burn their receives instead.
   */
  concurrency: z
    .int("must be a whole number")
    .min(2, "must be at least 2, the least that Lambda accepts")
    .max(1000, "must be at most 1000, the most that Lambda accepts")
    .default(10),
  logLevel: z
    .enum(["debug", "info", "warn", "error"], "must be one of debug, info, warn, error")
    .default("info"),
});

export type ClusterConfiguration = z.infer<typeof clusterSchema>;
export type NotificationConfiguration = z.infer<typeof notificationSchema>;
export type StackConfiguration = z.infer<typeof configurationSchema>;

/** A configuration that cannot be deployed; the message has a line for each key that is wrong. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the configuration in cdk.json cannot be used:\n${problems.map((each) => `  ${each}`).join("\n")}`);
    this.problems = problems;
  }
}

/**
 * Validates what the context holds under {@link CONTEXT_KEY}; text is taken for JSON, as `--context` passes it.
 *
 * @throws ConfigurationError
 */
export function parseConfiguration(value: unknown): StackConfiguration {
  if (value === undefined) {
    throw new ConfigurationError([
      `context.${CONTEXT_KEY}: is missing; add {"clusters":[{"name":…,"server":…,"ca":…,"eks":{"cluster":…}}]}`,
    ]);
  }
  const result = configurationSchema.safeParse(typeof value === "string" ? parseText(value) : value);
  if (!result.success) throw new ConfigurationError(result.error.issues.map(describe));
  const problems = [
    ...findMute(result.data),
    ...findDuplicates(result.data.clusters),
    ...findOverflow(result.data.clusters),
    ...findReceiverProblems(result.data),
  ];
  if (problems.length > 0) throw new ConfigurationError(problems);
  return result.data;
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ConfigurationError([
      `context.${CONTEXT_KEY}: is text, but not JSON; check the quotes around --context '${CONTEXT_KEY}={…}'`,
    ]);
  }
}

function describe(issue: z.core.$ZodIssue): string {
  const key = [CONTEXT_KEY, ...issue.path].reduce<string>(
    (path, part) => (typeof part === "number" ? `${path}[${part}]` : `${path}.${String(part)}`),
    "context",
  );
  if (issue.code === "unrecognized_keys") {
    return `${key}: ${issue.keys.join(", ")} is unknown; remove it or mend its spelling`;
  }
  if (issue.code === "invalid_type" && issue.input === undefined && /undefined/.test(issue.message)) {
    return `${key}: is missing; add ${issue.expected === "array" ? "a list" : `a ${issue.expected}`}`;
  }
  return `${key}: ${issue.message}`;
}

function findMute({ eventFeed, notifications }: StackConfiguration): string[] {
  if (eventFeed || notifications.length === 0) return [];
  return [`context.${CONTEXT_KEY}.notifications: need the event feed; leave eventFeed out or set it to true`];
}

function findDuplicates(clusters: readonly ClusterConfiguration[]): string[] {
  const names = clusters.map((cluster) => cluster.name);
  return names.flatMap((name, index) =>
    names.indexOf(name) === index
      ? []
      : [`context.${CONTEXT_KEY}.clusters[${index}].name: ${name} is used twice; give each its own`],
  );
}

/** What only the deployment knows: which clusters there are, and that a template must hold no secret. */
function findReceiverProblems({ receivers, clusters }: StackConfiguration): string[] {
  const names = clusters.map((cluster) => cluster.name);
  return receivers.flatMap((receiver: ReceiverSettings, at) => {
    const key = `context.${CONTEXT_KEY}.receivers[${at}]`;
    const secrets = receiver.secrets.flatMap((secret, index) =>
      typeof secret === "string"
        ? []
        : [
            `${key}.secrets[${index}]: must be the name or the ARN of a Secrets Manager secret; ` +
              "anything else is for the embedded stack",
          ],
    );
    const strangers = receiver.rules.flatMap(({ cluster }, index) =>
      // One with a path in it is known when a delivery comes.
      cluster === undefined || !dnsLabel.test(cluster) || names.includes(cluster)
        ? []
        : [`${key}.rules[${index}].cluster: ${cluster} is none of ${names.join(", ")}`],
    );
    return [...secrets, ...strangers];
  });
}

function findOverflow(clusters: readonly ClusterConfiguration[]): string[] {
  const bytes = Buffer.byteLength(JSON.stringify(clusters)) + ENVIRONMENT_REST;
  if (bytes <= ENVIRONMENT_LIMIT) return [];
  return [
    `context.${CONTEXT_KEY}.clusters: take about ${bytes} bytes of a function's environment, of which Lambda allows ` +
      `${ENVIRONMENT_LIMIT}; deploy some of them as a stack of another name, or shorten \`ca\` to one certificate`,
  ];
}
