import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computeCollectionId } from "../domain/identity.ts";
import { isTerminal, PHASES, type Phase } from "../domain/phase.ts";
import type { Verification } from "../domain/verification.ts";
import { mergeVerification, mergeVerifiedIn, removeAnnotationPatch } from "./stage-status.ts";

const F1 = { id: computeCollectionId(["f1"]), freight: [{ name: "f1", origin: "Warehouse/front" }] };
const F2 = { id: computeCollectionId(["f2"]), freight: [{ name: "f2", origin: "Warehouse/front" }] };
const T0 = Date.parse("2026-01-02T03:04:05.678Z");
const NOW = new Date("2026-01-02T04:00:00.000Z");

function makeVerification(overrides: Partial<Verification> = {}): Verification {
  const phase = overrides.phase ?? "Pending";
  return {
    key: { cluster: "main", project: "shop", stage: "test" },
    id: "v1",
    stageUid: "uid-1",
    cause: { kind: "promotion", promotion: "test.02" },
    promotion: "test.02",
    collection: F1,
    missingOrigins: [],
    phase,
    message: "",
    createdAt: T0,
    run: { name: "test.v1.abc", phase: "" },
    observed: "0",
    awaited: false,
    ...(isTerminal(phase) ? { finishedAt: T0 + 60_000 } : {}),
    ...overrides,
  };
}

interface Collection {
  readonly id: string;
  readonly verificationHistory?: readonly unknown[];
  readonly [key: string]: unknown;
}

interface Status {
  readonly freightHistory?: readonly Collection[];
  readonly conditions?: readonly Record<string, unknown>[];
}

function makeStage(freightHistory: readonly Collection[], status: Record<string, unknown> = {}) {
  return {
    metadata: { name: "test", namespace: "shop", uid: "uid-1", resourceVersion: "42", generation: 3 },
    status: {
      lastPromotion: { name: "test.02", status: { phase: "Succeeded" } },
      freightHistory,
      ...status,
    },
  };
}

type Stage = ReturnType<typeof makeStage>;

/** What the API server makes of a merge patch of the status. */
function patched(stage: Stage, patch: ReturnType<typeof mergeVerification>): Stage {
  return { ...stage, status: { ...stage.status, ...(patch?.status as object | undefined) } };
}

function merge(stage: Stage, verification: Verification): Status | undefined {
  return mergeVerification(stage, verification, NOW)?.status as Status | undefined;
}

const idsOf = (collection: Collection | undefined) =>
  (collection?.verificationHistory ?? []).map((entry) => (entry as { id: string }).id);

describe("the entry says what the ledger says", () => {
  it("enters a verification that just started, without a finishTime", () => {
    const stage = makeStage([{ id: F1.id, items: { "Warehouse/front": { name: "f1", images: [] } } }]);
    expect(mergeVerification(stage, makeVerification({ actor: "email:ada@example.test" }), NOW)).toEqual({
      metadata: { resourceVersion: "42" },
      status: {
        freightHistory: [
          {
            id: F1.id,
            items: { "Warehouse/front": { name: "f1", images: [] } },
            verificationHistory: [
              {
                id: "v1",
                actor: "email:ada@example.test",
                startTime: "2026-01-02T03:04:05Z",
                phase: "Pending",
                analysisRun: { namespace: "shop", name: "test.v1.abc", phase: "" },
              },
            ],
          },
        ],
        conditions: [
          {
            type: "Verified",
            status: "Unknown",
            reason: "VerificationPending",
            message: "Freight is pending verification",
            lastTransitionTime: "2026-01-02T04:00:00Z",
            observedGeneration: 3,
          },
        ],
      },
    });
  });

  it("an implicit pass has no AnalysisRun", () => {
    const { run: _, ...verification } = makeVerification({ phase: "Successful" });
    const entry = merge(makeStage([{ id: F1.id }]), verification)?.freightHistory?.[0]
      ?.verificationHistory?.[0];
    expect(entry).toEqual({
      id: "v1",
      startTime: "2026-01-02T03:04:05Z",
      finishTime: "2026-01-02T03:05:05Z",
      phase: "Successful",
    });
  });

  it("is brought up to date in place, and unknown fields stay", () => {
    const open = { id: "v1", phase: "Running", message: "old", startTime: "2026-01-02T03:04:05Z", later: 1 };
    const stage = makeStage([{ id: F1.id, verificationHistory: [{ id: "v2" }, open, { id: "v0" }] }]);
    const history = merge(stage, makeVerification({ phase: "Failed" }))?.freightHistory?.[0];
    expect(idsOf(history)).toEqual(["v2", "v1", "v0"]);
    expect(history?.verificationHistory?.[1]).toEqual({
      id: "v1",
      later: 1,
      startTime: "2026-01-02T03:04:05Z",
      finishTime: "2026-01-02T03:05:05Z",
      phase: "Failed",
      analysisRun: { namespace: "shop", name: "test.v1.abc", phase: "" },
    });
  });

  it("a writer that fell behind does not reopen an entry", () => {
    const stage = patched(
      makeStage([{ id: F1.id }]),
      mergeVerification(
        makeStage([{ id: F1.id }]),
        makeVerification({ phase: "Failed", message: "no" }),
        NOW,
      ),
    );
    expect(merge(stage, makeVerification({ phase: "Running" }))).toBeUndefined();
    expect(merge(stage, makeVerification({ phase: "Pending" }))).toBeUndefined();
  });

  it("another terminal phase under our id is corrected: the ledger is the truth", () => {
    const stage = makeStage([{ id: F1.id, verificationHistory: [{ id: "v1", phase: "Successful" }] }]);
    const entry = merge(stage, makeVerification({ phase: "Aborted" }))?.freightHistory?.[0]
      ?.verificationHistory?.[0];
    expect(entry).toMatchObject({ phase: "Aborted" });
  });

  it("keeps the run's own phase beside the verification's", () => {
    const verification = makeVerification({ phase: "Aborted", run: { name: "r", phase: "Successful" } });
    const entry = merge(makeStage([{ id: F1.id }]), verification)?.freightHistory?.[0]
      ?.verificationHistory?.[0];
    expect(entry).toMatchObject({ phase: "Aborted", analysisRun: { phase: "Successful" } });
  });
});

describe("the entry goes to the FreightCollection it belongs to", () => {
  it("the current one, when the last Promotion brought it", () => {
    const status = merge(makeStage([{ id: F1.id }, { id: F1.id }]), makeVerification());
    expect(status?.freightHistory?.map((c) => idsOf(c))).toEqual([["v1"], []]);
  });

  it("the older one of two equal ones, when another Promotion brought it", () => {
    const status = merge(
      makeStage([{ id: F1.id }, { id: F1.id }]),
      makeVerification({ promotion: "test.01" }),
    );
    expect(status?.freightHistory?.map((c) => idsOf(c))).toEqual([[], ["v1"]]);
    expect(status?.conditions).toBeUndefined();
  });

  it("of several older ones the first that has no verification yet", () => {
    const stage = makeStage([
      { id: F1.id },
      { id: F1.id, verificationHistory: [{ id: "v9" }] },
      { id: F2.id },
      { id: F1.id },
    ]);
    const status = merge(stage, makeVerification({ promotion: "test.01" }));
    expect(status?.freightHistory?.map((c) => idsOf(c))).toEqual([[], ["v9"], [], ["v1"]]);
  });

  it("or else the newest of them", () => {
    const taken = { id: F1.id, verificationHistory: [{ id: "v9", startTime: "2025-01-01T00:00:00Z" }] };
    const status = merge(makeStage([taken, taken, taken]), makeVerification({ promotion: "test.01" }));
    expect(status?.freightHistory?.map((c) => idsOf(c))).toEqual([["v9"], ["v1", "v9"], ["v9"]]);
  });

  it("the only one with its id, when the Stage does not say how its last Promotion ended", () => {
    const stage = makeStage([{ id: F1.id }], { lastPromotion: { name: "test.02" } });
    const status = merge(stage, makeVerification({ promotion: "test.01" }));
    expect(idsOf(status?.freightHistory?.[0])).toEqual(["v1"]);
  });

  it("not the only one with its id, when another Promotion brought that one: its verification is still to come", () => {
    expect(merge(makeStage([{ id: F1.id }]), makeVerification({ promotion: "test.01" }))).toBeUndefined();
  });

  it("the current one after a last Promotion that failed and so brought nothing", () => {
    const lastPromotion = { name: "test.03", status: { phase: "Failed" } };
    const status = merge(makeStage([{ id: F1.id }, { id: F1.id }], { lastPromotion }), makeVerification());
    expect(status?.freightHistory?.map((c) => idsOf(c))).toEqual([["v1"], []]);
  });

  it("where its id stands already, whatever the Promotions say", () => {
    const stage = makeStage([{ id: F1.id }, { id: F1.id, verificationHistory: [{ id: "v1" }] }]);
    const status = merge(stage, makeVerification({ phase: "Running" }));
    expect(status?.freightHistory?.map((c) => idsOf(c))).toEqual([[], ["v1"]]);
  });

  it.each([
    ["the collection fell out of the history", makeStage([{ id: F2.id }])],
    ["there is no history", makeStage([])],
    [
      "the Stage was made anew",
      { ...makeStage([{ id: F1.id }]), metadata: { uid: "uid-2", resourceVersion: "1" } },
    ],
    ["it is no Stage at all", "text"],
  ])("nowhere when %s", (_title, stage) => {
    expect(mergeVerification(stage, makeVerification(), NOW)).toBeUndefined();
  });
});

describe("Kargo's limit and order of entries", () => {
  const at = (second: number) => `2026-01-02T03:04:${String(second).padStart(2, "0")}Z`;

  it("newest first, by start", () => {
    const verificationHistory = [
      { id: "new", startTime: at(9) },
      { id: "old", startTime: at(1) },
    ];
    const status = merge(makeStage([{ id: F1.id, verificationHistory }]), makeVerification());
    expect(idsOf(status?.freightHistory?.[0])).toEqual(["new", "v1", "old"]);
  });

  it("full (10) drops the last", () => {
    const verificationHistory = Array.from({ length: 10 }, (_, i) => ({ id: `o${i}`, startTime: at(0) }));
    const status = merge(makeStage([{ id: F1.id, verificationHistory }]), makeVerification());
    expect(idsOf(status?.freightHistory?.[0])).toEqual([
      "v1",
      ...verificationHistory.slice(0, 9).map((e) => e.id),
    ]);
  });

  it("an entry older than ten newer ones has no place any more", () => {
    const verificationHistory = Array.from({ length: 10 }, (_, i) => ({ id: `n${i}`, startTime: at(30) }));
    const status = merge(makeStage([{ id: F1.id, verificationHistory }]), makeVerification());
    expect(status?.freightHistory).toBeUndefined();
  });
});

describe("condition Verified", () => {
  const other = { type: "Healthy", status: "True", reason: "Healthy", message: "", lastTransitionTime: "x" };

  it.each([
    ["Pending", "Unknown", "VerificationPending", "Freight is pending verification"],
    ["Running", "Unknown", "VerificationRunning", "Freight is being verified"],
    ["Successful", "True", "Verified", "Freight has been verified"],
    ["Failed", "False", "VerificationFailed", "because"],
    ["Error", "False", "VerificationError", "because"],
    ["Aborted", "False", "VerificationAborted", "because"],
    ["Inconclusive", "Unknown", "VerificationInconclusive", "because"],
  ] as const)("newest %s → %s/%s", (phase, status, reason, message) => {
    const stage = makeStage([{ id: F1.id }], { conditions: [other] });
    const conditions = merge(stage, makeVerification({ phase, message: "because" }))?.conditions;
    expect(conditions?.[0]).toEqual(other);
    expect(conditions?.[1]).toMatchObject({ type: "Verified", status, reason, message });
  });

  it("a phase that nobody knows on top of ours is named", () => {
    const newer = { id: "x", phase: "Odd", startTime: "2027-01-01T00:00:00Z" };
    const status = merge(makeStage([{ id: F1.id, verificationHistory: [newer] }]), makeVerification());
    expect(status?.conditions?.[0]).toMatchObject({
      reason: "UnknownVerificationPhase",
      message: expect.stringContaining("Odd"),
    });
  });

  it("stays True while a Successful entry is among those kept", () => {
    const passed = { id: "v0", phase: "Successful", startTime: "2025-01-01T00:00:00Z" };
    const status = merge(
      makeStage([{ id: F1.id, verificationHistory: [passed] }]),
      makeVerification({ phase: "Failed" }),
    );
    expect(status?.conditions?.[0]).toMatchObject({ status: "True", reason: "Verified" });
  });

  it("keeps its lastTransitionTime until its status turns", () => {
    const since = "2026-01-01T00:00:00Z";
    const condition = {
      type: "Verified",
      status: "Unknown",
      reason: "x",
      message: "",
      lastTransitionTime: since,
    };
    const stage = makeStage([{ id: F1.id }], { conditions: [condition] });
    expect(merge(stage, makeVerification({ phase: "Running" }))?.conditions?.[0]).toMatchObject({
      reason: "VerificationRunning",
      lastTransitionTime: since,
    });
    expect(merge(stage, makeVerification({ phase: "Failed" }))?.conditions?.[0]).toMatchObject({
      lastTransitionTime: "2026-01-02T04:00:00Z",
    });
  });

  it("speaks of the Freight that the Stage holds and of no other", () => {
    const status = merge(makeStage([{ id: F2.id }, { id: F1.id }]), makeVerification({ phase: "Failed" }));
    expect(idsOf(status?.freightHistory?.[1])).toEqual(["v1"]);
    expect(status?.conditions).toBeUndefined();
  });
});

it("merging twice changes nothing the second time, whatever stands there", async () => {
  const phase = fc.constantFrom<Phase>(...PHASES);
  const entry = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.record(
      {
        id: fc.constantFrom("v0", "v1", "v2", "v3"),
        phase: fc.oneof(phase, fc.string()),
        startTime: fc.constantFrom(
          "2025-01-01T00:00:00Z",
          "2026-01-02T03:04:05Z",
          "2027-01-01T00:00:00Z",
          "?",
        ),
        analysisRun: fc.constantFrom({ name: "r" }, null, 5),
      },
      { requiredKeys: [] },
    ),
  );
  const collection = fc.record(
    { id: fc.constantFrom(F1.id, F2.id), verificationHistory: fc.array(entry, { maxLength: 12 }) },
    { requiredKeys: ["id"] },
  );
  const conditions = fc.array(
    fc.record({ type: fc.constantFrom("Verified", "Ready"), status: fc.constantFrom("True", "False") }),
  );
  const promotion = fc.constantFrom("test.01", "test.02");
  await fc.assert(
    fc.property(
      fc.array(collection),
      conditions,
      phase,
      promotion,
      (history, given, ownPhase, ownPromotion) => {
        const stage = makeStage(history, { conditions: given });
        const verification = makeVerification({ phase: ownPhase, promotion: ownPromotion });
        const patch = mergeVerification(stage, verification, NOW);
        const after = patched(stage, patch);
        expect(mergeVerification(after, verification, new Date(NOW.getTime() + 5000))).toBeUndefined();
        if (patch === undefined) return;
        expect(patch.metadata).toEqual({ resourceVersion: "42" });
        expect(after.status.freightHistory).toHaveLength(history.length);
      },
    ),
    { numRuns: 1000 },
  );
});

describe("a Freight is marked verified once", () => {
  const freight = (status: object) => ({ metadata: { name: "f1", resourceVersion: "5" }, status });

  it("marks Freight as verified when not already verified", () => {
    expect(mergeVerifiedIn(freight({ verifiedIn: { prod: { verifiedAt: "x" } } }), "test", NOW)).toEqual({
      metadata: { resourceVersion: "5" },
      status: { verifiedIn: { test: { verifiedAt: "2026-01-02T04:00:00Z" } } },
    });
  });

  it("never overwrites the first time", () => {
    expect(mergeVerifiedIn(freight({ verifiedIn: { test: {} } }), "test", NOW)).toBeUndefined();
  });

  it("a Stage with a name that means something to JavaScript is verified like any other", () => {
    expect(mergeVerifiedIn(freight({ verifiedIn: {} }), "constructor", NOW)).toBeDefined();
  });
});

it("an annotation is removed only while it has the value that was handled", () => {
  expect(removeAnnotationPatch("kargo.akuity.io/reverify", "v1")).toEqual([
    { op: "test", path: "/metadata/annotations/kargo.akuity.io~1reverify", value: "v1" },
    { op: "remove", path: "/metadata/annotations/kargo.akuity.io~1reverify" },
  ]);
});
