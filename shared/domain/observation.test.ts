import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AnalysisRunSnapshot } from "./analysis-run.ts";
import { isFault } from "./fault.ts";
import {
  applyObservation,
  describeAbort,
  endVerification,
  readRunOutcome,
  sumMeasurements,
} from "./observation.ts";
import { isTerminal, PHASES, type Phase, readRunPhase } from "./phase.ts";
import type { Verification } from "./verification.ts";

const START: Verification = {
  key: { cluster: "main", project: "shop", stage: "test" },
  id: "v1",
  stageUid: "uid-1",
  cause: { kind: "promotion", promotion: "test.01" },
  promotion: "test.01",
  collection: { id: "c", freight: [] },
  missingOrigins: [],
  phase: "Pending",
  message: "",
  createdAt: 1000,
  observed: "0",
  awaited: false,
};

function makeRun(overrides: Partial<AnalysisRunSnapshot> = {}): AnalysisRunSnapshot {
  return {
    uid: "run-1",
    project: "shop",
    name: "run",
    resourceVersion: "1",
    stage: "test",
    phase: "",
    terminating: false,
    deleted: false,
    metrics: [],
    omittedMetrics: 0,
    ...overrides,
  };
}

/** Applies sights one after the other, each a second later. */
function applyAll(from: Verification, runs: readonly AnalysisRunSnapshot[]): Verification {
  let verification = from;
  runs.forEach((run, index) => {
    const observation = applyObservation(verification, run, 2000 + index * 1000);
    if (observation.kind !== "stale") verification = observation.next;
  });
  return verification;
}

const abort = { requestId: "r1", actor: "ada", reason: "too slow", at: 1500 };

describe("one sight of an AnalysisRun", () => {
  const terminated = { phase: "Successful", terminating: true, message: "Run Terminated" };

  it.each([
    ["untouched by its controller", {}, "Pending"],
    ["Pending", { phase: "Pending" }, "Pending"],
    ["Running", { phase: "Running" }, "Running"],
    ["Successful", { phase: "Successful" }, "Successful"],
    ["Failed", { phase: "Failed" }, "Failed"],
    ["Error", { phase: "Error" }, "Error"],
    ["Inconclusive", { phase: "Inconclusive" }, "Inconclusive"],
    ["terminated, which Argo Rollouts calls Successful", terminated, "Aborted"],
    ["terminated after it had passed", { phase: "Successful", terminating: true }, "Successful"],
    ["terminated after something bad", { phase: "Failed", terminating: true }, "Failed"],
    ["deleted while it ran", { phase: "Running", deleted: true }, "Error"],
    ["deleted before its controller touched it", { deleted: true }, "Error"],
    ["deleted after it had ended", { phase: "Failed", deleted: true }, "Failed"],
    ["in a phase that nobody knows yet", { phase: "Dreaming" }, "Running"],
    ["in the phase Aborted, which no run has", { phase: "Aborted" }, "Running"],
  ] as const)("%s → %s", (_title, overrides, phase) => {
    const run = makeRun(overrides);
    expect(readRunOutcome(run)).toBe(phase);
    expect(applyAll(START, [run]).phase).toBe(phase);
    expect(isTerminal(applyAll({ ...START, abort }, [run]).phase)).toBe(isTerminal(phase));
  });

  it.each([
    [{ phase: "Running", deleted: true }, "AnalysisRunDeleted", "deleted before it ended"],
    [terminated, "TerminatedOutside", "somebody other than Tallyman"],
    [{ phase: "Failed", message: "no" }, undefined, "no"],
  ])("says why: %j", (overrides, reason, message) => {
    const end = applyAll(START, [makeRun(overrides)]);
    expect(end.reason).toBe(reason);
    expect(end.message).toContain(message);
  });

  it("a run that falls back to Pending is still running", () => {
    const runs = [makeRun({ phase: "Running" }), makeRun({ phase: "Pending", resourceVersion: "2" })];
    expect(applyAll(START, runs).phase).toBe("Running");
  });

  it("an older or equal sight is stale, by number and not by text", () => {
    const seen = applyAll(START, [makeRun({ phase: "Running", resourceVersion: "10" })]);
    expect(applyObservation(seen, makeRun({ phase: "Failed", resourceVersion: "9" }), 1).kind).toBe("stale");
    expect(applyObservation(seen, makeRun({ phase: "Failed", resourceVersion: "10" }), 1).kind).toBe("stale");
    expect(applyObservation(seen, makeRun({ phase: "Failed", resourceVersion: "11" }), 1).kind).toBe(
      "transition",
    );
  });

  it("a resourceVersion that is no number is refused", () => {
    try {
      applyObservation(START, makeRun({ resourceVersion: "x" }), 1);
    } catch (error) {
      expect(isFault(error, "Invalid")).toBe(true);
      return;
    }
    throw new Error("it was not refused");
  });

  it("after the end, only another phase of the run itself is news", () => {
    const ended = applyAll({ ...START, abort }, [makeRun({ phase: "Running", deleted: true })]);
    expect(applyObservation(ended, makeRun({ phase: "Running", resourceVersion: "2" }), 9).kind).toBe(
      "stale",
    );
    const evidence = applyObservation(ended, makeRun({ phase: "Successful", resourceVersion: "2" }), 9);
    expect(evidence).toMatchObject({
      kind: "evidence",
      next: { phase: "Aborted", run: { phase: "Successful" }, finishedAt: ended.finishedAt },
    });
  });

  it("adds up the measurements of all metrics", () => {
    const metric = { phase: "", dryRun: false, measurements: [], inconclusive: 0, error: 1 };
    const metrics = [
      { ...metric, name: "a", count: 3, successful: 2, failed: 0 },
      { ...metric, name: "b", count: 4, successful: 1, failed: 2 },
    ];
    expect(sumMeasurements(makeRun({ metrics }))).toEqual({
      count: 7,
      successful: 3,
      failed: 2,
      inconclusive: 0,
      error: 2,
    });
  });
});

describe("an end without a sight of the run", () => {
  const end = { phase: "Error", reason: "StageDeleted", message: "gone", now: 5000 } as const;

  it("ends an open verification", () => {
    expect(endVerification(START, end)).toMatchObject({
      phase: "Error",
      reason: "StageDeleted",
      message: "gone",
      startedAt: 5000,
      finishedAt: 5000,
    });
  });

  it("an abort that was recorded first wins", () => {
    expect(endVerification({ ...START, abort }, end)).toMatchObject({
      phase: "Aborted",
      reason: "AbortRequested",
      message: "Aborted by ada: too slow",
    });
  });

  it("leaves a terminal one as it is", () => {
    const ended: Verification = { ...START, phase: "Failed", finishedAt: 3000 };
    expect(endVerification(ended, end)).toBe(ended);
  });

  it.each([
    [undefined, undefined, "Aborted on request"],
    ["ada", undefined, "Aborted by ada"],
    [undefined, "too slow", "Aborted on request: too slow"],
  ])("an abort by %s because of %s is described by what is known", (actor, reason, text) => {
    expect(describeAbort({ ...START, abort: { requestId: "r", actor, reason, at: 1 } })).toBe(text);
  });
});

describe("whatever is seen, in whatever order", () => {
  const sight = fc.record({
    phase: fc.constantFrom(
      "",
      "Pending",
      "Running",
      "Successful",
      "Failed",
      "Error",
      "Inconclusive",
      "Aborted",
      "?",
    ),
    resourceVersion: fc.nat({ max: 30 }).map(String),
    terminating: fc.boolean(),
    deleted: fc.boolean(),
    message: fc.constantFrom("", "Run Terminated", "Metric assessed"),
  });
  const sights = fc.array(sight.map(makeRun), { maxLength: 12 });
  const start = fc.constantFrom<Verification>(START, { ...START, abort });

  it("a terminal phase is final, and finishedAt is set exactly then", async () => {
    await fc.assert(
      fc.property(start, sights, (from, runs) => {
        let verification = from;
        runs.forEach((run, index) => {
          const observation = applyObservation(verification, run, 2000 + index);
          if (observation.kind === "stale") return;
          const { next } = observation;
          if (isTerminal(verification.phase)) {
            expect(next.phase).toBe(verification.phase);
            expect(next.finishedAt).toBe(verification.finishedAt);
            expect(next.message).toBe(verification.message);
          }
          expect(next.finishedAt !== undefined).toBe(isTerminal(next.phase));
          expect(BigInt(next.observed)).toBeGreaterThan(BigInt(verification.observed));
          expect(observation.kind === "transition").toBe(next.phase !== verification.phase);
          verification = next;
        });
      }),
    );
  });

  it("once an abort is recorded, the outcome is Aborted or none yet", async () => {
    await fc.assert(
      fc.property(sights, (runs) => {
        expect(["Pending", "Running", "Aborted"]).toContain(applyAll({ ...START, abort }, runs).phase);
      }),
    );
  });

  it("the same sight again changes nothing", async () => {
    await fc.assert(
      fc.property(start, sights, (from, runs) => {
        const once = applyAll(from, runs);
        const last = runs.at(-1);
        if (last !== undefined) expect(applyObservation(once, last, 9).kind).toBe("stale");
      }),
    );
  });

  it("one run's history leads to the same phase in any order, with losses before its end and repeats", async () => {
    const open = fc.array(fc.constantFrom("", "Running", "Pending"), { maxLength: 5 });
    const end = fc.constantFrom(
      { phase: "Successful" },
      { phase: "Failed" },
      { phase: "Error" },
      { phase: "Inconclusive" },
      { phase: "Successful", terminating: true, message: "Run Terminated" },
      { phase: "Running", deleted: true },
    );
    const after = fc.nat({ max: 2 });
    const orders = open.chain((phases) =>
      fc.tuple(end, after).chain(([last, repeats]) => {
        const history = [
          ...phases.map((phase) => makeRun({ phase })),
          ...Array.from({ length: 1 + repeats }, () => makeRun(last)),
        ].map((run, index) => ({ ...run, resourceVersion: String(index + 1) }));
        const order = fc
          .tuple(fc.shuffledSubarray(history), fc.shuffledSubarray(history))
          .map(([a, b]) => [...a, ...b, ...history.slice(-1)]);
        return fc.tuple(fc.constant(history), order);
      }),
    );
    await fc.assert(
      fc.property(start, orders, (from, [history, order]) => {
        expect(applyAll(from, order).phase).toBe(applyAll(from, history).phase);
      }),
      { numRuns: 500 },
    );
  });
});

it("the phases that are terminal are the last five", () => {
  expect(PHASES.filter(isTerminal)).toEqual(["Successful", "Failed", "Error", "Aborted", "Inconclusive"]);
});

it.each<[string | undefined, Phase | undefined]>([
  [undefined, "Pending"],
  ["", "Pending"],
  ["Running", "Running"],
  ["Aborted", undefined],
  ["running", undefined],
  ["constructor", undefined],
])("a run's phase %j stands for %s", (text, phase) => {
  expect(readRunPhase(text)).toBe(phase);
});
