import { createLedger } from "../../shared/ledger/ledger.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { MessageData, MessageKind } from "../../shared/messages/schema.ts";
import { handleAbort, handleReverify, handleVerify } from "../../shared/operations/message.ts";
import { sweepCluster } from "../../shared/operations/sweep.ts";
import type { World } from "../../shared/operations/world.ts";
import { type AnswerLoss, loseAnswers } from "../engines/answer-loss.ts";
import { type Blow, type CrashPlan, createCrashPoints, isCrash } from "../engines/crash-points.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { type BenchTop, startBenchTop } from "./bench-top.ts";
import { PROJECT } from "./workbench.ts";

/** Something that happens, and who then works on it. */
export interface Step {
  /** Completes "a handler that dies during …"; a step without a name is never struck. */
  readonly name?: string;
  act(stage: StoryBench): Promise<unknown>;
  /** Who works on what happened: the handlers (default), the sweeper, or nobody since the messages are lost. */
  readonly by?: "messages" | "sweeper" | "nobody";
  /** Nothing is left behind from which a lost Event could be told: they are not compared. */
  readonly mayLoseEvents?: boolean;
}

/** What may happen in Stage `dev` of a bench with a template `smoke`. */
export interface StoryBench extends BenchTop {
  send(kind: MessageKind, id: string, data?: Partial<MessageData>): Promise<void>;
  /** Name of the AnalysisRun of the Stage's newest verification. */
  lastRun(): Promise<string>;
}

export interface Story {
  readonly title: string;
  readonly prepare?: (bench: BenchTop) => Promise<unknown>;
  readonly steps: readonly Step[];
}

const losses = new WeakMap<RunningEngine, AnswerLoss>();

/** An engine's client has one middleware for all of its stories. */
function findLoss(engine: RunningEngine): AnswerLoss {
  const known = losses.get(engine) ?? loseAnswers(engine.retrying);
  losses.set(engine, known);
  return known;
}

/** Calls whose answer can be lost after they changed something. */
const WRITES = /\.(write|create|update|record|terminate|patch)/;

let counter = 0;

/**
 * Tells a story in which whoever works on the planned step suffers the planned blow, and what is left undone is done
 * by redelivery, or by the next sweep, alone. `undefined` for `outcome` when the plan never struck.
 */
async function tell(engine: RunningEngine, story: Story, struckStep: number, plan: CrashPlan | undefined) {
  const bench = await startBenchTop(engine, `wreck-${++counter}`);
  const { cluster: clusterName } = bench.key("dev");
  const points = createCrashPoints();
  const loss = findLoss(engine);
  const cluster = points.guard(bench.world.findCluster(clusterName), "cluster");
  const world: World = {
    ...bench.world,
    ledger: points.guard(createLedger(engine.retrying, engine.table), "ledger", loss.loseNext),
    findCluster: () => cluster,
  };
  const key = bench.key("dev");
  let lost = false;
  bench.wrap("verify", () => async (message, delivery) => {
    if (!lost) await handleVerify(world, key, message, delivery);
  });
  bench.wrap("reverify", () => (message, delivery) => handleReverify(world, key, message, delivery));
  bench.wrap("abort", () => (message, delivery) => handleAbort(world, key, message, delivery));
  const stage: StoryBench = {
    ...bench,
    send: (kind, id, data = {}) =>
      bench.queue.send(kind, [
        buildMessage(
          kind,
          { id, source: "test", time: new Date(bench.clock.now()) },
          { project: PROJECT, stage: "dev", actor: "ada", ...data },
        ),
      ]),
    async lastRun() {
      const name = (await bench.verifications("dev")).at(-1)?.run?.name;
      if (name === undefined) throw new Error("no run");
      return name;
    },
  };
  const sweep = () =>
    sweepCluster(world, clusterName).catch((error: unknown) => {
      if (!isCrash(error)) throw error;
    });
  try {
    await bench.kargo.createTemplate("smoke");
    await story.prepare?.(bench);
    let calls: readonly string[] = [];
    for (const [index, { act, by = "messages" }] of story.steps.entries()) {
      bench.clock.advance(1_000);
      await act(stage);
      await bench.settle();
      lost = by !== "messages";
      if (lost) await bench.quiesce();
      points.arm(index === struckStep ? plan : undefined);
      // The first try may die; whoever takes over is another process, with nothing armed.
      if (by === "messages") await bench.drain(0);
      if (by === "sweeper") await sweep();
      if (index === struckStep) calls = [...points.calls];
      if (index === struckStep && plan !== undefined && !points.struck())
        return { outcome: undefined, calls };
      points.arm(undefined);
      if (by === "sweeper") await sweep();
      await bench.quiesce();
      lost = false;
    }
    return { outcome: await describeOutcome(bench), calls };
  } finally {
    await bench.stop();
  }
}

const withoutIds = (text: string): string =>
  text.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "(id)");

/** What must be the same whether or not a handler died: everything but ids that hang on the cluster's uids. */
async function describeOutcome(bench: BenchTop) {
  const verifications = await bench.verifications("dev");
  const runs = await bench.kargo.listRuns("dev");
  const stage = await bench.kargo.getStage("dev");
  const history = await bench.ledger.listHistory(bench.key("dev"));
  const details = await Promise.all(verifications.map((v) => bench.ledger.describeVerification(v.key, v.id)));
  const record = await bench.ledger.readStage(bench.key("dev"));
  const freight = verifications.flatMap((v) => v.collection.freight.map((f) => f.name));
  const marked = await Promise.all(
    [...new Set(freight)].map(async (name) => [
      name.slice(0, 1),
      Object.hasOwn((await bench.kargo.getFreight(name)).status ?? {}, "verifiedIn"),
    ]),
  );
  return {
    verifications: verifications.map((v) => [v.cause.kind, v.phase, v.reason, v.actor, v.run?.phase]),
    transitions: details.map((each) => each?.transitions.map((t) => t.phase)),
    // Names are derived from uids, so their order says nothing.
    runs: runs.map((run) => `${run.status?.phase} terminate=${run.spec.terminate ?? false}`).sort(),
    shown: stage.status?.freightHistory?.map((item) => item.verificationHistory?.map((each) => each.phase)),
    marked: Object.fromEntries(marked),
    requests: history.items
      .flatMap((e) =>
        e.kind === "request" ? [`${withoutIds(e.request.requestId)} ${e.request.outcome}`] : [],
      )
      .sort(),
    latest: verifications.findIndex((v) => v.id === record.latest?.id),
    waits: [record.awaiting !== undefined, record.waiting?.requestId],
    events: (await bench.kargo.listEvents())
      .map((event) => `${event.reason} ${event.involvedObject.name.slice(0, 3)}`)
      .sort(),
    open: (await bench.ledger.listOpen(bench.key("dev").cluster)).items.length,
    deadLetters: bench.queue.deadLetters.map((letter) => letter.reasons),
  };
}

export type Outcome = Awaited<ReturnType<typeof describeOutcome>>;

/** What a story leaves when nothing goes wrong. */
export async function tellUndisturbed(engine: RunningEngine, story: Story): Promise<Outcome> {
  const { outcome } = await tell(engine, story, -1, undefined);
  if (outcome === undefined) throw new Error("a story without a plan has an outcome");
  return outcome;
}

/**
 * Strikes at every call of a step in every way, and hands over what the story has left one step later, beside what it
 * leaves undisturbed.
 */
export async function* strikeEverywhere(
  engine: RunningEngine,
  whole: Story,
  step: number,
): AsyncGenerator<{
  readonly blow: string;
  readonly outcome: Outcome | undefined;
  readonly undisturbed: Outcome | undefined;
}> {
  const story = { ...whole, steps: whole.steps.slice(0, step + 2) };
  const { calls, outcome: undisturbed } = await tell(engine, story, step, undefined);
  for (const [index, name] of calls.entries()) {
    // Before a call is after the one before it.
    const blows: Blow[] = [
      ...(index === 0 ? (["before"] as const) : []),
      "after",
      ...(WRITES.test(name) ? (["unanswered", "repeated"] as const) : []),
    ];
    for (const when of blows) {
      const { outcome } = await tell(engine, story, step, { call: index + 1, when });
      yield { blow: `${when} ${name}`, outcome, undisturbed };
    }
  }
}
