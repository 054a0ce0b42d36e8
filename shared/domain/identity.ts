import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";

/** Where a Stage lives: the same Project and Stage names in two clusters are two Stages. */
export interface StageKey {
  readonly cluster: string;
  readonly project: string;
  readonly stage: string;
}

/** `cluster/project/stage`; the key of everything that belongs to one Stage. */
export function formatStageKey(key: StageKey): string {
  return `${key.cluster}/${key.project}/${key.stage}`;
}

/** The reverse of `formatStageKey`; none of the three parts can contain a slash. */
export function parseStageKey(text: string): StageKey {
  const [cluster = "", project = "", stage = ""] = text.split("/");
  return { cluster, project, stage };
}

/**
 * What asked for a verification. Its id follows from this alone, so that a message delivered again or a
 * handler that died half way ends at the same verification.
 */
export type Cause =
  | { readonly kind: "promotion"; readonly promotion: string }
  | { readonly kind: "reverify"; readonly of: string }
  | { readonly kind: "request"; readonly requestId: string }
  /** Another verifier's; `of` is what a request of ours asked it to repeat. Its id is that verifier's own. */
  | { readonly kind: "observed"; readonly of?: string | undefined };

/** A cause that an id follows from. */
export type OwnCause = Exclude<Cause, { readonly kind: "observed" }>;

/** Namespace of all ids that Tallyman derives; a constant for ever, since ids in ledgers hang on it. */
const NAMESPACE = "6f1d0b6a-3c5e-5c0a-9a58-2f7f2f0c4e11";

/**
 * UUIDv5 of a verification: promotion = Stage uid + FreightCollection id + the Promotion that brought it;
 * reverify of X = X; a request without a target = Stage uid + request id.
 */
export function deriveVerificationId(cause: OwnCause, stageUid: string, collectionId: string): string {
  switch (cause.kind) {
    case "promotion":
      return uuidv5(JSON.stringify(["promotion", stageUid, collectionId, cause.promotion]), NAMESPACE);
    case "reverify":
      return uuidv5(JSON.stringify(["reverify", cause.of]), NAMESPACE);
    case "request":
      return uuidv5(JSON.stringify(["request", stageUid, cause.requestId]), NAMESPACE);
  }
}

/** The identity of a request that came as an annotation: seen again, it is the same request. */
export function deriveAnnotationRequestId(kind: "reverify" | "abort", verificationId: string): string {
  return uuidv5(JSON.stringify(["annotation", kind, verificationId]), NAMESPACE);
}

/**
 * The identity of a request that came by webhook: what a receiver's rule makes of one occurrence is one request, however
 * often and in whatever envelope it is delivered.
 */
export function deriveWebhookRequestId(receiver: string, rule: string, occurrence: string): string {
  return uuidv5(JSON.stringify(["webhook", receiver, rule, occurrence]), NAMESPACE);
}

/**
 * Kargo's FreightCollection id: hex SHA-1 of the member Freight names, sorted ascending and joined by `,`.
 * Origins are no part of it.
 */
export function computeCollectionId(freightNames: readonly string[]): string {
  return createHash("sha1")
    .update([...freightNames].sort().join(","))
    .digest("hex");
}

const MAX_NAME = 253;
const COLLECTION_SUFFIX = 7;

/**
 * The name of a verification's AnalysisRun: `<stage>.<verification id>.<first 7 of the collection id>`,
 * lower case, at most 253 characters (the Stage's part is cut, never the id).
 */
export function deriveAnalysisRunName(stage: string, verificationId: string, collectionId: string): string {
  const suffix = `.${verificationId}.${collectionId.slice(0, COLLECTION_SUFFIX)}`.toLowerCase();
  // A part that was cut behind a `-` or `.` would make an invalid DNS subdomain.
  const prefix = stage
    .toLowerCase()
    .slice(0, MAX_NAME - suffix.length)
    .replace(/[-.]+$/, "");
  return `${prefix}${suffix}`;
}

const MAX_LABEL = 63;

/**
 * Kargo's way to make a label value of a Stage name: up to 63 characters as it is, else the first 54
 * without trailing `-`, then `-` and the first 8 hex digits of its SHA-256.
 */
export function shortenLabel(name: string): string {
  if (name.length <= MAX_LABEL) return name;
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${name.slice(0, MAX_LABEL - 9).replace(/-+$/, "")}-${digest}`;
}
