import { SendMessageCommand } from "@aws-sdk/client-sqs";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openConnection } from "../../cli/connection.ts";
import { runCli } from "../../cli/program.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import { type Embedded, scriptedSpec, startEmbedded } from "../harness/embedded.ts";

/** What an outage left behind is completed by `tallyman dlq redrive`: real queues, real workers, a real ledger. */
let tallyman: Embedded;
const lamps = { name: "f1a3b5c7d9e1f1a3b5c7d9e1f1a3b5c7d9e1f1a3", warehouse: "lamps" };

beforeAll(async () => {
  process.env.TALLYMAN_MAX_RECEIVES = "3";
  tallyman = await startEmbedded({ rollouts: 20 });
  await tallyman.kargo.createTemplate("smoke", scriptedSpec(["Successful"]));
  await tallyman.kargo.createFreight(lamps.name, "Warehouse/lamps");
});
afterEach(() => tallyman.faults.clear());
afterAll(async () => {
  delete process.env.TALLYMAN_MAX_RECEIVES;
  await tallyman.stop();
});

interface Letter {
  readonly id: string;
  readonly queue: string;
  readonly fault?: string;
  readonly receives?: number;
  readonly reasons: readonly string[];
  readonly outcome?: string;
}

/** Runs a command on the installation that the functions use, and gives its items. */
async function dlq(...args: readonly string[]): Promise<{ code: number; items: readonly Letter[] }> {
  const out: string[] = [];
  const code = await runCli(["dlq", ...args, "-o", "json"], {
    terminal: {
      out: (text) => void out.push(text),
      err() {},
      rawErr() {},
      columns: 80,
      color: false,
      live: false,
    },
    clock: systemClock,
    env: {},
    user: "ada@quay",
    invokedAs: "tallyman",
    newId: () => "unused",
    connect: () => openConnection({ env: process.env, cwd: "/", root: "/" }),
  });
  return { code, items: (JSON.parse(out.join("\n")) as { items: Letter[] }).items };
}

const lettersOf = (stage: string) =>
  tallyman.waitFor(`a dead letter of Stage ${stage}`, async () => {
    const { items } = await dlq("list", "--stage", stage);
    return items.length > 0 ? items : undefined;
  });

async function createStage(name: string): Promise<void> {
  await tallyman.kargo.createStage(name, { verification: { analysisTemplates: [{ name: "smoke" }] } });
}

describe("a redrive completes what it redrives", () => {
  it("a start that an outage outlasted: it is verified, by one run", async () => {
    await createStage("outlasted");
    tallyman.faults.respond(503, 1_000, ({ path }) => path.includes("/analysistemplates/"));
    const { verificationId } = await tallyman.promote("outlasted", lamps);
    const [letter] = await lettersOf("outlasted");
    expect(letter).toMatchObject({ queue: "verify", fault: "Transient", receives: 3 });
    expect(letter?.reasons[0]).toMatch(/answered 503/);
    expect(await tallyman.verifications("outlasted")).toEqual([]);

    tallyman.faults.clear();
    const { code, items } = await dlq("redrive", "--stage", "outlasted");
    expect(code).toBe(0);
    expect(items.every(({ outcome }) => outcome === "moved")).toBe(true);
    await tallyman.waitForPhase("outlasted", verificationId, "Successful");
    expect(await tallyman.kargo.listRuns("outlasted")).toHaveLength(1);
    expect((await dlq("list", "--stage", "outlasted")).items).toEqual([]);
  });

  it("an end that the ledger has and the Stage could not be told: the Stage shows it", async () => {
    await createStage("untold");
    const { verificationId } = await tallyman.promote("untold", lamps);
    // Before the run can have ended, and after what the promoter itself writes there.
    tallyman.faults.respond(
      503,
      1_000,
      ({ path, method }) => method === "PATCH" && path.endsWith("/untold/status"),
    );
    await tallyman.waitForPhase("untold", verificationId, "Successful");
    await tallyman.waitFor("no message of it to be tried again", async () => {
      const { items } = await dlq("list", "--stage", "untold");
      return items.some(({ reasons }) => reasons.join().includes("/untold/status")) ? items : undefined;
    });
    // The start's and the end's: each is given up by itself.
    tallyman.faults.clear();
    const shown = async () => {
      const [current] = (await tallyman.kargo.getStage("untold")).status?.freightHistory ?? [];
      return current?.verificationHistory?.find(({ phase }) => phase === "Successful");
    };
    expect(await shown()).toBeUndefined();
    await tallyman.waitFor("the Stage shows the result", async () => {
      await dlq("redrive", "--stage", "untold");
      return shown();
    });
  });

  it("keeps what is invalid, moves it with --force, and it comes back: a second time within five minutes too", async () => {
    const { queues, sqs } = tallyman;
    const body = JSON.stringify({
      specversion: "1.0",
      data: { project: tallyman.project, stage: "nonsense" },
    });
    await sqs.send(
      new SendMessageCommand({
        QueueUrl: queues.verify.queue,
        MessageBody: body,
        MessageGroupId: "nonsense",
        MessageDeduplicationId: "nonsense",
      }),
    );
    let [letter] = await lettersOf("nonsense");
    expect(letter).toMatchObject({ fault: "Invalid", receives: 1 });
    expect(await dlq("redrive", "--stage", "nonsense")).toMatchObject({
      code: 17,
      items: [{ outcome: "kept" }],
    });
    for (let round = 0; round < 2; round++) {
      const before = letter?.id ?? "";
      expect(await dlq("redrive", before, "--force")).toMatchObject({ code: 0, items: [{ id: before }] });
      [letter] = await lettersOf("nonsense");
      expect(letter?.id).not.toBe(before);
    }
  });
});
