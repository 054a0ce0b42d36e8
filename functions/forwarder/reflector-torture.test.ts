import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createReflectorHarness, type ReflectorHarness } from "../../test/engines/reflector-harness.ts";
import { openWatch, refuse, statusObject } from "../../test/engines/scripted-api-server.ts";

/** What remains of a hostile day beside `reflector-faults.test.ts`: clocks that jump, tokens that change, lists that expire. */
const line = (type: string, object: unknown) => `${JSON.stringify({ type, object })}\n`;
const HOUR = 3_600_000;

async function expectAllKnown(h: ReflectorHarness): Promise<void> {
  h.api.put("afterwards", { phase: "Successful" });
  await h.settle("the state of the server", () => h.mirror().has("harbour/afterwards"));
  expect(h.mirror()).toEqual(h.truth());
  expect(h.api.maxLiveWatches()).toBe(1);
}

describe("a clock that jumps", () => {
  it("back by an hour while the server is silent: the watch is given up after two silence timeouts at most", async () => {
    const h = await createReflectorHarness();
    await h.start();
    await h.eventually("the watchdog", () => h.clock.sleepers().length === 1);
    h.api.muteWatches();
    h.api.put("quay");
    h.clock.jump(-HOUR);
    for (let round = 0; round < 2 && h.troubles.length === 0; round++) {
      h.clock.advance(90_000);
      await h.eventually(
        "the watchdog to have looked",
        () => h.troubles.length > 0 || h.clock.sleepers().length === 1,
      );
    }
    expect(h.troubles[0]?.fault.message).toContain("silent for 90000 ms");
    await expectAllKnown(h);
    expect(h.api.callsOf("list")).toHaveLength(1);
  });

  it("on by an hour costs one new watch at most, and no list", async () => {
    const h = await createReflectorHarness();
    await h.start();
    await h.eventually("the watchdog", () => h.clock.sleepers().length === 1);
    h.clock.jump(HOUR);
    h.api.bookmark();
    await h.eventually("the bookmark", () => h.reflector.state().resourceVersion === h.api.version());
    await expectAllKnown(h);
    expect(h.api.callsOf("list")).toHaveLength(1);
    expect(h.api.callsOf("watch").length).toBeLessThanOrEqual(2);
  });

  it("back and forth during pauses lets no pause grow beyond what was meant", async () => {
    const h = await createReflectorHarness();
    h.api.next("watch", refuse(503), refuse(503), refuse(503));
    const started = h.start();
    for (const ms of [HOUR, -2 * HOUR, HOUR]) {
      await h.eventually("a pause", () => h.clock.sleepers().length > 0);
      h.clock.jump(ms);
    }
    await started;
    expect(h.troubles.map(({ retryInMs }) => retryInMs)).toEqual([500, 1_000, 2_000]);
    await expectAllKnown(h);
  });

  it("an hour behind the server's believes a Retry-After date for five minutes only", async () => {
    const h = await createReflectorHarness();
    h.clock.jump(-HOUR);
    const date = new Date(h.clock.now() + HOUR + 5_000).toUTCString();
    h.api.next("watch", refuse(429, { "retry-after": date }, statusObject(429)));
    const started = h.start();
    await h.eventually("the refusal", () => h.troubles.length === 1);
    expect(h.troubles[0]?.retryInMs).toBe(300_000);
    h.clock.advance(300_000);
    await started;
  });
});

describe("a token that changes", () => {
  it("in its file while a watch is open: the next connection uses the new one, without a list", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tallyman-token-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const { findTokenSource } = await import("../../shared/runtime/cluster-connection.ts");
    const tokenFile = join(folder, "token");
    writeFileSync(tokenFile, "old\n");
    const token = findTokenSource({ name: "harbour", server: "http://127.0.0.1:1", tokenFile });
    if (token === undefined) throw new Error("no token source");
    const h = await createReflectorHarness({ access: { token } });
    await h.start();
    writeFileSync(tokenFile, "new\n");
    // The server has forgotten the old one: it ends the watch, and refuses it once.
    h.api.next("watch", refuse(401));
    h.api.resetWatches();
    await expectAllKnown(h);
    expect(h.api.calls.map(({ authorization }) => authorization)).toEqual([
      "Bearer old",
      "Bearer old",
      "Bearer old",
      "Bearer new",
    ]);
    expect(h.api.callsOf("list")).toHaveLength(1);
  });

  it("too late: 401 for a while is an outage, with pauses, and then goes on from the last version", async () => {
    const tokens: string[] = ["old"];
    const h = await createReflectorHarness({ access: { token: async () => tokens.at(-1) } });
    await h.start();
    h.api.next("watch", ...Array.from({ length: 6 }, () => refuse(401)));
    h.api.resetWatches();
    await h.settle("three refusals", () => h.troubles.length >= 4);
    expect(h.troubles.slice(1).every(({ fault }) => fault.message.includes("401"))).toBe(true);
    tokens.push("new");
    await expectAllKnown(h);
    expect(h.api.callsOf("list")).toHaveLength(1);
  });
});

describe("a server in trouble", () => {
  it("that stalls in the middle of an event is given up, and the event comes again, whole", async () => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    h.api.next(
      "watch",
      openWatch((response) => response.write(line("MODIFIED", { metadata: { name: "quay" } }).slice(0, 20))),
    );
    const started = h.start();
    await h.eventually("the watchdog", () => h.clock.sleepers().some(({ ms }) => ms > 30_000));
    await h.eventually("the bytes", () => h.api.callsOf("watch").length === 1);
    // The bytes count as a sign of life, so the silence begins with them.
    while (h.troubles.length === 0) {
      h.clock.advance(90_000);
      await new Promise(setImmediate);
    }
    expect(h.troubles[0]?.fault.message).toContain("silent for 90000 ms");
    await started;
    await expectAllKnown(h);
  });

  it.each([
    [
      "in the middle of an object",
      '{"kind":"StageList","metadata":{"resourceVersion":"100"},"items":[{"meta',
    ],
    ["before its metadata", '{"kind":"StageList","items":[]'],
    ["to nothing", ""],
  ])("that sends JSON cut %s, as if it were all, deletes nothing", async (_, body) => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    await h.start();
    h.api.next("watch", refuse(410));
    h.api.next("list", refuse(200, {}, body));
    h.api.resetWatches();
    await h.settle("a second list", () => h.reflector.state().relists === 1);
    expect(h.changes().filter(({ type }) => type === "deleted")).toEqual([]);
    await expectAllKnown(h);
  });

  it("whose lists are refused with 429 is asked again when it said", async () => {
    const h = await createReflectorHarness();
    h.api.next("list", refuse(429, { "retry-after": "21" }, statusObject(429)));
    const started = h.start();
    await h.eventually("the refusal", () => h.troubles.length === 1);
    expect(h.troubles[0]).toMatchObject({ during: "list", retryInMs: 21_000 });
    h.clock.advance(20_999);
    expect(h.api.callsOf("list")).toHaveLength(1);
    h.clock.advance(1);
    await started;
    await expectAllKnown(h);
  });

  it("whose continue tokens expire again and again is listed with growing pauses, and nothing is told twice", async () => {
    const h = await createReflectorHarness({ pageSize: 10 });
    h.api.fill(25, (index) => ({ phase: index }));
    const expired = refuse(410, {}, statusObject(410, { reason: "Expired" }));
    h.api.next("list", ...Array.from({ length: 5 }, () => [h.api.proper, expired]).flat());
    await h.start();
    expect(h.troubles.map(({ retryInMs }) => retryInMs)).toEqual([500, 1_000, 2_000, 4_000, 8_000]);
    expect(h.changes()).toHaveLength(25);
    expect(h.mirror()).toEqual(h.truth());
  });

  it("that changes while a list of several pages is read: nothing falls between list and watch", async () => {
    const h = await createReflectorHarness({ pageSize: 10 });
    h.api.fill(25, (index) => ({ phase: index }));
    h.api.next("list", h.api.proper, (response, request) => {
      h.api.remove("filled-3");
      h.api.put("filled-7", { phase: "changed" });
      h.api.put("new", { phase: "Pending" });
      h.api.proper(response, request);
    });
    await h.start();
    await expectAllKnown(h);
    expect(h.mirror().has("harbour/filled-3")).toBe(false);
  });

  it("that storms with 410 in stream and over HTTP while objects come and go tells each of them right", async () => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    await h.start();
    const inStream = openWatch((response) => response.end(line("ERROR", statusObject(410))));
    for (let round = 0; round < 6; round++) {
      h.api.next("watch", round % 2 === 0 ? inStream : refuse(410));
      h.api.compact();
      h.api.resetWatches();
      h.api.put(`ship-${round}`, { phase: "Pending" });
      if (round > 0) h.api.remove(`ship-${round - 1}`);
      await h.settle("another list", () => h.reflector.state().relists > round);
    }
    await expectAllKnown(h);
    const told = h.changes().map(({ type }) => type);
    expect(told.filter((type) => type === "added")).toHaveLength(8);
    expect(told.filter((type) => type === "deleted")).toHaveLength(5);
  });
});
