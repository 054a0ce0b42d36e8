import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { StageKey } from "../shared/domain/identity.ts";
import type { RequestRecord, Verification } from "../shared/domain/verification.ts";
import { REQUEST_ID, startTestInstallation } from "../test/harness/cli-installation.ts";
import { makeKey, makeRun, makeVerification } from "../test/integration/ledger/fixtures.ts";
import { measure } from "./render/text.ts";

let installation: Awaited<ReturnType<typeof startTestInstallation>>;
const run: (typeof installation)["run"] = (line, during) => installation.run(line, during);

const DEV = makeKey("dev");
const LONG = makeKey(`checkout-${"with-a-name-".repeat(8)}end`);
let failed: Verification;
let running: Verification;
let refused: RequestRecord;

async function enterStage(key: StageKey, latest: Verification): Promise<void> {
  await installation.ledger.writeStage({
    ...(await installation.ledger.readStage(key)),
    uid: latest.stageUid,
    latest: { id: latest.id, promotion: latest.promotion, collectionId: latest.collection.id },
  });
}

beforeAll(async () => {
  installation = await startTestInstallation();
  const { ledger, clock } = installation;
  const now = clock.now();
  failed = makeVerification(DEV, "p1", {
    phase: "Failed",
    message: 'Metric "error-rate" assessed Failed due to failed (2) > failureLimit (1)',
    createdAt: now - 300_000,
    startedAt: now - 299_000,
    finishedAt: now - 290_000,
    run: { name: "dev.run", phase: "Failed" },
  });
  running = makeVerification(DEV, "p2", {
    phase: "Running",
    createdAt: now - 60_000,
    startedAt: now - 60_000,
    freight: [
      { name: "b".repeat(40), origin: "Warehouse/lamps" },
      { name: "c".repeat(40), origin: "Warehouse/bells" },
    ],
  });
  refused = {
    key: DEV,
    requestId: "pipeline-4711",
    kind: "reverify",
    target: failed.id,
    actor: "bo",
    outcome: "refused",
    message: `verification ${failed.id} is no longer the Stage's latest`,
    createdAt: now - 30_000,
  };
  for (const each of [failed, running]) await ledger.createVerification(each);
  await ledger.recordTransition(
    { ...failed, phase: "Running", message: "", finishedAt: undefined },
    undefined,
  );
  await ledger.recordTransition(failed, makeRun(failed, "7", "Failed"));
  await ledger.writeRequest(refused);
  await enterStage(DEV, running);
  const long = makeVerification(LONG, "p1", {
    phase: "Inconclusive",
    createdAt: now,
    message: "word ".repeat(60),
  });
  await ledger.createVerification(long);
  await enterStage(LONG, long);
});

afterAll(() => installation.stop());

function expectToFit(text: string): void {
  for (const line of text.split("\n")) expect(measure(line)).toBeLessThanOrEqual(80);
}

describe("reading", () => {
  it("shows Stages with their latest verification", async () => {
    const { code, out } = await run("get stages");
    expect(code).toBe(0);
    expectToFit(out);
    expect(out).toMatch(/^STAGE +FREIGHT +PHASE +WHEN +ID +NOTE$/m);
    expect(out).toMatch(/^dev +bbbbbbb\+c+… +● Running +1m ago +[0-9a-f]{8}$/m);
    expect(out).toMatch(/^checkout-w…-name-end /m);
    expect((await run("get stages -o name")).out).toBe(`stage/${LONG.stage}\nstage/dev`);
    expect((await run("get stages dev -A -o wide")).out).toContain(running.id);
  });

  it("shows which Freight was verified together, and with what outcome", async () => {
    const { code, out } = await run("combos stage dev");
    expect(code).toBe(0);
    expectToFit(out);
    expect(out).toMatch(/^FREIGHT +EVER PASSED +LAST +WHEN +TRIES +OUTCOMES$/m);
    expect(out).toMatch(/^bbbbbbb\+ccccccc +no +● Running +1m ago +1 +1 Running$/m);
    const { items } = JSON.parse((await run("combos stage dev -o json")).out);
    expect(items.map((each: { phases: object }) => each.phases)).toEqual([{ Running: 1 }, { Failed: 1 }]);
  });

  it("answers for one combination, in any order of its Freight, with an exit code for pipelines", async () => {
    const [b, c] = ["b".repeat(40), "c".repeat(40)];
    const pair = await run(`combos stage dev --freight ${c} --freight ${b} -o json`);
    expect(JSON.parse(pair.out).items).toMatchObject([{ latest: { id: running.id } }]);
    expect(pair.code).toBe(13);
    const single = failed.collection.freight.map(({ name }) => `--freight ${name}`).join(" ");
    expect((await run(`combos stage dev ${single}`)).code).toBe(10);
    const never = await run(`combos stage dev --freight ${b}`);
    expect(never.code).toBe(4);
    expect(never.err).toContain(`Stage dev has never verified ${b}`);
  });

  it("colours on a terminal, and not with --no-color, wherever it stands", async () => {
    expect((await installation.run("get stages", undefined, true)).out).toContain("\u001b[");
    expect((await installation.run("get stages --no-color", undefined, true)).out).not.toContain("\u001b[");
    expect((await installation.run("--no-color get stages", undefined, true)).out).not.toContain("\u001b[");
  });

  it("shows the history newest first, requests among verifications", async () => {
    const { code, out } = await run("history stage dev");
    expect(code).toBe(0);
    expectToFit(out);
    const lines = out.split("\n");
    expect(lines[1]).toMatch(/^30s ago +pipeli.* +asked reverify +⊘ refused +bo: verif/);
    expect(lines[2]).toMatch(/^1m ago .*● Running +1m/);
    expect(lines[3]).toMatch(/^5m ago .*aaaaaaa .*promotion +✖ Failed +9s +Metric/);
    const wide = await run("history stage dev -o wide");
    expect(wide.out).toContain("2029-12-31 23:55:00Z");
    expect(wide.out).toContain(`asked reverify of ${failed.id}`);
    const first = await run("history stage dev --limit 1");
    expect(first.out.split("\n")).toHaveLength(2);
    expect(first.err).toBe("There is more: --limit 5");
  });

  it("gives JSON and YAML of one documented shape", async () => {
    const { out } = await run("history stage DEV -o json --limit 2");
    const list = JSON.parse(out);
    expect(list).toMatchObject({
      apiVersion: "tallyman.dev/v1",
      kind: "HistoryList",
      more: true,
      items: [
        { kind: "Request", id: "pipeline-4711", verb: "reverify", outcome: "refused", target: failed.id },
        { kind: "Verification", id: running.id, phase: "Running", createdAt: "2029-12-31T23:59:00.000Z" },
      ],
    });
    expect(parse((await run("history stage dev -o yaml --limit 2")).out)).toEqual(list);
  });

  it("describes a verification by the start of its id", async () => {
    const { code, out } = await run(`describe verification ${failed.id.slice(0, 8)} --stage dev`);
    expect(code).toBe(0);
    expect(out).toContain(`Verification: ${failed.id}`);
    expect(out).toMatch(/^2029-12-31 23:55:10Z +10s +✖ Failed +Metric/m);
    expect(out).toMatch(/^latency +✖ Failed +3 +2 +1 +0 +0$/m);
    const { out: json } = await run(`describe verification ${failed.id} --stage dev -o json`);
    expect(JSON.parse(json)).toMatchObject({
      apiVersion: "tallyman.dev/v1",
      kind: "Verification",
      transitions: [{ phase: "Running" }, { phase: "Failed" }],
      metrics: [{ name: "latency", failed: 1 }],
    });
  });

  it("shows a request by its id", async () => {
    const { code, out } = await run("get request pipeline-4711 --stage dev");
    expect(code).toBe(0);
    expect(out).toContain("Outcome:      ⊘ refused");
  });
});

describe("errors", () => {
  it.each([
    ["get stages prod", 4, "no Stage prod in Project lighthouse of cluster harbour"],
    ["history stage dve", 4, "Did you mean dev?"],
    ["history stage dev -p lighthose", 4, "Did you mean Project lighthouse?"],
    ["history stage dev --cluster moon", 4, "It has: harbour, outpost"],
    ["history stage dev --cluster outpost", 4, "the ledger knows no Stage of cluster outpost yet"],
    ["describe verification ffffffff --stage dev", 4, "no verification ffffffff of Stage dev"],
    ["get request nothing --stage dev", 4, "no request nothing"],
    ["history stage", 2, "missing required argument"],
    ["history stage dev extra", 2, "too many arguments"],
    ["history stage dev --limit none", 2, "whole number"],
    ["history stage dev -o xml", 2, "Allowed choices are table"],
    ["verify stage dev --timeout soon", 2, "90s, 10m or 1h30m"],
    ["describe verification 1234", 2, "--stage"],
    ["hisotry stage dev", 2, "Did you mean history?"],
  ])("says what is wrong with `%s`", async (line, code, text) => {
    const result = await run(line);
    expect(result.err).toContain(text);
    expect(result.code).toBe(code);
    expect(result.out).toBe("");
  });

  it.each([
    "--help",
    "get stages --help",
    "get request --help",
    "history stage --help",
    "verify stage --help",
  ])("helps with examples and exit codes: %s", async (line) => {
    const { code, out } = await run(line);
    expect(code).toBe(0);
    expect(out).toContain("Examples:\n  tallyman ");
    expect(out).toContain("Exit codes:");
  });
});

describe("asking", () => {
  it("sends a message that keeps the contract and says how to follow it", async () => {
    const { code, out } = await run([
      "reverify",
      "stage",
      "dev",
      "--reason",
      "new data",
      "--verification",
      failed.id.slice(0, 8),
    ]);
    expect(code).toBe(0);
    expect(out).toContain(`tallyman get request ${REQUEST_ID} --stage dev -p lighthouse`);
    expect(await installation.receive("reverify")).toMatchObject({
      id: REQUEST_ID,
      source: "tallyman/cli",
      data: { ...DEV, verificationId: failed.id, actor: "cli:ada@quay", reason: "new data" },
    });
  });

  it("aborts with `verify --abort`, as Kargo's own CLI does", async () => {
    const { out } = await run("verify stage dev --abort --actor bo -o name");
    expect(out).toBe(`request/${REQUEST_ID}`);
    expect(await installation.receive("abort")).toMatchObject({ data: { ...DEV, actor: "bo" } });
  });

  it("asks nothing about a Stage that is not there", async () => {
    expect((await run("verify stage dve")).code).toBe(4);
    expect(await installation.receive("verify")).toBeUndefined();
  });

  it("times out where nobody takes the message, with the way to go on", async () => {
    const { code, err } = await run("verify stage dev --wait --timeout 30s");
    expect(code).toBe(16);
    expect(err).toContain("not over after 30s; the request goes on");
    expect(err).toContain(`tallyman get request ${REQUEST_ID}`);
  });

  it("waits for the verification's end and exits with its phase", async () => {
    const { ledger, clock } = installation;
    const line = "reverify stage dev --wait -o json";
    const { code, out, err } = await run(line, async () => {
      const successor = makeVerification(DEV, "p3", {
        phase: "Inconclusive",
        createdAt: clock.now(),
        finishedAt: clock.now(),
      });
      await ledger.createVerification(successor);
      await ledger.writeRequest({
        ...refused,
        requestId: REQUEST_ID,
        outcome: "started",
        verificationId: successor.id,
        message: "started",
      });
    });
    expect(code).toBe(13);
    expect(err).toMatch(/sent, not taken up yet\nreverify dev: verification \S+ \? Inconclusive$/);
    expect(JSON.parse(out)).toMatchObject({
      kind: "Request",
      outcome: "started",
      verification: { phase: "Inconclusive" },
    });
  });
});
