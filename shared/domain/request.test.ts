import { describe, expect, it } from "vitest";
import { deriveVerificationId } from "./identity.ts";
import { isTerminal, PHASES, type Phase } from "./phase.ts";
import { decideAbort, decideReverify, deriveRequestCause, type Request, settleRequest } from "./request.ts";
import type { RequestRecord, StageRecord, Verification } from "./verification.ts";

const key = { cluster: "main", project: "shop", stage: "test" };

function makeVerification(id: string, phase: Phase, overrides: Partial<Verification> = {}): Verification {
  return {
    key,
    id,
    stageUid: "uid-1",
    cause: { kind: "promotion", promotion: "test.01" },
    promotion: "test.01",
    collection: { id: "c", freight: [] },
    missingOrigins: [],
    phase,
    message: "",
    createdAt: 1,
    observed: "0",
    awaited: false,
    ...overrides,
  };
}

function makeRecord(latest: string | undefined): StageRecord {
  return {
    key,
    revision: 1,
    uid: "uid-1",
    observed: "1",
    ...(latest === undefined ? {} : { latest: { id: latest, promotion: "test.01", collectionId: "c" } }),
  };
}

const request = (target?: string): Request => ({
  requestId: "r1",
  ...(target === undefined ? {} : { target }),
});

describe("a reverify", () => {
  it.each(PHASES)("of the latest verification, which is %s", (phase) => {
    const decision = decideReverify(request("v1"), makeRecord("v1"), makeVerification("v1", phase));
    expect(decision).toEqual({
      kind: isTerminal(phase) ? "start" : "wait",
      cause: { kind: "reverify", of: "v1" },
    });
  });

  it("without a target repeats the latest, as a request of its own", () => {
    const decision = decideReverify(request(), makeRecord("v1"), makeVerification("v1", "Failed"));
    expect(decision).toEqual({ kind: "start", cause: { kind: "request", requestId: "r1" } });
  });

  it.each([request("v1"), request()])("whose successor is there already is done: %j", (again) => {
    const id = deriveVerificationId(deriveRequestCause(again), "uid-1", "c");
    expect(decideReverify(again, makeRecord(id), makeVerification("v1", "Failed"))).toEqual({
      kind: "done",
      verificationId: id,
    });
  });

  it.each<[string, Request, string | undefined, Verification | undefined, string]>([
    ["no verification info", request(), undefined, undefined, "no verification to repeat"],
    ["an unknown id", request("v9"), "v1", undefined, "v9 is not in the ledger"],
    ["one that is no longer the latest", request("v0"), "v1", makeVerification("v0", "Failed"), "that is v1"],
    [
      "one of a Stage that has none any more",
      request("v0"),
      undefined,
      makeVerification("v0", "Failed"),
      "no longer",
    ],
    ["an older one that still runs", request("v0"), "v1", makeVerification("v0", "Running"), "no longer"],
  ])("is refused: %s", (_title, asked, latest, target, message) => {
    const decision = decideReverify(asked, makeRecord(latest), target);
    expect(decision).toEqual({ kind: "refuse", message: expect.stringContaining(message) });
  });

  it("of a Stage whose first verification is due and waits is refused with what it waits for", () => {
    const awaiting = {
      promotion: "test.01",
      collection: { id: "c1", freight: [] },
      since: 1,
      reason: "the Stage's health is Unknown, not Healthy",
    };
    expect(decideReverify(request(), { ...makeRecord(undefined), awaiting }, undefined)).toEqual({
      kind: "refuse",
      message: expect.stringMatching(
        /is due and starts by itself once it may: the Stage's health is Unknown/,
      ),
    });
  });
});

describe("an abort", () => {
  const abort = { requestId: "r1", at: 2 };

  it.each(PHASES)("of the latest verification, which is %s", (phase) => {
    const decision = decideAbort(request("v1"), makeRecord("v1"), makeVerification("v1", phase));
    expect(decision.kind).toBe(isTerminal(phase) ? "too-late" : "abort");
  });

  it("that comes too late says how it ended", () => {
    expect(decideAbort(request(), makeRecord("v1"), makeVerification("v1", "Successful"))).toEqual({
      kind: "too-late",
      message: "verification v1 had already ended Successful",
    });
  });

  it.each<[string, string, Phase, string]>([
    ["the same abort again, while the run winds down", "r1", "Running", "resume"],
    ["the same abort again, after it took effect", "r1", "Aborted", "resume"],
    ["another abort, while the run winds down", "r2", "Running", "resume"],
    ["another abort, after the first took effect", "r2", "Aborted", "too-late"],
  ])("%s", (_title, requestId, phase, kind) => {
    const target = makeVerification("v1", phase, { abort });
    expect(decideAbort({ requestId, target: "v1" }, makeRecord("v1"), target).kind).toBe(kind);
  });

  it("the same abort again is carried on with even if a Promotion came in between", () => {
    const target = makeVerification("v1", "Running", { abort });
    expect(decideAbort(request("v1"), makeRecord("v2"), target).kind).toBe("resume");
  });

  it.each<[string, Request, string | undefined, Verification | undefined, string]>([
    ["no verification info", request(), undefined, undefined, "no verification to abort"],
    ["an unknown id", request("v9"), "v1", undefined, "v9 is not in the ledger"],
    [
      "one that is no longer the latest",
      request("v0"),
      "v1",
      makeVerification("v0", "Running"),
      "that is v1",
    ],
  ])("is refused: %s", (_title, asked, latest, target, message) => {
    const decision = decideAbort(asked, makeRecord(latest), target);
    expect(decision).toEqual({ kind: "refuse", message: expect.stringContaining(message) });
  });
});

describe("a request's fate", () => {
  const record: RequestRecord = {
    key,
    requestId: "r1",
    kind: "abort",
    outcome: "waiting",
    message: "",
    createdAt: 1,
  };

  it.each(["accepted", "waiting"] as const)("changes while it is %s", (outcome) => {
    expect(settleRequest({ ...record, outcome }, { outcome: "started" }).outcome).toBe("started");
  });

  it.each(["started", "aborted", "too-late", "refused"] as const)("is final once it is %s", (outcome) => {
    const settled = { ...record, outcome };
    expect(settleRequest(settled, { outcome: outcome === "refused" ? "started" : "refused" })).toBe(settled);
  });
});
