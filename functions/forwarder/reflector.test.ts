import { describe, expect, it } from "vitest";
import { createReflectorHarness, type StageEvent } from "../../test/engines/reflector-harness.ts";
import {
  refuse,
  type ScriptedAnswer,
  startScriptedApiServer,
  statusObject,
} from "../../test/engines/scripted-api-server.ts";

describe("listing", () => {
  it("tells of every object once, then that the list is complete, and watches from the list's version", async () => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    h.api.put("depot", { phase: "Failed" });
    await h.start();
    await h.eventually("synced", () => h.events.length === 3);
    expect(h.events).toEqual([
      { type: "added", key: "harbour/quay", current: { phase: "Running" }, resourceVersion: "101" },
      { type: "added", key: "harbour/depot", current: { phase: "Failed" }, resourceVersion: "102" },
      { type: "synced", resourceVersion: "102" },
    ]);
    const [watch] = h.api.callsOf("watch");
    expect(Object.fromEntries(watch?.query ?? [])).toEqual({
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: "102",
      timeoutSeconds: "290",
    });
    expect(h.reflector.state()).toMatchObject({
      resourceVersion: "102",
      synced: true,
      relists: 0,
      reconnects: 0,
    });
  });

  it("loses nothing that changes between the list and the watch", async () => {
    const h = await createReflectorHarness({
      handler: (batch) => {
        seen.push(...batch);
        // The list is taken, the watch is not open yet.
        if (batch.some(({ type }) => type === "synced")) h.api.put("quay", { phase: "Running" });
      },
    });
    const seen: StageEvent[] = [];
    await h.start();
    await h.eventually("the change", () => seen.some((event) => event.type === "added"));
    expect(seen.map(({ type }) => type)).toEqual(["synced", "added"]);
  });

  it("walks 50,000 objects in pages, starts over when the continue token expires, and tells of each once", async () => {
    const h = await createReflectorHarness({ pageSize: 5_000 });
    h.api.fill(50_000, (index) => ({ phase: index }));
    const compacting: ScriptedAnswer = (response, request) => {
      h.api.compact();
      h.api.proper(response, request);
    };
    h.api.next("list", ...Array.from({ length: 5 }, () => h.api.proper), compacting);
    await h.start();
    expect(h.troubles.map(({ fault }) => fault.message).join()).toContain("410");
    expect(h.api.callsOf("list").filter(({ query }) => !query.has("continue"))).toHaveLength(2);
    expect(h.changes()).toHaveLength(50_000);
    expect(new Set(h.changes().map(({ type }) => type))).toEqual(new Set(["added"]));
  }, 30_000);

  it.each([
    ["500", refuse(500)],
    ["410", refuse(410)],
    ["a page that is no list", refuse(200, {}, { kind: "Something", metadata: {} })],
    ["an HTML page", refuse(200, { "content-type": "text/html" }, "<html>sign in</html>")],
  ])("never takes a list that breaks off with %s for the truth: no mass deletion", async (_, broken) => {
    const h = await createReflectorHarness({ pageSize: 10 });
    h.api.fill(25, (index) => ({ phase: index }));
    await h.start();
    h.api.compact();
    h.api.next("watch", refuse(410));
    h.api.next("list", h.api.proper, broken);
    h.api.resetWatches();
    await h.settle("a second list", () => h.reflector.state().relists === 1);
    expect(h.changes().filter(({ type }) => type === "deleted")).toEqual([]);
    expect(h.mirror()).toEqual(h.truth());
  });

  it("asks for smaller pages when a page is too large to be taken", async () => {
    const api = await startScriptedApiServer();
    const h = await createReflectorHarness({ api, pageSize: 8 });
    let lists = 0;
    const limits = () => api.callsOf("list").map(({ query }) => query.get("limit"));
    api.put("quay", {});
    // A body that says it is larger than any cap.
    api.next("list", (response) => {
      lists += 1;
      response.writeHead(200, { "content-type": "application/json", "content-length": String(2 ** 40) });
      response.flushHeaders();
      response.write("{");
    });
    await h.start();
    expect(lists).toBe(1);
    expect(limits()).toEqual(["8", "4"]);
    await h.stop();
    await api.stop();
  });
});

describe("watching", () => {
  it("tells of what was added, changed and deleted, with what was before", async () => {
    const h = await createReflectorHarness();
    await h.start();
    h.api.put("quay", { phase: "Pending" });
    h.api.put("quay", { phase: "Running" });
    h.api.remove("quay");
    await h.eventually("three changes", () => h.changes().length === 3);
    expect(h.changes()).toEqual([
      { type: "added", key: "harbour/quay", current: { phase: "Pending" }, resourceVersion: "101" },
      {
        type: "changed",
        key: "harbour/quay",
        previous: { phase: "Pending" },
        current: { phase: "Running" },
        resourceVersion: "102",
      },
      { type: "deleted", key: "harbour/quay", previous: { phase: "Running" }, resourceVersion: "103" },
    ]);
    expect([...h.reflector.entries()]).toEqual([]);
  });

  it("says nothing of a MODIFIED in which only managedFields and the resourceVersion changed", async () => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    await h.start();
    for (let round = 0; round < 50; round += 1)
      h.api.put("quay", { phase: "Running", managedFields: [round] });
    await h.eventually("the last version", () => h.reflector.state().resourceVersion === h.api.version());
    expect(h.changes()).toHaveLength(1);
  });

  it("makes one effect of the same event that comes 300 times", async () => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    await h.start();
    const metadata = { namespace: "harbour", name: "quay", resourceVersion: "102" };
    const modified = JSON.stringify({ type: "MODIFIED", object: { metadata, phase: "Failed" } });
    h.api.write(`${modified}\n`.repeat(300));
    await h.eventually("the change", () => h.changes().length === 2);
    const deleted = JSON.stringify({
      type: "DELETED",
      object: { metadata: { ...metadata, resourceVersion: "103" } },
    });
    h.api.write(`${deleted}\n`.repeat(300));
    await h.eventually("the last event", () => h.reflector.state().resourceVersion === "103");
    expect(h.changes().map(({ type }) => type)).toEqual(["added", "changed", "deleted"]);
  });

  it("passes bookmarks on and goes on from them", async () => {
    const h = await createReflectorHarness();
    await h.start();
    h.api.bookmark();
    await h.eventually("the bookmark", () => h.reflector.state().resourceVersion === "101");
    expect(h.events.at(-1)).toEqual({ type: "bookmark", resourceVersion: "101" });
    h.api.resetWatches();
    await h.settle("another watch", () => h.api.callsOf("watch").length === 2);
    expect(h.api.callsOf("watch").at(-1)?.query.get("resourceVersion")).toBe("101");
  });

  it("treats resource versions as opaque: 9, then 10, then 100, then something that is no number", async () => {
    const h = await createReflectorHarness();
    await h.start();
    for (const resourceVersion of ["9", "10", "100", "tide-b"]) {
      const metadata = { namespace: "harbour", name: "quay", resourceVersion };
      h.api.write(`${JSON.stringify({ type: "MODIFIED", object: { metadata, phase: resourceVersion } })}\n`);
    }
    await h.eventually("four changes", () => h.changes().length === 4);
    expect(h.reflector.state().resourceVersion).toBe("tide-b");
  });

  it("reports an object that cannot be projected, skips it, and keeps what was known of it", async () => {
    const h = await createReflectorHarness();
    h.api.put("quay", { phase: "Running" });
    h.api.put("ruin", { phase: "nonsense" });
    await h.start();
    expect(h.invalid).toMatchObject([
      { identity: { namespace: "harbour", name: "ruin", resourceVersion: "102" } },
    ]);
    h.api.put("quay", { phase: "nonsense" });
    await h.eventually("a second report", () => h.invalid.length === 2);
    // Still there, though not understood: a list must not delete it.
    h.api.compact();
    h.api.resetWatches();
    await h.settle("a second list", () => h.reflector.state().relists === 1);
    expect(h.changes()).toHaveLength(1);
    h.api.remove("quay");
    await h.settle("the deletion", () => h.changes().length === 2);
    expect(h.changes().at(-1)).toMatchObject({ type: "deleted", previous: { phase: "Running" } });
  });

  it("leaves out a line that is too long, reports it and goes on", async () => {
    const h = await createReflectorHarness({ options: { maxLineBytes: 1_000 } });
    await h.start();
    h.api.put("whale", { phase: "x".repeat(200_000) });
    h.api.put("quay", { phase: "Running" });
    await h.eventually("the next event", () => h.changes().length === 1);
    expect(h.invalid).toHaveLength(1);
    expect(h.changes()[0]).toMatchObject({ key: "harbour/quay" });
  });
});

describe("resuming", () => {
  it("goes on from a checkpoint without a list and says nothing of what is known already", async () => {
    const api = await startScriptedApiServer();
    api.fill(300, () => ({ phase: "Successful" }));
    const first = await createReflectorHarness({ api });
    await first.start();
    const resume = {
      resourceVersion: first.reflector.state().resourceVersion ?? "",
      known: [...first.reflector.entries()],
    };
    await first.stop();
    api.remove("filled-7");
    const second = await createReflectorHarness({ api, resume });
    await second.start();
    await second.eventually("the deletion", () => second.changes().length === 1);
    expect(second.changes()[0]).toMatchObject({ type: "deleted", previous: { phase: "Successful" } });
    expect(api.callsOf("list")).toHaveLength(1);
    await second.stop();
    await api.stop();
  });

  it("without knowing the objects tells a deletion all the same, once, with the state the event carries", async () => {
    const api = await startScriptedApiServer();
    api.put("quay", { phase: "Running" });
    api.put("depot", { phase: "Running" });
    const h = await createReflectorHarness({ api, resume: { resourceVersion: api.version() } });
    await h.start();
    const gone = (name: string, resourceVersion: string) => {
      const metadata = { namespace: "harbour", name, resourceVersion };
      return `${JSON.stringify({ type: "DELETED", object: { metadata, phase: "Failed" } })}\n`;
    };
    api.write(gone("quay", "103").repeat(300));
    api.put("depot", { phase: "Successful" });
    await h.eventually("the next change", () => h.changes().length === 2);
    api.write(gone("quay", "103"));
    api.remove("depot");
    await h.eventually("another deletion", () => h.changes().length === 3);
    expect(h.changes()).toMatchObject([
      { type: "deleted", key: "harbour/quay", previous: { phase: "Failed" }, resourceVersion: "103" },
      { type: "added", key: "harbour/depot", current: { phase: "Successful" } },
      { type: "deleted", key: "harbour/depot", previous: { phase: "Successful" } },
    ]);
    // After a complete list not to know an object means that it does not exist.
    api.compact();
    api.resetWatches();
    await h.settle("a list", () => h.reflector.state().relists === 1 && api.liveWatches() === 1);
    api.write(gone("phantom", "200"));
    await h.eventually("the event", () => h.reflector.state().resourceVersion === "200");
    expect(h.changes().filter(({ type }) => type === "deleted")).toHaveLength(2);
    await h.stop();
    await api.stop();
  });

  it("lists when the checkpoint is too old, and then tells only of differences", async () => {
    const api = await startScriptedApiServer();
    api.fill(300, () => ({ phase: "Successful" }));
    api.compact();
    const known = [...api.objects().keys()].map((name): [string, { phase: unknown }] => [
      `harbour/${name}`,
      { phase: "Successful" },
    ]);
    const h = await createReflectorHarness({ api, resume: { resourceVersion: "5", known } });
    await h.start();
    await h.settle("synced", () => h.reflector.state().relists === 1);
    expect(h.changes()).toEqual([]);
    await h.stop();
    await api.stop();
  });

  it("lists when the checkpoint comes from the future, as after the restore of an etcd backup", async () => {
    const h = await createReflectorHarness({ resume: { resourceVersion: "900", known: [] } });
    h.api.put("quay", { phase: "Running" });
    const causes = [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }];
    h.api.next("watch", refuse(504, {}, statusObject(504, { reason: "Timeout", details: { causes } })));
    await h.start();
    await h.settle("synced", () => h.reflector.state().relists === 1);
    expect(h.changes()).toHaveLength(1);
  });
});

describe("the handler", () => {
  it("ends run with its own error, and is given the same changes by the next run", async () => {
    let failures = 1;
    const taken: StageEvent[] = [];
    const h = await createReflectorHarness({
      handler: (batch) => {
        if (batch.some(({ type }) => type === "added") && failures > 0) {
          failures -= 1;
          throw new Error("the queue is full");
        }
        taken.push(...batch);
      },
    });
    await h.start();
    h.api.put("quay", { phase: "Running" });
    await expect(h.ended).rejects.toThrow("the queue is full");
    await h.eventually("no watch", () => h.api.liveWatches() === 0);
    const again = new AbortController();
    const second = h.reflector.run(again.signal);
    await h.settle("the change", () => taken.some(({ type }) => type === "added"));
    again.abort();
    await second;
    expect(h.api.callsOf("list")).toHaveLength(1);
  });

  it("holds the server back while it is busy, however much there is to come", async () => {
    const gate = Promise.withResolvers<void>();
    let largest = 0;
    let taken = 0;
    const h = await createReflectorHarness({
      handler: async (batch) => {
        if (batch.some(({ type }) => type === "synced")) return;
        await gate.promise;
        largest = Math.max(largest, batch.length);
        taken += batch.length;
      },
      options: { maxWaiting: 100 },
    });
    await h.start();
    const padding = "x".repeat(10_000);
    const total = 3_000;
    let version = 0;
    const event = () => {
      version += 1;
      const metadata = { namespace: "harbour", name: "quay", resourceVersion: `v${version}` };
      return `${JSON.stringify({ type: "MODIFIED", object: { metadata, phase: version, padding } })}\n`;
    };
    for (let index = 0; index < total; index += 1) h.api.write(event());
    await new Promise((resolve) => setTimeout(resolve, 200));
    // 30 MB were written; buffers of both kernels and of Node hold some, the rest waits at the server.
    expect(h.api.backlog()).toBeGreaterThan(10_000_000);
    gate.resolve();
    await h.eventually("all", () => taken === total);
    expect(largest).toBeLessThanOrEqual(100 + 20);
  });

  it("is not taken for silence of the server while it is busy", async () => {
    const gate = Promise.withResolvers<void>();
    const h = await createReflectorHarness({
      handler: async (batch) => {
        if (batch.some(({ type }) => type === "added")) await gate.promise;
      },
    });
    await h.start();
    h.api.put("quay", {});
    await h.eventually("the watchdog", () => h.clock.sleepers().length === 1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    for (let minute = 0; minute < 10; minute += 1) {
      h.clock.advance(60_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    gate.resolve();
    h.api.put("depot", {});
    await h.settle("the next change to be taken", () => h.reflector.state().resourceVersion === "102");
    expect(h.api.callsOf("watch")).toHaveLength(1);
    expect(h.troubles).toEqual([]);
  });

  it("refuses to run twice at once", async () => {
    const h = await createReflectorHarness();
    await h.start();
    await expect(h.reflector.run(new AbortController().signal)).rejects.toMatchObject({ kind: "Invalid" });
    expect(h.api.maxLiveWatches()).toBe(1);
  });
});
