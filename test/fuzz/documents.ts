import type { RunIdentity } from "../../shared/domain/analysis-run.ts";
import {
  computeCollectionId,
  deriveAnalysisRunName,
  deriveVerificationId,
} from "../../shared/domain/identity.ts";

/** Documents in which nothing is wrong and much is said, for the fuzzers to spoil. */
const FREIGHT = [
  { name: "a".repeat(40), origin: "Warehouse/lamps" },
  { name: "b".repeat(40), origin: "Warehouse/bells" },
];
const COLLECTION = { id: computeCollectionId(FREIGHT.map(({ name }) => name)), freight: FREIGHT };
const CAUSE = { kind: "promotion", promotion: "uat.01" } as const;

/** As Kargo writes expressions, and JavaScript does not. */
const expression = (text: string): string => ["$", "{{ ", text, " }}"].join("");

export const PROJECT = "lighthouse";
export const STAGE = "uat";
const STAGE_UID = "uid-uat";

export const IDENTITY: RunIdentity = {
  id: deriveVerificationId(CAUSE, STAGE_UID, COLLECTION.id),
  stageUid: STAGE_UID,
  cause: CAUSE,
  promotion: CAUSE.promotion,
  collection: COLLECTION,
  missingOrigins: [],
};

export const RUN_NAME = deriveAnalysisRunName(STAGE, IDENTITY.id, COLLECTION.id);

export const STAGE_OBJECT = {
  apiVersion: "kargo.akuity.io/v1alpha1",
  kind: "Stage",
  metadata: {
    name: STAGE,
    namespace: PROJECT,
    uid: STAGE_UID,
    resourceVersion: "42",
    generation: 3,
    labels: { "kargo.akuity.io/shard": "" },
    annotations: {
      "kargo.akuity.io/reverify": JSON.stringify({ id: IDENTITY.id, actor: "ada", controlPlane: true }),
      "kargo.akuity.io/abort": IDENTITY.id,
      "tallyman.dev/missing-freight": "verify-partial",
      "tallyman.dev/on-supersede": "abort",
      "tallyman.dev/mode": "managed",
      "tallyman.dev/deadline": "1h30m",
      "tallyman.dev/start-deadline": "30m",
    },
  },
  spec: {
    vars: [{ name: "region", value: "north" }],
    requestedFreight: FREIGHT.map(({ origin }) => ({
      origin: { kind: "Warehouse", name: origin.slice("Warehouse/".length) },
      sources: { direct: true },
    })),
    promotionTemplate: { spec: { steps: [{ uses: "git-clone" }] } },
    verification: {
      analysisTemplates: [{ name: "smoke" }, { name: "load", kind: "ClusterAnalysisTemplate" }],
      analysisRunMetadata: { labels: { team: "lamps" }, annotations: { note: "hello" } },
      args: [
        { name: "region", value: expression("vars.region") },
        { name: "image", value: expression('imageFrom("registry.test/lamps").Tag') },
        { name: "plain", value: "7" },
      ],
    },
  },
  status: {
    health: { status: "Healthy" },
    currentPromotion: null,
    lastPromotion: {
      name: CAUSE.promotion,
      finishedAt: "2030-01-01T00:00:00Z",
      status: { phase: "Succeeded", finishedAt: "2030-01-01T00:00:00Z" },
    },
    conditions: [
      { type: "Verified", status: "Unknown", reason: "None", lastTransitionTime: "2030-01-01T00:00:00Z" },
    ],
    freightHistory: [
      {
        id: COLLECTION.id,
        items: Object.fromEntries(
          FREIGHT.map(({ name, origin }) => [
            origin,
            {
              name,
              origin: { kind: "Warehouse", name: origin.slice("Warehouse/".length) },
              images: [
                {
                  repoURL: "registry.test/lamps",
                  tag: "1.2.3",
                  digest: "sha256:00",
                  annotations: { a: "b" },
                },
              ],
              commits: [
                { repoURL: "https://git.test/lamps", id: "c".repeat(40), branch: "main", message: "a light" },
              ],
              charts: [{ repoURL: "oci://charts.test", name: "lamps", version: "1.0.0" }],
            },
          ]),
        ),
        verificationHistory: [
          {
            id: IDENTITY.id,
            phase: "Running",
            actor: "ada",
            startTime: "2030-01-01T00:00:01Z",
            analysisRun: { namespace: PROJECT, name: RUN_NAME, phase: "Running" },
          },
        ],
      },
      {
        id: "an-older-one",
        items: {},
        verificationHistory: [
          {
            id: "older",
            phase: "Failed",
            startTime: "2029-12-31T00:00:00Z",
            finishTime: "2029-12-31T00:01:00Z",
          },
        ],
      },
    ],
  },
};

export const RUN_OBJECT = {
  apiVersion: "argoproj.io/v1alpha1",
  kind: "AnalysisRun",
  metadata: {
    name: RUN_NAME,
    namespace: PROJECT,
    uid: "uid-run",
    resourceVersion: "43",
    labels: { "kargo.akuity.io/stage": STAGE, "kargo.akuity.io/freight-collection": COLLECTION.id },
    annotations: {
      "tallyman.dev/verification": JSON.stringify(IDENTITY),
      "kargo.akuity.io/promotion": CAUSE.promotion,
    },
  },
  spec: { metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1" } } }], terminate: false },
  status: {
    phase: "Running",
    message: "all is well",
    startedAt: "2030-01-01T00:00:02Z",
    completedAt: "2030-01-01T00:01:02Z",
    dryRunSummary: {},
    metricResults: [
      {
        name: "probe",
        phase: "Running",
        message: "going on",
        count: 2,
        successful: 1,
        failed: 1,
        inconclusive: 0,
        error: 0,
        dryRun: false,
        measurements: [
          {
            phase: "Successful",
            value: "1",
            startedAt: "2030-01-01T00:00:02Z",
            finishedAt: "2030-01-01T00:00:03Z",
          },
          { phase: "Failed", value: "[0.25]", message: "too slow", finishedAt: "2030-01-01T00:00:04Z" },
        ],
      },
      { name: "latency", phase: "Successful", count: 1, successful: 1, measurements: [] },
    ],
  },
};
