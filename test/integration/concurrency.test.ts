import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isFault } from "../../shared/domain/fault.ts";
import { isTerminal } from "../../shared/domain/phase.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { Message, MessageKind } from "../../shared/messages/schema.ts";
import { handleAbort, handleReverify, handleVerify } from "../../shared/operations/message.ts";
import { sweepCluster } from "../../shared/operations/sweep.ts";
import type { World } from "../../shared/operations/world.ts";
import { arbitraryRandom } from "../engines/arbitrary-random.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { createTurnstile, type Turnstile } from "../engines/turnstile.ts";
import { type BenchTop, startBenchTop, startEngine } from "../harness/bench-top.ts";
import { PROJECT } from "../harness/workbench.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);

let engine: RunningEngine;
let counter = 0;
beforeAll(async () => {
  engine = await startEngine();
});
afterAll(() => engine.stop());

interface Job {
  readonly kind: MessageKind;
  readonly message: Message;
  readonly redelivered: boolean;
}

const HANDLERS = { verify: handleVerify, reverify: handleReverify, abort: handleAbort };

/** A bench whose messages are handled by workers that take turns at every call; `copies` workers for each message. */
class Crowd {
  readonly bench: BenchTop;
  readonly #turnstile: Turnstile;
  readonly #world: World;
  readonly #copies: number;
  #seen = 0;
  #failed: Job[] = [];

  constructor(bench: BenchTop, random: () => number, copies: number) {
    this.bench = bench;
    this.#copies = copies;
    this.#turnstile = createTurnstile(random);
    const cluster = this.#turnstile.guard(bench.world.findCluster(bench.key("dev").cluster));
    this.#world = {
      ...bench.world,
      ledger: this.#turnstile.guard(bench.ledger),
      findCluster: () => cluster,
    };
  }

  /** Handles all that has been sent, everything at once, and again what failed, until nothing is left. */
  async settle(alongside: readonly (() => Promise<unknown>)[] = []): Promise<void> {
    const { bench } = this;
    let others = alongside;
    for (let round = 0; round < 50; round++) {
      await bench.settle();
      const jobs = [
        ...this.#failed.splice(0),
        ...this.#takeFresh().flatMap((each) =>
          Array.from({ length: this.#copies }, (_, i): Job => ({ ...each, redelivered: i > 0 })),
        ),
      ];
      if (jobs.length === 0 && others.length === 0) return;
      const results = await this.#turnstile.race([
        ...jobs.map((job) => () => this.#handle(job) as Promise<unknown>),
        ...others,
      ]);
      others = [];
      for (const result of results) {
        if (result.status === "rejected" && !isFault(result.reason)) throw result.reason;
      }
      this.#failed.push(
        ...jobs
          .filter((_, index) => results[index]?.status === "rejected")
          .map((job) => ({ ...job, redelivered: true })),
      );
    }
    throw new Error("this does not come to an end");
  }

  /** Something that happens in the middle of it all, and whose messages are handled there and then. */
  happening(act: () => Promise<unknown>): () => Promise<void> {
    return async () => {
      await this.#turnstile.takeTurn();
      await act();
      await this.bench.settle();
      for (const each of this.#takeFresh()) {
        const job = { ...each, redelivered: false };
        await this.#handle(job).catch((error: unknown) => {
          if (!isFault(error)) throw error;
          this.#failed.push({ ...job, redelivered: true });
        });
      }
    };
  }

  sweep = (): Promise<unknown> => sweepCluster(this.#world, this.bench.key("dev").cluster);

  send(kind: MessageKind, id: string): Promise<void> {
    const envelope = { id, source: "test", time: new Date(this.bench.clock.now()) };
    const data = { project: PROJECT, stage: "dev", actor: "ada" };
    return this.bench.queue.send(kind, [buildMessage(kind, envelope, data)]);
  }

  async lastRun(): Promise<string> {
    const name = (await this.bench.verifications("dev")).at(-1)?.run?.name;
    if (name === undefined) throw new Error("no run");
    return name;
  }

  #takeFresh() {
    const fresh = this.bench.queue.accepted.slice(this.#seen);
    this.#seen += fresh.length;
    return fresh;
  }

  async #handle({ kind, message, redelivered }: Job): Promise<void> {
    await HANDLERS[kind](this.#world, this.bench.key(message.data.stage), message, { redelivered });
  }
}

async function withCrowd<T>(
  random: () => number,
  copies: number,
  story: (crowd: Crowd) => Promise<T>,
): Promise<T> {
  const bench = await startBenchTop(engine, `crowd-${++counter}`);
  try {
    await bench.kargo.createTemplate("smoke");
    await bench.kargo.createFreight(A);
    await bench.kargo.createFreight(B);
    await bench.kargo.createStage("dev");
    return await story(new Crowd(bench, random, copies));
  } finally {
    await bench.stop();
  }
}

/** What must be true of a Stage whatever happened at once. */
async function expectSound(crowd: Crowd): Promise<void> {
  const { bench } = crowd;
  const key = bench.key("dev");
  const verifications = await bench.verifications("dev");
  const runs = await bench.kargo.listRuns("dev");
  const names = verifications.flatMap((v) => (v.run === undefined ? [] : [v.run.name]));
  // Every run belongs to a verification of its own; one may have been deleted.
  expect(new Set(names).size).toBe(names.length);
  expect(runs.filter((run) => !names.includes(run.metadata.name))).toEqual([]);
  const { status } = await bench.kargo.getStage("dev");
  const shown = new Map(
    status?.freightHistory?.flatMap((item) =>
      (item.verificationHistory ?? []).map((each) => [each.id, each.phase] as const),
    ),
  );
  for (const v of verifications) {
    expect(isTerminal(v.phase)).toBe(v.finishedAt !== undefined);
    expect(shown.get(v.id), `${v.id} in the Stage's status`).toBe(v.phase);
    const { transitions = [] } = (await bench.ledger.describeVerification(key, v.id)) ?? {};
    const ends = transitions.filter(({ phase }) => isTerminal(phase)).map(({ phase }) => phase);
    expect(ends, `the ends of ${v.id}`).toEqual(isTerminal(v.phase) ? [v.phase] : []);
  }
  const { latest, waiting } = await bench.ledger.readStage(key);
  expect(verifications.map((v) => v.id)).toContain(latest?.id);
  const { items } = await bench.ledger.listHistory(key);
  for (const entry of items) {
    if (entry.kind !== "request") continue;
    const isWaiting = entry.request.outcome === "waiting";
    expect(isWaiting, entry.request.requestId).toBe(waiting?.requestId === entry.request.requestId);
    expect(entry.request.outcome).not.toBe("accepted");
  }
  const open = await bench.ledger.listOpen(key.cluster);
  expect(open.items.map((v) => v.id).sort()).toEqual(
    verifications
      .filter((v) => !isTerminal(v.phase))
      .map((v) => v.id)
      .sort(),
  );
  expect(bench.queue.deadLetters).toEqual([]);
}

describe("two workers on the same messages of a Stage at once, whatever the interleaving", () => {
  it("leave what one leaves", async () => {
    const tell = (random: () => number, copies: number) =>
      withCrowd(random, copies, async (crowd) => {
        const { bench } = crowd;
        const step = async (act: () => Promise<unknown>) => {
          bench.clock.advance(1_000);
          await act();
          await crowd.settle();
        };
        await step(() => bench.kargo.promote("dev", [{ name: A }]));
        await step(async () => bench.kargo.setRun(await crowd.lastRun(), { phase: "Running" }));
        await step(() => crowd.send("reverify", "waits"));
        await step(async () => bench.kargo.setRun(await crowd.lastRun(), { phase: "Failed", message: "no" }));
        await step(async () => bench.kargo.setRun(await crowd.lastRun(), { phase: "Running" }));
        await step(() => crowd.send("abort", "stops"));
        await step(() => bench.kargo.promote("dev", [{ name: B }]));
        await step(async () => bench.kargo.setRun(await crowd.lastRun(), { phase: "Successful" }));
        await expectSound(crowd);
        const verifications = await bench.verifications("dev");
        const { items } = await bench.ledger.listHistory(bench.key("dev"));
        return {
          verifications: verifications.map((v) => [v.cause.kind, v.phase, v.reason, v.actor]),
          requests: items.flatMap((e) =>
            e.kind === "request" ? [`${e.request.requestId} ${e.request.outcome}`] : [],
          ),
          events: (await bench.kargo.listEvents()).map((event) => event.reason).sort(),
        };
      });
    const alone = await tell(() => 0, 1);
    expect(alone.verifications.map(([, phase]) => phase)).toEqual(["Failed", "Aborted", "Successful"]);
    await fc.assert(
      fc.asyncProperty(arbitraryRandom, async (random) => {
        expect(await tell(random, 2)).toEqual(alone);
      }),
      { numRuns: 20 },
    );
  }, 120_000);
});

/** What may happen at once; each leaves workers behind that race with the others. */
const HAPPENINGS = ["end", "abort", "reverify", "verify", "promote", "sweep", "disappear"] as const;
type Happening = (typeof HAPPENINGS)[number];

async function begin(crowd: Crowd, what: Happening, run: string): Promise<(() => Promise<unknown>)[]> {
  const { kargo } = crowd.bench;
  switch (what) {
    case "end":
      // It may have been deleted by then.
      return [
        crowd.happening(() => kargo.setRun(run, { phase: "Failed", message: "no" }).catch(() => undefined)),
      ];
    case "promote":
      return [crowd.happening(() => kargo.promote("dev", [{ name: B }]))];
    case "disappear":
      return [crowd.happening(() => kargo.deleteRun(run))];
    case "sweep":
      return [crowd.sweep];
    default:
      await crowd.send(what, `${what}-1`);
      return [];
  }
}

describe("several things at once in a Stage, whatever the interleaving", () => {
  it("leave a sound ledger: one run a verification, one end each, every request settled, the Stage told", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.subarray([...HAPPENINGS], { minLength: 2, maxLength: 3 }),
        fc.integer({ min: 1, max: 2 }),
        arbitraryRandom,
        async (happenings, copies, random) => {
          await withCrowd(random, copies, async (crowd) => {
            const { bench } = crowd;
            await bench.kargo.promote("dev", [{ name: A }]);
            await crowd.settle();
            bench.clock.advance(1_000);
            const run = await crowd.lastRun();
            const workers: (() => Promise<unknown>)[] = [];
            for (const what of happenings) workers.push(...(await begin(crowd, what, run)));
            await crowd.settle(workers);
            for (let round = 0; round < 4; round++) {
              bench.clock.advance(1_000);
              for (const each of await bench.kargo.listRuns("dev")) {
                if ((each.status?.phase ?? "") === "")
                  await bench.kargo.setRun(each.metadata.name, { phase: "Successful" });
              }
              await crowd.settle([crowd.sweep]);
            }
            await expectSound(crowd);
            const verifications = await bench.verifications("dev");
            expect(verifications.filter((v) => !isTerminal(v.phase))).toEqual([]);
          });
        },
      ),
      { numRuns: 60 },
    );
  }, 120_000);
});
