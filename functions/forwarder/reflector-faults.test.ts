import { describe, expect, it } from "vitest";
import { createReflectorHarness, type ReflectorHarness } from "../../test/engines/reflector-harness.ts";
import {
  openWatch,
  refuse,
  reset,
  type ScriptedAnswer,
  silence,
  statusObject,
} from "../../test/engines/scripted-api-server.ts";

const line = (type: string, object: unknown) => `${JSON.stringify({ type, object })}\n`;
const stage = (name: string, resourceVersion: string, phase = "Running") => ({
  metadata: { namespace: "harbour", name, resourceVersion },
  phase,
});

/** After a fault: the reflector works again, without a new list, from where it was, and with one watch. */
async function expectResumed(h: ReflectorHarness, watches = 2): Promise<void> {
  await h.settle(
    "another watch",
    () => h.api.callsOf("watch").length === watches && h.api.liveWatches() === 1,
  );
  h.api.put("afterwards", { phase: "Successful" });
  await h.settle("the state of the server", () => h.mirror().has("harbour/afterwards"));
  expect(h.mirror()).toEqual(h.truth());
  expect(h.api.callsOf("list")).toHaveLength(1);
  expect(h.api.callsOf("watch")).toHaveLength(watches);
  expect(h.api.maxLiveWatches()).toBe(1);
}

describe("a watch that ends", () => {
  it("cleanly after its time is opened again at once, from the last version", async () => {
    const h = await createReflectorHarness();
    await h.start();
    h.api.put("quay");
    await h.eventually("the change", () => h.changes().length === 1);
    h.clock.advance(60_000);
    h.api.endWatches();
    await h.eventually("another watch without a pause", () => h.api.callsOf("watch").length === 2);
    expect(h.api.callsOf("watch").at(-1)?.query.get("resourceVersion")).toBe("101");
    expect(h.troubles).toEqual([]);
    await expectResumed(h);
  });

  it("by a reset in the middle goes on from the last version", async () => {
    const h = await createReflectorHarness();
    await h.start();
    h.api.put("quay");
    await h.eventually("the change", () => h.changes().length === 1);
    h.api.resetWatches();
    h.api.put("depot");
    await expectResumed(h);
  });

  it("by a restart of the server goes on from the last version", async () => {
    const h = await createReflectorHarness();
    await h.start();
    await h.api.stop();
    h.api.put("quay");
    await h.settle("some refused connections", () => h.troubles.length >= 3);
    await h.api.start();
    await h.settle("the change", () => h.changes().length === 1);
    expect(h.api.callsOf("list")).toHaveLength(1);
    expect(h.api.maxLiveWatches()).toBe(1);
  });

  it("right after its headers leads to exactly one new watch", async () => {
    const h = await createReflectorHarness();
    h.api.next(
      "watch",
      openWatch((response) => setImmediate(() => response.socket?.destroy())),
    );
    await h.start();
    await expectResumed(h);
  });

  it("in the middle of an event: the event comes again, whole", async () => {
    const h = await createReflectorHarness();
    h.api.next(
      "watch",
      openWatch((response) => response.end(line("ADDED", stage("quay", "101")).slice(0, 40))),
    );
    await h.start();
    expect(h.troubles[0]?.fault.message).toContain("in the middle of an event");
    await expectResumed(h);
  });

  it("by a line that is no JSON: what came before it counts, the rest comes again", async () => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    h.api.next(
      "watch",
      openWatch((response) =>
        response.write(`${line("MODIFIED", stage("quay", "102", "Failed"))}{"type":"ADDED","obj\n`),
      ),
    );
    await h.start();
    expect(h.changes().map(({ type }) => type)).toEqual(["added", "changed"]);
    expect(h.api.callsOf("watch").at(-1)?.query.get("resourceVersion")).toBe("102");
  });
});

describe("a server that says nothing", () => {
  it("keeps a watch open without a byte: given up after the silence timeout, then one new watch", async () => {
    const h = await createReflectorHarness();
    await h.start();
    h.api.muteWatches();
    h.api.put("quay");
    await h.eventually("the watchdog", () => h.clock.sleepers().some(({ ms }) => ms > 30_000));
    h.clock.advance(89_000);
    expect(h.troubles).toEqual([]);
    h.clock.advance(1_000);
    await h.eventually("the end of the watch", () => h.troubles.length === 1);
    expect(h.troubles[0]?.fault.message).toContain("silent for 90000 ms");
    await expectResumed(h);
  });

  it("never answers a watch (half-open connection): given up as well", async () => {
    const h = await createReflectorHarness();
    h.api.next("watch", silence);
    const started = h.start();
    await h.eventually("the watch", () => h.api.callsOf("watch").length === 1);
    await h.eventually("the watchdog", () => h.clock.sleepers().length === 1);
    h.clock.advance(90_000);
    await started;
    await expectResumed(h);
  });

  it("never answers a list: given up after the answer timeout", async () => {
    const h = await createReflectorHarness({ options: { answerTimeoutMs: 50 } });
    h.api.next("list", silence);
    await h.start();
    expect(h.troubles[0]).toMatchObject({ during: "list" });
    expect(h.troubles[0]?.fault.message).toContain("no answer within 50 ms");
  });

  it("stops in the middle of a list: given up, and nothing is taken for deleted", async () => {
    const h = await createReflectorHarness({ options: { answerTimeoutMs: 50 } });
    h.api.next("list", (response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.write('{"kind":"StageList","metadata":{"resourceVersion":"100"},"items":[');
    });
    h.api.put("quay");
    await h.start();
    expect(h.troubles).toHaveLength(1);
    expect(h.mirror()).toEqual(h.truth());
  });

  it("is not suspected while events or bookmarks keep coming", async () => {
    const h = await createReflectorHarness();
    await h.start();
    await h.eventually("the watchdog", () => h.clock.sleepers().length === 1);
    for (let minute = 1; minute <= 10; minute += 1) {
      h.clock.advance(60_000);
      h.api.bookmark();
      await h.eventually("the bookmark", () => h.reflector.state().resourceVersion === h.api.version());
    }
    expect(h.reflector.state()).toMatchObject({ reconnects: 0, lastActivityAt: h.clock.now() });
  });
});

describe("a server that says no", () => {
  it.each<[string, ScriptedAnswer]>([
    ["500", refuse(500)],
    ["503 in HTML from a proxy", refuse(503, { "content-type": "text/html" }, "<h1>no upstream</h1>")],
    ["an in-stream ERROR of another code", openWatch((r) => r.end(line("ERROR", statusObject(500))))],
    ["a reset before any answer", reset],
    ["a 200 that is a sign-in page", openWatch((r) => r.end("<html>\nsign in\n</html>\n"))],
  ])("%s: goes on from the last version, without a list", async (_, answer) => {
    const h = await createReflectorHarness();
    await h.start();
    h.api.next("watch", answer);
    h.api.resetWatches();
    h.api.put("quay");
    await expectResumed(h, 3);
  });

  it.each([
    ["in seconds", { "retry-after": "17" }, statusObject(429), 17_000],
    [
      "as a date",
      { "retry-after": new Date(Date.UTC(2030, 0, 1, 0, 0, 9)).toUTCString() },
      statusObject(429),
      9_000,
    ],
    ["in the Status object", {}, statusObject(429, { details: { retryAfterSeconds: 5 } }), 5_000],
    ["of a day, which is believed for five minutes", { "retry-after": "86400" }, statusObject(429), 300_000],
  ])("429 with Retry-After %s is honoured", async (_, headers, body, expected) => {
    const h = await createReflectorHarness();
    h.api.next("watch", refuse(429, headers as Record<string, string>, body));
    const started = h.start();
    await h.eventually("the refusal", () => h.troubles.length === 1);
    expect(h.troubles[0]?.retryInMs).toBe(expected);
    h.clock.advance(expected - 1);
    expect(h.api.callsOf("watch")).toHaveLength(1);
    h.clock.advance(1);
    await started;
    await expectResumed(h);
  });

  it("401: asks for a new token and goes on with it", async () => {
    const tokens: boolean[] = [];
    const token = async (refresh: boolean) => {
      tokens.push(refresh);
      return refresh ? "fresh" : "stale";
    };
    const h = await createReflectorHarness({ access: { token } });
    h.api.next("list", refuse(401));
    h.api.next("watch", refuse(401));
    await h.start();
    expect(h.api.calls.map(({ authorization }) => authorization)).toEqual([
      "Bearer stale",
      "Bearer fresh",
      "Bearer stale",
      "Bearer fresh",
    ]);
    expect(h.troubles).toEqual([]);
  });

  it.each<[string, ScriptedAnswer]>([
    ["as an HTTP status", refuse(410)],
    ["as an ERROR event", openWatch((response) => response.end(line("ERROR", statusObject(410))))],
  ])("410 %s: lists anew, and what was deleted meanwhile is one deletion", async (_, gone) => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    h.api.put("depot", { phase: "Running" });
    await h.start();
    h.api.next("watch", gone);
    h.api.resetWatches();
    h.api.remove("quay");
    h.api.put("depot", { phase: "Failed" });
    h.api.put("pier", { phase: "Pending" });
    h.api.compact();
    await h.settle("a second list", () => h.reflector.state().relists === 1);
    expect(h.changes().slice(2)).toMatchObject([
      { type: "changed", key: "harbour/depot", previous: { phase: "Running" }, current: { phase: "Failed" } },
      { type: "added", key: "harbour/pier" },
      { type: "deleted", key: "harbour/quay", previous: { phase: "Running" } },
    ]);
    // The Status object of the ERROR event is no Stage.
    expect(h.invalid).toEqual([]);
    expect(h.api.maxLiveWatches()).toBe(1);
  });

  it.each<[string, ScriptedAnswer]>([
    ["HTTP", refuse(410)],
    ["in-stream", openWatch((response) => response.end(line("ERROR", statusObject(410))))],
  ])("a storm of 410 (%s) slows down instead of listing for ever", async (_, gone) => {
    const h = await createReflectorHarness();
    h.api.put("quay");
    h.api.next("watch", ...Array.from({ length: 8 }, () => gone));
    await h.start();
    expect(h.api.callsOf("list")).toHaveLength(9);
    expect(h.troubles.map(({ retryInMs }) => retryInMs)).toEqual([
      500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000,
    ]);
    expect(h.changes()).toHaveLength(1);
  });
});

describe("an outage", () => {
  it.each([
    ["with the shortest", 0],
    ["with the longest", 0.999],
  ])("of 60 s costs fewer than 15 requests, %s pauses", async (_, random) => {
    const h = await createReflectorHarness({ random: () => random });
    await h.start();
    const before = h.api.calls.length;
    const down = h.clock.now();
    h.api.always(reset);
    h.api.resetWatches();
    await h.settle("60 s", () => h.clock.now() - down >= 60_000);
    const requests = h.api.calls.length - before;
    expect(requests).toBeGreaterThan(2);
    expect(requests).toBeLessThan(15);
    h.api.always(undefined);
    h.api.put("quay");
    await h.settle("the change", () => h.changes().length === 1);
    expect(h.api.callsOf("list")).toHaveLength(1);
  });

  it("does not end the backoff with streams that open and break at once", async () => {
    const h = await createReflectorHarness();
    const brief = openWatch((response) => response.end());
    h.api.next("watch", brief, brief, brief, brief);
    await h.start();
    // The last sleep is the watchdog's of the watch that lives.
    expect(h.clock.asked.filter((ms) => ms <= 30_000)).toEqual([500, 1_000, 2_000, 4_000]);
  });

  it("starts with short pauses again once a stream has proved itself", async () => {
    const h = await createReflectorHarness();
    h.api.next("watch", reset, reset, reset);
    await h.start();
    h.api.put("quay");
    await h.eventually("the change", () => h.changes().length === 1);
    h.clock.advance(10_000);
    h.api.resetWatches();
    await h.settle("another pause", () => h.troubles.length === 4);
    expect(h.troubles.map(({ retryInMs }) => retryInMs)).toEqual([500, 1_000, 2_000, 500]);
  });
});

describe("characters of several bytes", () => {
  it("survive being cut by a chunk boundary at every byte", async () => {
    const h = await createReflectorHarness();
    const phase = "Läuft 🚢 码头";
    const bytes = Buffer.from(line("ADDED", stage("quay", "101", phase)));
    h.api.next(
      "watch",
      openWatch((response) => {
        response.socket?.setNoDelay(true);
        let at = 0;
        const write = () => {
          if (at >= bytes.length) return;
          response.write(bytes.subarray(at, at + 1));
          at += 1;
          setImmediate(write);
        };
        write();
      }),
    );
    void h.start().catch(() => {});
    await h.eventually("the event", () => h.changes().length === 1);
    expect(h.changes()[0]).toMatchObject({ current: { phase } });
    h.api.resetWatches();
  });
});
