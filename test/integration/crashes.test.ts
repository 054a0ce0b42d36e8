import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import { handleVerify } from "../../shared/operations/message.ts";
import { createCrashPoints } from "../engines/crash-points.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startEngine } from "../harness/bench-top.ts";
import {
  type Outcome,
  type Story,
  type StoryBench,
  strikeEverywhere,
  tellUndisturbed,
} from "../harness/crash-story.ts";
import { createKargoVerifier, type KargoVerifier } from "../harness/kargo-verifier.ts";
import { PROJECT } from "../harness/workbench.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);
const GLASS = "Warehouse/glass";

let engine: RunningEngine;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());

const prepare = async (bench: BenchTop) => {
  await bench.kargo.createFreight(A);
  await bench.kargo.createFreight(B);
  await bench.kargo.createStage("dev");
};
const promote = (name: string, health?: string | null) => (bench: StoryBench) =>
  bench.kargo.promote("dev", [{ name }], health === undefined ? {} : { health });
const setRun = (status: Record<string, unknown>) => async (bench: StoryBench) =>
  bench.kargo.setRun(await bench.lastRun(), status);

/** The verify message that the forwarder sent of a Promotion's Freight last, as it comes again from a queue much later. */
async function sendLate(bench: StoryBench, promotion: string): Promise<void> {
  const { message } = lateMessage(bench, promotion);
  const { cluster } = bench.key("dev");
  bench.queue.sendText("verify", JSON.stringify(message), `${cluster}/${PROJECT}/dev`);
}

function lateMessage(bench: StoryBench, promotion: string) {
  const sent = bench.queue.accepted.findLast(
    ({ message: { data } }) =>
      data.observed?.kind === "Stage" &&
      data.observed.lastPromotion?.name === promotion &&
      data.observed.currentPromotion === undefined &&
      data.observed.health === "Healthy",
  );
  if (sent === undefined) throw new Error(`no message of ${promotion}`);
  return sent;
}

interface Telling extends Story {
  readonly leaves: (outcome: Outcome) => void;
}

const phases = (outcome: Outcome) => outcome.verifications.map(([, phase, reason]) => [phase, reason]);

let first = "";
let second = "";
async function promoteBoth(bench: StoryBench): Promise<void> {
  first = await promote(A)(bench);
  await bench.settle();
  second = await promote(B)(bench);
}
let rival: KargoVerifier;

const STORIES: Telling[] = [
  {
    title: "a verification, a reverify that waits, an abort, and a reverify of what was aborted",
    prepare,
    steps: [
      { name: "the start of a verification", act: promote(A) },
      { name: "the run's first sign of life", act: setRun({ phase: "Running" }) },
      { name: "a reverify that has to wait", act: (bench) => bench.send("reverify", "waits") },
      { name: "the end that the reverify waited for", act: setRun({ phase: "Successful" }) },
      { name: "the successor's first sign of life", act: setRun({ phase: "Running" }) },
      { name: "an abort", act: (bench) => bench.send("abort", "stops") },
      {
        name: "the terminated run's own end",
        act: setRun({ phase: "Successful", message: "Run Terminated" }),
      },
      { name: "a reverify of what was aborted", act: (bench) => bench.send("reverify", "again") },
      { name: "a failure", act: setRun({ phase: "Failed", message: "no" }) },
    ],
    leaves: (outcome) => {
      expect(outcome.verifications).toEqual([
        ["promotion", "Successful", undefined, undefined, "Successful"],
        ["request", "Aborted", "AbortRequested", "ada", "Successful"],
        ["request", "Failed", undefined, "ada", "Failed"],
      ]);
      expect(outcome.runs).toHaveLength(3);
      expect(outcome.marked).toEqual({ a: true });
    },
  },
  {
    title: "a verify request of somebody",
    prepare,
    steps: [
      { act: promote(A), by: "nobody" },
      {
        name: "the start that a verify request brings about",
        act: (bench) => bench.send("verify", "please"),
      },
      { act: setRun({ phase: "Successful" }) },
      { name: "a verify request where nothing is due", act: (bench) => bench.send("verify", "once-more") },
      { act: setRun({ phase: "Failed" }) },
    ],
    leaves: (outcome) => {
      expect(phases(outcome).map(([phase]) => phase)).toEqual(["Successful", "Failed"]);
      expect(outcome.requests).toEqual(["once-more started", "please started"]);
    },
  },
  {
    title: "an abort of a verification for whose end a reverify waits",
    prepare,
    steps: [
      { act: promote(A) },
      { act: setRun({ phase: "Running" }) },
      { act: (bench) => bench.send("reverify", "waits") },
      { name: "an abort that something waits for", act: (bench) => bench.send("abort", "stops") },
    ],
    leaves: (outcome) => {
      expect(phases(outcome).map(([phase]) => phase)).toEqual(["Aborted", "Pending"]);
      expect(outcome.requests).toEqual(["stops aborted", "waits started"]);
    },
  },
  {
    title: "Freight that is replaced before it was healthy",
    prepare,
    steps: [
      { name: "Freight that has to wait", act: promote(A, null) },
      { name: "Freight that replaces what waited", act: promote(B) },
    ],
    leaves: (outcome) => {
      expect(phases(outcome)).toEqual([
        ["Aborted", "Superseded"],
        ["Pending", undefined],
      ]);
      expect(outcome.shown).toEqual([["Pending"], ["Aborted"]]);
    },
  },
  {
    title: "Freight that is replaced while its verification runs, where the policy is to abort",
    prepare: async (bench) => {
      await bench.kargo.createFreight(A);
      await bench.kargo.createFreight(B);
      await bench.kargo.createStage("dev", { annotations: { "tallyman.dev/on-supersede": "abort" } });
    },
    steps: [
      { act: promote(A) },
      { name: "the replacement of Freight that is being verified", act: promote(B) },
    ],
    leaves: (outcome) => {
      expect(phases(outcome)).toEqual([
        ["Aborted", "Superseded"],
        ["Pending", undefined],
      ]);
    },
  },
  {
    title: "a sight of replaced Freight that comes late",
    prepare,
    steps: [
      { act: promoteBoth, by: "nobody" },
      { act: (bench) => sendLate(bench, second) },
      { name: "a late sight of Freight that was replaced", act: (bench) => sendLate(bench, first) },
    ],
    leaves: (outcome) => {
      expect(phases(outcome).sort()).toEqual([
        ["Aborted", "Superseded"],
        ["Pending", undefined],
      ]);
      expect(outcome.runs).toHaveLength(1);
    },
  },
  {
    title: "a late sight of replaced Freight whose first handler had died behind its AnalysisRun",
    prepare,
    steps: [
      { act: promoteBoth, by: "nobody" },
      {
        act: async (bench) => {
          const points = createCrashPoints();
          const key = bench.key("dev");
          const cluster = points.guard(bench.world.findCluster(key.cluster), "cluster");
          const world = { ...bench.world, findCluster: () => cluster };
          const { message } = lateMessage(bench, first);
          points.arm({ call: 3, when: "after" });
          await handleVerify(world, key, message, { redelivered: false }).catch(() => undefined);
          expect(points.calls.at(-1)).toBe("cluster.createAnalysisRun");
          await sendLate(bench, second);
        },
      },
      { name: "the adoption of a run whose Freight was replaced", act: (bench) => sendLate(bench, first) },
    ],
    leaves: (outcome) => {
      expect(phases(outcome)).toEqual([
        ["Pending", undefined],
        ["Pending", undefined],
      ]);
      expect(outcome.runs).toHaveLength(2);
    },
  },
  {
    title: "Freight of several origins",
    prepare: async (bench) => {
      await bench.kargo.createFreight(A);
      await bench.kargo.createFreight(B, GLASS);
      await bench.kargo.createStage("dev", { origins: ["Warehouse/lamps", GLASS] });
    },
    steps: [
      {
        name: "the start of a verification of two Freight",
        act: (bench) => bench.kargo.promote("dev", [{ name: A }, { name: B, origin: GLASS }]),
      },
      { name: "the success of two Freight", act: setRun({ phase: "Successful" }) },
    ],
    leaves: (outcome) => {
      expect(phases(outcome)).toEqual([["Successful", undefined]]);
      expect(outcome.marked).toEqual({ a: true, b: true });
      expect(outcome.events).toHaveLength(4);
    },
  },
  ...["nowhere", "needy"].map(
    (template): Telling => ({
      title: `a verification that cannot be built (template ${template})`,
      prepare: async (bench) => {
        await bench.kargo.createFreight(A);
        await bench.kargo.createTemplate("needy", {
          args: [{ name: "service" }],
          metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1" } } }],
        });
        await bench.kargo.createStage("dev", { verification: { analysisTemplates: [{ name: template }] } });
      },
      steps: [
        { name: "a start that ends in Error", act: promote(A) },
        { name: "a reverify of an Error", act: (bench) => bench.send("reverify", "again") },
      ],
      leaves: (outcome) => {
        expect(phases(outcome)).toEqual([
          ["Error", "CannotBuild"],
          ["Error", "CannotBuild"],
        ]);
        expect(outcome.runs).toEqual([]);
      },
    }),
  ),
  {
    title: "an AnalysisRun that the API server refuses as invalid",
    prepare: async (bench) => {
      await bench.kargo.createFreight(A);
      const analysisRunMetadata = { labels: { "no label!": "x" } };
      await bench.kargo.createStage("dev", {
        verification: { analysisTemplates: [{ name: "smoke" }], analysisRunMetadata },
      });
    },
    steps: [{ name: "a start that the API server refuses for good", act: promote(A) }],
    leaves: (outcome) => {
      expect(phases(outcome)).toEqual([["Error", "CannotBuild"]]);
    },
  },
  {
    title: "a Stage that is deleted and made again under its name",
    prepare,
    steps: [
      { act: promote(A) },
      { act: (bench) => bench.send("reverify", "waits") },
      {
        name: "the sweep after a Stage was deleted and made again",
        act: async (bench) => {
          await bench.kargo.deleteStage("dev");
          await bench.kargo.createStage("dev");
        },
        by: "sweeper",
        mayLoseEvents: true,
      },
      { name: "the first verification of a Stage that was made again", act: promote(A) },
    ],
    leaves: (outcome) => {
      expect(phases(outcome)).toEqual([
        ["Error", "StageDeleted"],
        ["Pending", undefined],
      ]);
      expect(outcome.requests).toEqual(["waits refused"]);
    },
  },
  {
    title: "a Stage that is made again before the sweeper saw it gone",
    prepare,
    steps: [
      { act: promote(A) },
      { act: (bench) => bench.send("reverify", "waits") },
      {
        name: "new Freight in a Stage that was made again",
        act: async (bench) => {
          await bench.kargo.deleteStage("dev");
          await bench.kargo.createStage("dev");
          await promote(B)(bench);
        },
      },
      { act: async () => {}, by: "sweeper" },
    ],
    leaves: (outcome) => {
      expect(phases(outcome).map(([phase]) => phase)).toEqual(["Error", "Pending"]);
      expect(outcome.requests).toEqual(["waits refused"]);
    },
  },
  {
    title: "a reverify that waits until other Freight makes it void",
    prepare,
    steps: [
      { act: promote(A) },
      { act: (bench) => bench.send("reverify", "waits") },
      { name: "new Freight that makes a waiting reverify void", act: promote(B) },
      { name: "the end of what the void reverify had waited for", act: setRun({ phase: "Successful" }) },
    ],
    leaves: (outcome) => {
      expect(outcome.requests).toEqual(["waits refused"]);
      expect(outcome.verifications).toHaveLength(2);
      expect(outcome.waits).toEqual([false, undefined]);
    },
  },
  {
    title: "a reverify that waits in a Stage whose next Freight never becomes healthy",
    prepare,
    steps: [
      { act: promote(A) },
      { act: setRun({ phase: "Failed" }) },
      { act: (bench) => bench.kargo.setHealth("dev", "Unhealthy") },
      { act: (bench) => bench.send("reverify", "waits") },
      { name: "Freight that never becomes healthy, with a reverify waiting", act: promote(B, null) },
      { name: "a sweep over a Stage that never becomes healthy", act: async () => {}, by: "sweeper" },
    ],
    leaves: (outcome) => {
      expect(outcome.requests).toEqual(["waits refused"]);
      expect(outcome.waits).toEqual([true, undefined]);
      expect(phases(outcome)).toEqual([["Failed", undefined]]);
    },
  },
  {
    title: "everything beside another verifier",
    prepare: async (bench) => {
      await bench.kargo.createFreight(A);
      await bench.kargo.createStage("dev", { annotations: { "tallyman.dev/mode": "companion" } });
      rival = createKargoVerifier(createTransport({ server: bench.sandbox.url }), PROJECT, bench.clock);
    },
    steps: [
      { act: promote(A) },
      { name: "another verifier's start", act: () => rival.reconcile("dev") },
      {
        name: "another verifier's failure",
        act: async (bench) => {
          await setRun({ phase: "Failed", message: "no" })(bench);
          await rival.reconcile("dev");
        },
      },
      { name: "a reverify that is passed on", act: (bench) => bench.send("reverify", "passed-on") },
      { name: "the successor that another verifier starts", act: () => rival.reconcile("dev") },
      { name: "an abort that is passed on", act: (bench) => bench.send("abort", "stop") },
      { name: "the abort that another verifier enters as Failed", act: () => rival.reconcile("dev") },
    ],
    leaves: (outcome) => {
      expect(outcome.verifications.map(([cause, phase]) => [cause, phase])).toEqual([
        ["observed", "Failed"],
        ["observed", "Aborted"],
      ]);
      expect(outcome.requests).toEqual(["passed-on started", "stop aborted"]);
      expect(outcome.runs).toHaveLength(2);
    },
  },
  {
    title: "history that a sweep imports",
    prepare: async (bench) => {
      await bench.kargo.createFreight(A);
      await bench.kargo.createStage("dev", { annotations: { "tallyman.dev/mode": "companion" } });
      rival = createKargoVerifier(createTransport({ server: bench.sandbox.url }), PROJECT, bench.clock);
    },
    steps: [
      { act: promote(A), by: "nobody" },
      { name: "the sweep that imports", act: () => rival.reconcile("dev"), by: "sweeper" },
    ],
    leaves: (outcome) => expect(phases(outcome)).toEqual([["Pending", undefined]]),
  },
  {
    title: "a template that changes, in a Stage that asks to be verified again then",
    prepare: async (bench) => {
      await bench.kargo.createFreight(A);
      await bench.kargo.createStage("dev", {
        annotations: { "tallyman.dev/on-template-change": "reverify" },
      });
    },
    steps: [
      { act: promote(A) },
      { act: setRun({ phase: "Successful" }) },
      {
        name: "a template's change",
        act: (bench) =>
          bench.kargo.changeTemplate("smoke", [{ name: "other", provider: { web: { url: "x" } } }]),
      },
    ],
    leaves: (outcome) => {
      expect(phases(outcome).map(([phase]) => phase)).toEqual(["Successful", "Pending"]);
      expect(outcome.runs).toHaveLength(2);
    },
  },
  {
    title: "deadlines",
    prepare: async (bench) => {
      await bench.kargo.createFreight(A);
      await bench.kargo.createFreight(B);
      const annotations = { "tallyman.dev/deadline": "10m", "tallyman.dev/start-deadline": "10m" };
      await bench.kargo.createStage("dev", { annotations });
    },
    steps: [
      { act: promote(A) },
      {
        name: "the sweep after a deadline",
        act: async (bench) => bench.clock.advance(700_000),
        by: "sweeper",
      },
      { act: promote(B, "Degraded") },
      {
        name: "the sweep after a start deadline",
        act: async (bench) => bench.clock.advance(700_000),
        by: "sweeper",
      },
    ],
    leaves: (outcome) =>
      expect(phases(outcome)).toEqual([
        ["Error", "DeadlineExceeded"],
        ["Error", "StartDeadlineExceeded"],
      ]),
  },
  {
    title: "a sweep that finds everything undone",
    prepare,
    steps: [
      { name: "the sweep that starts what is due", act: promote(A), by: "sweeper" },
      { act: (bench) => bench.send("reverify", "waits") },
      {
        name: "the sweep that closes what a reverify waits for",
        act: setRun({ phase: "Failed", message: "no" }),
        by: "sweeper",
      },
      {
        name: "the sweep that finds a run deleted",
        act: async (bench) => bench.kargo.deleteRun(await bench.lastRun()),
        by: "sweeper",
      },
    ],
    leaves: (outcome) => {
      expect(phases(outcome)).toEqual([
        ["Failed", undefined],
        ["Error", "AnalysisRunDeleted"],
      ]);
      expect(outcome.requests).toEqual(["waits started"]);
      expect(outcome.open).toBe(0);
    },
  },
];

describe("undisturbed", () => {
  it.each(STORIES)("$title leaves what it should", async (story) => {
    const outcome = await tellUndisturbed(engine, story);
    story.leaves(outcome);
    expect(outcome.deadLetters).toEqual([]);
  });
});

describe("a handler or sweeper that dies, or is left without an answer, at any call", () => {
  const strikes = STORIES.flatMap((story) =>
    story.steps.flatMap((step, index) => (step.name === undefined ? [] : [{ ...step, story, index }])),
  );
  it.each(strikes)(
    "during $name leaves what an undisturbed one leaves",
    async ({ story, index, mayLoseEvents }) => {
      let blows = 0;
      for await (const { blow, outcome, undisturbed } of strikeEverywhere(engine, story, index)) {
        const expected = mayLoseEvents ? { ...undisturbed, events: expect.any(Array) } : undisturbed;
        expect(outcome, blow).toEqual(expected);
        blows++;
      }
      // A sweep that finds nothing to do makes three reads; fewer blows would mean that nothing was struck.
      expect(blows).toBeGreaterThanOrEqual(3);
    },
    120_000,
  );
});
