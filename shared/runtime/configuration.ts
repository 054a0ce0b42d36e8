import * as z from "zod/mini";
import { parseDuration } from "../domain/duration.ts";
import { Fault } from "../domain/fault.ts";
import type { ClusterPolicy } from "../domain/policy.ts";
import { MESSAGE_KINDS, type MessageKind } from "../messages/schema.ts";
import { QUEUE_DEFINITION } from "../queue/definition.ts";
import type { QueueUrls } from "../queue/message-queue.ts";
import { type BackoffOptions, MESSAGE_BACKOFF } from "./backoff.ts";

/** What proves who we are; a cluster has at most one. */
const CREDENTIALS = [
  "token",
  "tokenFile",
  "tokenSecret",
  "eks",
  "clientCertificate",
  "kubeconfigSecret",
] as const;

const duration = z
  .string()
  .check(z.refine((text) => parseDuration(text) !== undefined, "must be a duration such as 30m or 1h30m"));

/** One cluster in the variable `TALLYMAN_CLUSTERS`. Certificates are PEM. */
const clusterSchema = z
  .strictObject({
    name: z.string().check(z.regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be a DNS label")),
    /** Of the API server; only a kubeconfig brings its own. */
    server: z.optional(z.url()),
    ca: z.optional(z.string()),
    token: z.optional(z.string()),
    /** A file that is read anew each minute, so that the token may rotate. */
    tokenFile: z.optional(z.string()),
    /** Name or ARN of the Secrets Manager secret whose text is the token. */
    tokenSecret: z.optional(z.string()),
    /** The EKS cluster that the AWS identity of this process is let into; the region is this process's by default. */
    eks: z.optional(z.strictObject({ cluster: z.string(), region: z.optional(z.string()) })),
    /** Name or ARN of the Secrets Manager secret whose text is a kubeconfig as JSON. */
    kubeconfigSecret: z.optional(z.string()),
    clientCertificate: z.optional(z.object({ cert: z.string(), key: z.string() })),
    insecureSkipTlsVerify: z.optional(z.boolean()),
    /** Whether Tallyman is the verifier, or another one is; a Stage may say otherwise. Default: Tallyman. */
    mode: z.optional(z.enum(["managed", "companion"])),
    /** How long a verification may take, and Freight wait for its own to start; a Stage may say otherwise. */
    deadline: z.optional(duration),
    startDeadline: z.optional(duration),
    /** Only this shard's Stages are ours; `""` for Stages without one. Every Stage by default. */
    shard: z.optional(
      z.string().check(z.regex(/^([a-z0-9A-Z]([-\w.]{0,61}[a-z0-9A-Z])?)?$/, "must be a shard's name")),
    ),
    /** The name to expect in the server's certificate when it is not the address. */
    tlsServerName: z.optional(z.string()),
  })
  .check(({ value, issues }) => {
    const given = CREDENTIALS.filter((each) => value[each] !== undefined);
    if (given.length > 1) issues.push(problem(value, `has ${given.join(" and ")}; leave one`));
    const brings = value.kubeconfigSecret !== undefined;
    if (brings === (value.server !== undefined)) {
      issues.push(
        problem(value, brings ? "has a server beside its kubeconfig; leave it out" : "has no server"),
      );
    }
  });

const problem = (input: unknown, message: string) => ({ code: "custom" as const, input, message, path: [] });

export type ClusterSettings = z.infer<typeof clusterSchema>;

/** Everything a function is told by its environment. AWS endpoints and regions are the SDK's own variables. */
export interface Configuration {
  readonly table: string;
  readonly queues: Readonly<Record<MessageKind, QueueUrls>>;
  /** At least one; the first is the cluster of messages that name none. */
  readonly clusters: readonly ClusterSettings[];
  readonly controllerInstanceId?: string | undefined;
  readonly backoff: BackoffOptions;
  readonly maxReceives: number;
  /** Days that closed verifications are kept; for ever when absent. */
  readonly retentionDays?: number | undefined;
}

/**
 * The shortest retention, in days. A message may be on its way for 28 (14 in its queue and 14 in the dead-letter queue),
 * and must then still find what it is about.
 */
export const MIN_RETENTION_DAYS = 30;

/** The environment variables of one kind's queues. */
export function queueVariables(kind: MessageKind): {
  readonly queue: string;
  readonly deadLetterQueue: string;
} {
  const name = kind.toUpperCase();
  return { queue: `TALLYMAN_${name}_QUEUE_URL`, deadLetterQueue: `TALLYMAN_${name}_DLQ_URL` };
}

/**
 * Reads the configuration from environment variables.
 *
 * @throws Fault `Invalid` with one reason for each variable that is missing or wrong.
 */
export function readConfiguration(env: Readonly<Record<string, string | undefined>>): Configuration {
  const reasons: string[] = [];
  const need = (name: string): string => {
    const value = env[name];
    if (value === undefined || value === "") reasons.push(`${name}: is not set`);
    return value ?? "";
  };
  const number = (name: string, fallback: number): number => {
    const value = env[name];
    if (value === undefined || value === "") return fallback;
    const parsed = Number(value);
    if (!Number.isFinite(parsed) || parsed <= 0) reasons.push(`${name}: ${value} is not a positive number`);
    return parsed;
  };
  const queues = Object.fromEntries(
    MESSAGE_KINDS.map((kind) => {
      const names = queueVariables(kind);
      return [kind, { queue: need(names.queue), deadLetterQueue: need(names.deadLetterQueue) }];
    }),
  ) as Record<MessageKind, QueueUrls>;
  const configuration: Configuration = {
    table: need("TALLYMAN_TABLE"),
    queues,
    clusters: readClusters(need("TALLYMAN_CLUSTERS"), reasons),
    controllerInstanceId: env.TALLYMAN_CONTROLLER_INSTANCE_ID || undefined,
    backoff: {
      base: number("TALLYMAN_BACKOFF_BASE_SECONDS", MESSAGE_BACKOFF.base),
      cap: number("TALLYMAN_BACKOFF_CAP_SECONDS", MESSAGE_BACKOFF.cap),
    },
    maxReceives: number("TALLYMAN_MAX_RECEIVES", QUEUE_DEFINITION.maxReceives),
    retentionDays: readRetention(env.TALLYMAN_RETENTION_DAYS, reasons),
  };
  if (reasons.length > 0) throw new Fault("Invalid", reasons);
  return configuration;
}

function readRetention(text: string | undefined, reasons: string[]): number | undefined {
  if (text === undefined || text === "") return undefined;
  const days = Number(text);
  if (!Number.isInteger(days) || days < MIN_RETENTION_DAYS)
    reasons.push(`TALLYMAN_RETENTION_DAYS: ${text} is not a whole number of at least ${MIN_RETENTION_DAYS}`);
  return days;
}

function readClusters(text: string, reasons: string[]): readonly ClusterSettings[] {
  if (text === "") return [];
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    reasons.push("TALLYMAN_CLUSTERS: is not JSON");
    return [];
  }
  const result = z.array(clusterSchema).check(z.minLength(1)).safeParse(parsed);
  if (result.success) {
    const names = result.data.map((cluster) => cluster.name);
    for (const name of new Set(names.filter((each, index) => names.indexOf(each) !== index))) {
      reasons.push(`TALLYMAN_CLUSTERS: the name ${name} is used twice`);
    }
    return result.data;
  }
  for (const issue of result.error.issues) {
    reasons.push(`TALLYMAN_CLUSTERS.${issue.path.join(".")}: ${issue.message}`);
  }
  return [];
}

/** How the installation deals with a configured cluster. */
export function toPolicy({ mode, shard, deadline, startDeadline }: ClusterSettings): ClusterPolicy {
  return {
    ...(mode === undefined ? {} : { mode }),
    ...(shard === undefined ? {} : { shard }),
    ...(deadline === undefined ? {} : { deadline: parseDuration(deadline) }),
    ...(startDeadline === undefined ? {} : { startDeadline: parseDuration(startDeadline) }),
  };
}
