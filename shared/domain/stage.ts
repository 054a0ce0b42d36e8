import type { FreightArtifacts, FreightCollection } from "./freight.ts";

/** A request that a Stage's annotation carries. `value` is the annotation as it stands, for its removal. */
export interface AnnotationRequest {
  readonly id: string;
  readonly actor?: string | undefined;
  readonly controlPlane?: boolean | undefined;
  readonly value: string;
}

export interface TemplateReference {
  readonly name: string;
  readonly kind: "AnalysisTemplate" | "ClusterAnalysisTemplate";
}

/** A Stage's `spec.verification`. */
export interface VerificationConfig {
  readonly analysisTemplates: readonly TemplateReference[];
  readonly args: readonly { readonly name: string; readonly value?: string | undefined }[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The artifacts of the Freight from one origin. */
export interface OriginArtifacts extends FreightArtifacts {
  readonly origin: string;
}

/** What a Stage's `status.freightHistory[].verificationHistory[]` says of one verification. */
export interface StageVerificationEntry {
  readonly id: string;
  readonly phase: string;
}

/**
 * A projection of a Stage: what verification needs of it and nothing else. It travels in messages, so a
 * handler decides on it without a call to the API server; `resourceVersion` says how old it is.
 */
export interface StageSnapshot {
  readonly uid: string;
  readonly project: string;
  readonly name: string;
  readonly resourceVersion: string;
  readonly shard?: string | undefined;
  readonly deleting: boolean;
  /** No promotion steps: the Stage only passes Freight on, and nothing is verified. */
  readonly controlFlow: boolean;
  readonly verification?: VerificationConfig | undefined;
  readonly vars: readonly { readonly name: string; readonly value: string }[];
  /** Origin strings of `spec.requestedFreight`. */
  readonly requestedOrigins: readonly string[];
  /** `status.health.status`, absent while unknown to Kargo itself. */
  readonly health?: string | undefined;
  /** What there is to doubt that `health` was observed after the last Promotion; absent where nothing speaks against it. */
  readonly healthDoubts?: readonly string[] | undefined;
  readonly currentPromotion?: string | undefined;
  readonly lastPromotion?:
    | { readonly name: string; readonly phase?: string | undefined; readonly finishedAt?: string | undefined }
    | undefined;
  /** `status.freightHistory[0]`. */
  readonly current?: FreightCollection | undefined;
  /**
   * What the Freight of `current` consists of, beside it so that what is stored of a collection stays small. Only
   * where an argument has an expression, and only what fits into a message: of other Freight the object itself tells.
   */
  readonly artifacts?: readonly OriginArtifacts[] | undefined;
  /** Newest first; every collection, since an older one may hold an open verification. */
  readonly history: readonly {
    readonly collectionId: string;
    readonly verifications: readonly StageVerificationEntry[];
  }[];
  readonly reverify?: AnnotationRequest | undefined;
  readonly abort?: AnnotationRequest | undefined;
  /** What to do while origins are missing; annotation `tallyman.dev/missing-freight`. */
  readonly missingFreight: "verify-partial" | "hold";
  /** What becomes of a verification whose Freight is replaced while it runs; annotation `tallyman.dev/on-supersede`. */
  readonly onSupersede?: "follow" | "abort" | undefined;
  /** Who verifies it, where that differs from the cluster's mode; annotation `tallyman.dev/mode`. */
  readonly mode?: "managed" | "companion" | undefined;
  /** Seconds that a verification may take; annotation `tallyman.dev/deadline`. 0: no limit. */
  readonly deadline?: number | undefined;
  /** Seconds that Freight may wait for its verification to start; annotation `tallyman.dev/start-deadline`. */
  readonly startDeadline?: number | undefined;
  /** What a change of its templates leads to; annotation `tallyman.dev/on-template-change`. */
  readonly onTemplateChange?: "reverify" | undefined;
  /** What its `tallyman.dev/` annotations say that cannot be used, one sentence each. */
  readonly warnings?: readonly string[] | undefined;
}
