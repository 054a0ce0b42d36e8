import * as z from "zod/mini";
import en from "zod/v4/locales/en.js";

/**
 * The message contract: CloudEvents 1.0 as JSON in the SQS body. The only definition there is: it validates,
 * its types are the messages' types, and docs/messages.schema.json comes from it.
 */

// The small build of zod knows no language of its own, and "Invalid input" helps nobody.
z.config(en());

const text = (max: number) => z.string().check(z.minLength(1), z.maxLength(max));
const loose = (max: number) => z.string().check(z.maxLength(max));
const label = z
  .string()
  .check(
    z.maxLength(63),
    z.regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be a DNS label: lower-case letters, digits and `-`"),
  );
const subdomain = z
  .string()
  .check(
    z.maxLength(253),
    z.regex(
      /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
      "must be a Kubernetes object name: lower-case letters, digits, `-` and `.`",
    ),
  );
const uuidLike = z
  .string()
  .check(z.regex(/^[0-9a-zA-Z-]{1,64}$/, "must be a verification id: up to 64 letters, digits and `-`"));
const resourceVersion = z.string().check(z.regex(/^[0-9]{1,20}$/, "must be a decimal resourceVersion"));
const count = z.number().check(z.int(), z.minimum(0));
const freight = z.object({ name: text(253), origin: text(320) });
const collection = z.object({ id: text(64), freight: z.array(freight).check(z.maxLength(100)) });
/** Any text in artifacts is bounded by what the forwarder lets into a message for one Freight. */
const detail = z.optional(loose(16_384));
const artifacts = z.object({
  origin: text(320),
  commits: z
    .array(
      z.object({
        repoURL: text(16_384),
        id: detail,
        branch: detail,
        tag: detail,
        message: detail,
        author: detail,
        committer: detail,
        subscriptionName: detail,
      }),
    )
    .check(z.maxLength(2000)),
  images: z
    .array(
      z.object({
        repoURL: text(16_384),
        tag: detail,
        digest: detail,
        annotations: z.optional(z.record(loose(16_384), loose(16_384))),
        subscriptionName: detail,
      }),
    )
    .check(z.maxLength(2000)),
  charts: z
    .array(z.object({ repoURL: text(16_384), name: detail, version: detail, subscriptionName: detail }))
    .check(z.maxLength(2000)),
});
const stringMap = z.record(loose(317), loose(4096));

const cause = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("promotion"), promotion: loose(253) }),
  z.object({ kind: z.literal("reverify"), of: uuidLike }),
  z.object({ kind: z.literal("request"), requestId: text(128) }),
]);

const annotationRequest = z.object({
  id: text(256),
  actor: z.optional(loose(512)),
  controlPlane: z.optional(z.boolean()),
  value: loose(4096),
});

const stageSnapshot = z.object({
  kind: z.literal("Stage"),
  uid: text(128),
  project: label,
  name: subdomain,
  resourceVersion,
  shard: z.optional(loose(253)),
  deleting: z.boolean(),
  controlFlow: z.boolean(),
  verification: z.optional(
    z.object({
      analysisTemplates: z
        .array(z.object({ name: text(253), kind: z.enum(["AnalysisTemplate", "ClusterAnalysisTemplate"]) }))
        .check(z.maxLength(100)),
      args: z.array(z.object({ name: text(253), value: z.optional(loose(16_384)) })).check(z.maxLength(200)),
      labels: stringMap,
      annotations: stringMap,
    }),
  ),
  vars: z.array(z.object({ name: text(253), value: loose(16_384) })).check(z.maxLength(200)),
  requestedOrigins: z.array(text(320)).check(z.maxLength(100)),
  health: z.optional(loose(64)),
  healthDoubts: z.optional(z.array(loose(512)).check(z.maxLength(10))),
  currentPromotion: z.optional(loose(253)),
  lastPromotion: z.optional(
    z.object({ name: text(253), phase: z.optional(loose(64)), finishedAt: z.optional(loose(64)) }),
  ),
  current: z.optional(collection),
  artifacts: z.optional(z.array(artifacts).check(z.maxLength(100))),
  history: z
    .array(
      z.object({
        collectionId: text(64),
        verifications: z.array(z.object({ id: loose(256), phase: loose(64) })).check(z.maxLength(100)),
      }),
    )
    .check(z.maxLength(100)),
  reverify: z.optional(annotationRequest),
  abort: z.optional(annotationRequest),
  onTemplateChange: z.optional(z.literal("reverify")),
  missingFreight: z.enum(["verify-partial", "hold"]),
  onSupersede: z.optional(z.enum(["follow", "abort"])),
  mode: z.optional(z.enum(["managed", "companion"])),
  deadline: z.optional(z.number().check(z.minimum(0))),
  startDeadline: z.optional(z.number().check(z.minimum(0))),
  warnings: z.optional(z.array(loose(512)).check(z.maxLength(20))),
});

const analysisRunSnapshot = z.object({
  kind: z.literal("AnalysisRun"),
  uid: text(128),
  project: label,
  name: subdomain,
  resourceVersion,
  stage: subdomain,
  collectionId: z.optional(text(64)),
  identity: z.optional(
    z.object({
      id: uuidLike,
      stageUid: text(128),
      cause,
      promotion: loose(253),
      collection,
      missingOrigins: z.array(text(320)).check(z.maxLength(100)),
      actor: z.optional(loose(512)),
    }),
  ),
  phase: loose(64),
  message: z.optional(loose(4096)),
  startedAt: z.optional(loose(64)),
  completedAt: z.optional(loose(64)),
  terminating: z.boolean(),
  deleted: z.boolean(),
  metrics: z
    .array(
      z.object({
        name: text(253),
        phase: loose(64),
        message: z.optional(loose(1024)),
        dryRun: z.boolean(),
        count,
        successful: count,
        failed: count,
        inconclusive: count,
        error: count,
        measurements: z
          .array(
            z.object({
              phase: loose(64),
              value: z.optional(loose(1024)),
              message: z.optional(loose(1024)),
              finishedAt: z.optional(loose(64)),
            }),
          )
          .check(z.maxLength(50)),
      }),
    )
    .check(z.maxLength(50)),
  omittedMetrics: count,
  omittedCounts: z.optional(
    z.object({ count, successful: count, failed: count, inconclusive: count, error: count }),
  ),
  /** False when the sender knows that the phase is as it was: the handler then needs no read. */
  phaseChanged: z.optional(z.boolean()),
});

/** A template that a Stage's verification uses, as it is now. */
const templateState = z.object({
  kind: z.literal("Template"),
  template: z.enum(["AnalysisTemplate", "ClusterAnalysisTemplate"]),
  name: subdomain,
  generation: count,
  hash: text(64),
});

// Strict: a misspelt `verificationId` must not turn a request about one verification into one about another.
const data = z.strictObject({
  cluster: z.optional(label),
  project: label,
  stage: subdomain,
  /** Any text: what the ledger does not know is refused there, with a record. */
  verificationId: z.optional(text(256)),
  actor: z.optional(text(512)),
  reason: z.optional(text(1024)),
  observed: z.optional(z.discriminatedUnion("kind", [stageSnapshot, analysisRunSnapshot, templateState])),
});

/** Kinds of message, which are also the names of the queues. */
export const MESSAGE_KINDS = ["verify", "abort", "reverify"] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];

/** The CloudEvents `type` of a kind. */
export function formatType(kind: MessageKind): string {
  return `dev.tallyman.${kind}`;
}

/** The envelope; unknown attributes pass, as CloudEvents demands of extensions. */
export const messageSchema = z.object({
  specversion: z.literal("1.0"),
  id: text(256),
  source: text(2048),
  type: z.enum(["dev.tallyman.verify", "dev.tallyman.abort", "dev.tallyman.reverify"]),
  time: z.optional(z.iso.datetime({ offset: true })),
  subject: z.optional(loose(1024)),
  datacontenttype: z.optional(z.literal("application/json")),
  data,
});

export type Message = z.infer<typeof messageSchema>;
export type MessageData = Message["data"];
export type Observed = NonNullable<MessageData["observed"]>;
export type ObservedStage = Extract<Observed, { kind: "Stage" }>;
export type ObservedRun = Extract<Observed, { kind: "AnalysisRun" }>;
