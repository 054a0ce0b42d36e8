import type { AnalysisRunSnapshot } from "../../../shared/domain/analysis-run.ts";
import type { FreightReference } from "../../../shared/domain/freight.ts";
import {
  computeCollectionId,
  deriveAnalysisRunName,
  deriveVerificationId,
  type StageKey,
} from "../../../shared/domain/identity.ts";
import type { Verification } from "../../../shared/domain/verification.ts";

/** A Stage of its own for each test, so that tests share a table without meeting. */
export function makeKey(stage: string): StageKey {
  return { cluster: "harbour", project: "lighthouse", stage };
}

export type Overrides = Partial<Omit<Verification, "collection">> & {
  readonly freight?: readonly FreightReference[];
};

/** A pending verification; ids, collection and run name are derived as the real ones are. */
export function makeVerification(
  key: StageKey,
  promotion: string,
  { freight = [{ name: "a".repeat(40), origin: "Warehouse/lamps" }], ...overrides }: Overrides = {},
): Verification {
  const collection = { id: computeCollectionId(freight.map((f) => f.name)), freight };
  const cause = { kind: "promotion", promotion } as const;
  const id = deriveVerificationId(cause, `uid-${key.stage}`, collection.id);
  return {
    key,
    id,
    stageUid: `uid-${key.stage}`,
    cause,
    promotion,
    collection,
    missingOrigins: [],
    phase: "Pending",
    message: "",
    createdAt: 1_764_500_000_000,
    run: { name: deriveAnalysisRunName(key.stage, id, collection.id), phase: "" },
    observed: "0",
    awaited: false,
    ...overrides,
  };
}

export function makeRun(v: Verification, resourceVersion: string, phase: string): AnalysisRunSnapshot {
  if (v.cause.kind === "observed") throw new Error("Tallyman makes no runs for another verifier");
  return {
    uid: `run-${v.id}`,
    project: v.key.project,
    name: v.run?.name ?? "none",
    resourceVersion,
    stage: v.key.stage,
    collectionId: v.collection.id,
    identity: {
      id: v.id,
      stageUid: v.stageUid,
      cause: v.cause,
      promotion: v.promotion,
      collection: v.collection,
      missingOrigins: v.missingOrigins,
    },
    phase,
    terminating: false,
    deleted: false,
    metrics: [
      {
        name: "latency",
        phase,
        dryRun: false,
        count: 3,
        successful: 2,
        failed: 1,
        inconclusive: 0,
        error: 0,
        measurements: [],
      },
    ],
    omittedMetrics: 0,
  };
}
