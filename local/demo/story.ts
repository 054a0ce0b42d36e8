import { randomUUID } from "node:crypto";
import { deriveVerificationId, type StageKey } from "../../shared/domain/identity.ts";
import { isTerminal, type Phase } from "../../shared/domain/phase.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import type { Ledger } from "../../shared/ledger/ledger.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { MessageQueue } from "../../shared/queue/message-queue.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { ClusterWriter } from "./cluster-writer.ts";
import { createPromoter } from "./promotions.ts";
import { type DemoFreight, FREIGHT, PROJECT, setErrorBudget } from "./shop.ts";

export interface StoryOptions {
  readonly cluster: string;
  readonly writer: ClusterWriter;
  readonly ledger: Ledger;
  readonly queue: MessageQueue;
  readonly clock: Clock;
  readonly random: () => number;
  /** Says what happens next, one sentence. */
  readonly tell: (sentence: string) => void;
  /** Milliseconds for the whole story. */
  readonly withinMs: number;
  readonly signal: AbortSignal;
}

/** The story took another turn; the message says where. */
export class StoryFailed extends Error {
  override readonly name = "StoryFailed";
}

const ACTOR = "mara@example.com";
const LOOK_EVERY_MS = 50;

/**
 * Promotes the demo's Freight through its Stages, with a failure, an abort, a reverify and a re-promotion on the
 * way, and waits for each verification to end as it should.
 *
 * @throws StoryFailed when one does not, or when the time is over.
 */
export async function playStory(options: StoryOptions): Promise<void> {
  const { clock, ledger, queue, signal, tell, writer } = options;
  const promoter = createPromoter({ ...options, project: PROJECT, now: () => clock.now() });
  const end = clock.now() + options.withinMs;
  const keyOf = (stage: string): StageKey => ({ cluster: options.cluster, project: PROJECT, stage });

  async function promote(stage: string, freight: DemoFreight): Promise<string> {
    const { collectionId, promotion, stageUid } = await promoter.promote(stage, freight);
    return deriveVerificationId({ kind: "promotion", promotion }, stageUid, collectionId);
  }

  async function follow(
    stage: string,
    id: string,
    until: (verification: Verification) => boolean,
    hoped: string,
  ): Promise<Verification> {
    let last: Phase | undefined;
    for (;;) {
      const found = await ledger.readVerification(keyOf(stage), id);
      last = found?.verification.phase;
      if (found !== undefined && until(found.verification)) return found.verification;
      if (signal.aborted) throw new StoryFailed("the story was interrupted");
      if (clock.now() > end) {
        const seen = last === undefined ? "it has not started" : `it is ${last}`;
        throw new StoryFailed(
          `Stage ${stage}: verification ${id} was to be ${hoped} within ${options.withinMs / 1000} s, but ${seen}`,
        );
      }
      await clock.sleep(LOOK_EVERY_MS, signal);
    }
  }

  async function expectEnd(stage: string, id: string, phase: Phase): Promise<void> {
    const { message, phase: ended } = await follow(stage, id, (found) => isTerminal(found.phase), phase);
    if (ended === phase) return;
    const why = message === "" ? "" : ` (${message})`;
    throw new StoryFailed(`Stage ${stage}: verification ${id} was to end ${phase}, but ended ${ended}${why}`);
  }

  async function request(
    kind: "abort" | "reverify",
    stage: string,
    id: string,
    reason: string,
  ): Promise<void> {
    const envelope = { id: randomUUID(), source: "/tallyman/demo", time: new Date(clock.now()) };
    const data = {
      cluster: options.cluster,
      project: PROJECT,
      stage,
      verificationId: id,
      actor: ACTOR,
      reason,
    };
    await queue.send(kind, [buildMessage(kind, envelope, data)]);
  }

  const { heron, magpie, otter } = FREIGHT;
  await setErrorBudget(writer, "tight");
  tell(`${otter.alias} is promoted to dev, and ${magpie.alias} to checkout, which lacks a storefront`);
  const [first, partial] = [await promote("dev", otter), await promote("checkout", magpie)];
  await Promise.all([expectEnd("dev", first, "Successful"), expectEnd("checkout", partial, "Failed")]);

  await setErrorBudget(writer, "fair");
  tell(
    `${otter.alias} goes on to qa and, with a fairer error budget, to checkout; ${heron.alias} reaches dev`,
  );
  const [inQa, whole, next] = [
    await promote("qa", otter),
    await promote("checkout", otter),
    await promote("dev", heron),
  ];
  await Promise.all([
    expectEnd("qa", inQa, "Successful"),
    expectEnd("checkout", whole, "Successful"),
    expectEnd("dev", next, "Successful"),
  ]);

  tell(`${otter.alias} reaches prod, and again dev: another Promotion is another verification`);
  const [inProd, again] = [await promote("prod", otter), await promote("dev", otter)];
  const isUnderWay = ({ counts, phase }: Verification): boolean =>
    isTerminal(phase) || (counts?.count ?? 0) >= 2;
  await follow("prod", inProd, isUnderWay, "Running with two measurements");
  tell(`${ACTOR} aborts the verification in prod`);
  await request("abort", "prod", inProd, "the till was down");
  await Promise.all([expectEnd("prod", inProd, "Aborted"), expectEnd("dev", again, "Successful")]);

  tell(`${ACTOR} asks for it once more`);
  await request("reverify", "prod", inProd, "the till is back");
  await expectEnd("prod", deriveVerificationId({ kind: "reverify", of: inProd }, "", ""), "Successful");
}
