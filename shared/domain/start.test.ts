import { describe, expect, it } from "vitest";
import { isFault } from "./fault.ts";
import { findMissingOrigins } from "./freight.ts";
import { computeCollectionId, deriveVerificationId } from "./identity.ts";
import type { StageSnapshot } from "./stage.ts";
import { buildStart, decideStage, findClosedGate, findExclusion } from "./start.ts";
import type { StageRecord } from "./verification.ts";

const F1 = { id: computeCollectionId(["f1"]), freight: [{ name: "f1", origin: "Warehouse/front" }] };
const F2 = { id: computeCollectionId(["f2"]), freight: [{ name: "f2", origin: "Warehouse/front" }] };
const P1 = "test.01";
const P2 = "test.02";

function makeStage(overrides: Partial<StageSnapshot> = {}): StageSnapshot {
  return {
    uid: "uid-1",
    project: "shop",
    name: "test",
    resourceVersion: "10",
    deleting: false,
    controlFlow: false,
    vars: [],
    requestedOrigins: ["Warehouse/front"],
    health: "Healthy",
    lastPromotion: { name: P1, phase: "Succeeded" },
    current: F1,
    history: [{ collectionId: F1.id, verifications: [] }],
    missingFreight: "verify-partial",
    ...overrides,
  };
}

function makeRecord(overrides: Partial<StageRecord> = {}): StageRecord {
  return {
    key: { cluster: "main", project: "shop", stage: "test" },
    revision: 0,
    uid: "uid-1",
    observed: "0",
    ...overrides,
  };
}

const idOf = (promotion: string, collection = F1) =>
  deriveVerificationId({ kind: "promotion", promotion }, "uid-1", collection.id);
const latest = { id: idOf(P1), promotion: P1, collectionId: F1.id };
const waiting = {
  requestId: "r1",
  cause: { kind: "reverify", of: idOf(P1) },
  after: idOf(P1),
  at: 1,
} as const;

describe("a Stage that is none of Tallyman's business", () => {
  it.each([
    ["a Stage that is being deleted", { deleting: true }, "deleted"],
    ["a control-flow Stage", { controlFlow: true }, "control flow"],
    ["no current freight", { current: undefined }, "holds no Freight"],
  ])("%s", (_title, overrides, reason) => {
    const stage = makeStage(overrides);
    expect(findExclusion(stage)).toContain(reason);
    expect(decideStage(stage, makeRecord())).toEqual({
      kind: "nothing",
      reason: expect.stringContaining(reason),
    });
  });
});

describe("the gate", () => {
  it.each<[string, Partial<StageSnapshot>, string | undefined]>([
    ["open when healthy", {}, undefined],
    ["open without a last Promotion", { lastPromotion: undefined }, undefined],
    [
      "open with partial Freight by default",
      { requestedOrigins: ["Warehouse/front", "Warehouse/back"] },
      undefined,
    ],
    ["closed while a Promotion is running", { currentPromotion: P2 }, P2],
    [
      "closed after a Promotion that failed",
      { lastPromotion: { name: P1, phase: "Failed" } },
      "ended Failed",
    ],
    [
      "closed while the Stage does not say how its last Promotion ended",
      { lastPromotion: { name: P1 } },
      "does not say",
    ],
    [
      "closed while health may be from before the last Promotion",
      { healthDoubts: ["condition Healthy is Unknown"] },
      "condition Healthy is Unknown",
    ],
    ["closed with nil health status", { health: undefined }, "not known yet"],
    ["closed when unhealthy", { health: "Unhealthy" }, "Unhealthy"],
    ["closed when progressing", { health: "Progressing" }, "Progressing"],
    [
      "closed with partial Freight if the policy is to hold",
      { requestedOrigins: ["Warehouse/front", "Warehouse/back"], missingFreight: "hold" },
      "Warehouse/back",
    ],
    ["open with all Freight if the policy is to hold", { missingFreight: "hold" }, undefined],
  ])("%s", (_title, overrides, reason) => {
    const gate = findClosedGate(makeStage(overrides));
    if (reason === undefined) expect(gate).toBeUndefined();
    else expect(gate).toContain(reason);
  });
});

describe("what a sight of a Stage asks for", () => {
  it("new Freight and an open gate: a start, whose id follows from the Promotion", () => {
    expect(decideStage(makeStage(), makeRecord())).toEqual({
      kind: "start",
      start: {
        id: idOf(P1),
        cause: { kind: "promotion", promotion: P1 },
        promotion: P1,
        collection: F1,
        missingOrigins: [],
      },
    });
  });

  it("partial n-of-m collection: verified, and the missing origins are said", () => {
    const decision = decideStage(
      makeStage({ requestedOrigins: ["Warehouse/back", "Warehouse/front"] }),
      makeRecord(),
    );
    expect(decision).toMatchObject({ kind: "start", start: { missingOrigins: ["Warehouse/back"] } });
  });

  it("the same Freight by another Promotion is another verification", () => {
    const record = makeRecord({ revision: 1, observed: "5", latest });
    const stage = makeStage({ lastPromotion: { name: P2, phase: "Succeeded" } });
    expect(decideStage(stage, record)).toMatchObject({ kind: "start", start: { id: idOf(P2) } });
  });

  it("a verification that is known already: nothing", () => {
    expect(decideStage(makeStage(), makeRecord({ revision: 1, latest }))).toMatchObject({ kind: "nothing" });
  });

  it("a request that waits goes on when the gate is open, and else waits on", () => {
    const record = makeRecord({ revision: 1, latest, waiting });
    expect(decideStage(makeStage(), record)).toEqual({ kind: "continue", waiting });
    expect(decideStage(makeStage({ health: "Unknown" }), record)).toMatchObject({ kind: "nothing" });
  });

  it("a closed gate: the Freight is awaited, once", () => {
    const stage = makeStage({ health: "Progressing" });
    const due = { promotion: P1, collection: F1 };
    expect(decideStage(stage, makeRecord())).toMatchObject({ kind: "wait", due, known: false });
    const awaiting = { ...due, since: 1, reason: findClosedGate(stage) ?? "" };
    const again = decideStage(stage, makeRecord({ revision: 1, awaiting }));
    expect(again).toMatchObject({ kind: "wait", known: true });
    expect(again).not.toHaveProperty("superseded");
    // Another reason is worth remembering; since when it is due stays.
    const other = decideStage(makeStage({ health: "Unhealthy" }), makeRecord({ revision: 1, awaiting }));
    expect(other).toMatchObject({ kind: "wait", known: false, due: { since: 1 } });
    expect(other).not.toHaveProperty("superseded");
  });

  it("awaited Freight that another Promotion replaced leaves its record, whether the gate is open or not", () => {
    const awaiting = { promotion: P1, collection: F1, since: 1, reason: "" };
    const record = makeRecord({ revision: 1, awaiting });
    const stage = makeStage({ lastPromotion: { name: P2, phase: "Succeeded" }, current: F2, history: [] });
    expect(decideStage(stage, record)).toMatchObject({ kind: "start", superseded: { promotion: P1 } });
    expect(decideStage({ ...stage, health: "Unknown" }, record)).toMatchObject({
      kind: "wait",
      superseded: { promotion: P1 },
    });
  });

  it("awaited Freight starts when the gate opens", () => {
    const awaiting = { promotion: P1, collection: F1, since: 1, reason: "" };
    const decision = decideStage(makeStage(), makeRecord({ revision: 1, awaiting }));
    expect(decision).toMatchObject({ kind: "start", start: { id: idOf(P1) } });
    expect(decision).not.toHaveProperty("superseded");
  });

  it("a snapshot older than what is recorded starts nothing: its Freight came and went", () => {
    const record = makeRecord({
      revision: 2,
      observed: "100",
      latest: { id: idOf(P2, F2), promotion: P2, collectionId: F2.id },
    });
    expect(decideStage(makeStage({ resourceVersion: "99" }), record)).toMatchObject({
      kind: "late",
      start: { id: idOf(P1) },
    });
  });

  it("an old snapshot of the Freight that is awaited is still about it", () => {
    const awaiting = { promotion: P1, collection: F1, since: 1, reason: "" };
    const record = makeRecord({ revision: 2, observed: "100", awaiting });
    expect(decideStage(makeStage({ resourceVersion: "99" }), record)).toMatchObject({ kind: "start" });
  });

  it("a verification by somebody else on this Freight: Tallyman stands back", () => {
    const history = [{ collectionId: F1.id, verifications: [{ id: "foreign", phase: "Running" }] }];
    expect(decideStage(makeStage({ history }), makeRecord())).toEqual({
      kind: "stand-back",
      verificationId: "foreign",
      reason: expect.stringContaining("another verifier"),
    });
  });

  it("our own entry there is no other verifier: a start that died half way goes on", () => {
    const history = [{ collectionId: F1.id, verifications: [{ id: idOf(P1), phase: "Pending" }] }];
    expect(decideStage(makeStage({ history }), makeRecord())).toMatchObject({ kind: "start" });
  });

  it("an open verification of older Freight does not keep the current one from starting", () => {
    const history = [
      { collectionId: F2.id, verifications: [] },
      { collectionId: F1.id, verifications: [{ id: idOf(P1), phase: "Running" }] },
    ];
    const stage = makeStage({ current: F2, history, lastPromotion: { name: P2, phase: "Succeeded" } });
    expect(decideStage(stage, makeRecord({ revision: 1, latest }))).toMatchObject({ kind: "start" });
  });

  it("a resourceVersion that is no number is refused", () => {
    try {
      decideStage(makeStage({ resourceVersion: "x" }), makeRecord({ revision: 1 }));
    } catch (error) {
      expect(isFault(error, "Invalid")).toBe(true);
      return;
    }
    throw new Error("it was not refused");
  });
});

it("a start for a request carries the request and its actor", () => {
  const request = { ...waiting, actor: "ada" };
  expect(buildStart(makeStage(), F1, request.cause, request)).toMatchObject({
    id: deriveVerificationId(request.cause, "uid-1", F1.id),
    actor: "ada",
    request,
  });
});

it("missing origins come in the order requested", () => {
  const requested = ["Warehouse/c", "Warehouse/front", "Warehouse/a"];
  expect(findMissingOrigins(requested, F1)).toEqual(["Warehouse/c", "Warehouse/a"]);
});
