import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PHASES, type Phase } from "../domain/phase.ts";
import type { Verification } from "../domain/verification.ts";
import { buildPhaseEvents, buildRefusalEvent } from "./verification-events.ts";

function verification(overrides: Partial<Verification> = {}): Verification {
  return {
    key: { cluster: "harbour", project: "lighthouse", stage: "dev" },
    id: "0f7f9c1e-1111-5222-8333-444455556666",
    stageUid: "u",
    cause: { kind: "promotion", promotion: "dev.01" },
    promotion: "dev.01",
    collection: { id: "c", freight: [{ name: "f1", origin: "Warehouse/lamps" }] },
    missingOrigins: [],
    phase: "Pending",
    message: "",
    createdAt: 0,
    observed: "0",
    awaited: false,
    ...overrides,
  };
}

describe("the Events of a verification", () => {
  it.each<[Phase, string | undefined, string | undefined]>([
    ["Pending", "FreightVerificationStarted", "Normal"],
    ["Running", undefined, undefined],
    ["Successful", "FreightVerificationSucceeded", "Normal"],
    ["Failed", "FreightVerificationFailed", "Warning"],
    ["Error", "FreightVerificationErrored", "Warning"],
    ["Aborted", "FreightVerificationAborted", "Warning"],
    ["Inconclusive", "FreightVerificationInconclusive", "Warning"],
  ])("%s: %s (%s)", (phase, reason, type) => {
    const events = buildPhaseEvents(verification({ phase, finishedAt: 1_000 }));
    expect(events.map((event) => [event.reason, event.type])).toEqual(
      reason === undefined ? [] : [[reason, type]],
    );
  });

  it("have names that are valid, the same for the same fact and different for any other", () => {
    const seen = new Map<string, string>();
    const fact = fc.record({
      id: fc.uuid(),
      phase: fc.constantFrom(...PHASES),
      freight: fc.string({ minLength: 1, maxLength: 253 }),
    });
    fc.assert(
      fc.property(fact, ({ id, phase, freight }) => {
        const build = () =>
          buildPhaseEvents(
            verification({
              id,
              phase,
              collection: { id: "c", freight: [{ name: freight, origin: "Warehouse/x" }] },
            }),
          );
        for (const event of build()) {
          const { name } = event.metadata as { name: string };
          expect(name).toMatch(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/);
          expect(build().map((again) => (again.metadata as { name: string }).name)).toEqual([name]);
          const identity = JSON.stringify([id, phase, freight]);
          expect(seen.get(name) ?? identity).toBe(identity);
          seen.set(name, identity);
        }
      }),
    );
  });

  it("keep within what Kubernetes takes for a message", () => {
    const [event] = buildPhaseEvents(verification({ phase: "Error", message: "x".repeat(5_000) }));
    expect(String(event?.message).length).toBeLessThanOrEqual(1024);
  });
});

describe("the Event of a request", () => {
  const request = {
    key: verification().key,
    requestId: "r",
    kind: "abort",
    actor: "ada",
    outcome: "too-late",
    message: "verification x had already ended Failed",
    createdAt: 0,
  } as const;

  it("says who asked for what, and why it was not done", () => {
    expect(buildRefusalEvent(request, "u-1")).toMatchObject({
      reason: "VerificationRequestRefused",
      type: "Warning",
      message: "abort refused: verification x had already ended Failed",
      involvedObject: { kind: "Stage", name: "dev", uid: "u-1" },
      metadata: { annotations: { "event.kargo.akuity.io/actor": "ada" } },
    });
  });

  it("is none for a request that was carried out or waits", () => {
    for (const outcome of ["started", "aborted", "waiting", "accepted"] as const) {
      expect(buildRefusalEvent({ ...request, outcome }, undefined)).toBeUndefined();
    }
  });
});
