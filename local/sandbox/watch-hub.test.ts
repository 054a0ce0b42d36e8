import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ObjectStore } from "./object-store.ts";
import { keyOf, readPath, type StoredObject, serialise } from "./objects.ts";
import { findKind, type ResourceKind } from "./resources.ts";
import { type SandboxCluster, startSandboxCluster } from "./sandbox-cluster.ts";
import { parseLabelSelector } from "./selectors.ts";
import {
  CONFIG_MAPS,
  createTestClient,
  makeConfigMap,
  makeStage,
  metaOf,
  STAGES,
  type TestClient,
  type WatchEvent,
  type WatchReader,
} from "./test-client.ts";
import { WatchHub } from "./watch-hub.ts";

let cluster: SandboxCluster;
let client: TestClient;
const readers: WatchReader[] = [];

beforeEach(async () => {
  cluster = await startSandboxCluster({ eventWindow: 10, bookmarkIntervalMs: 20 });
  client = createTestClient(cluster.url);
});

afterEach(async () => {
  for (const reader of readers.splice(0)) reader.close();
  client.close();
  await cluster.stop();
});

async function watch(path: string): Promise<WatchReader> {
  const reader = await client.watch(path);
  readers.push(reader);
  return reader;
}

const currentVersion = async (): Promise<string> =>
  metaOf((await client.call("GET", STAGES)).body, "resourceVersion");
const shape = (event: WatchEvent | undefined): string => `${event?.type} ${metaOf(event?.object, "name")}`;

describe("watch", () => {
  it("begins with what exists when no resourceVersion is given", async () => {
    await client.call("POST", STAGES, makeStage("a"));
    const reader = await watch(`${STAGES}?watch=true`);
    expect(shape(await reader.next())).toBe("ADDED a");
    await client.call("DELETE", `${STAGES}/a`);
    expect(shape(await reader.next())).toBe("DELETED a");
  });

  it("resumes after a resourceVersion without loss or repetition", async () => {
    await client.call("POST", STAGES, makeStage("a"));
    const from = await currentVersion();
    await client.call("PATCH", `${STAGES}/a`, { spec: { shard: "east" } });
    await client.call("POST", CONFIG_MAPS, makeConfigMap("other"));
    await client.call("DELETE", `${STAGES}/a`);
    const reader = await watch(`${STAGES}?watch=true&resourceVersion=${from}`);
    const events = [await reader.next(), await reader.next()];
    expect(events.map(shape)).toEqual(["MODIFIED a", "DELETED a"]);
    const versions = [from, ...events.map((event) => metaOf(event?.object, "resourceVersion"))].map(Number);
    expect(versions).toEqual(versions.toSorted((a, b) => a - b));
    expect(new Set(versions).size).toBe(3);
  });

  it("says ADDED and DELETED when an object comes into a selector and leaves it", async () => {
    await client.call("POST", STAGES, makeStage("a"));
    const from = await currentVersion();
    const reader = await watch(`${STAGES}?watch=true&resourceVersion=${from}&labelSelector=in%3Dyes`);
    await client.call("PATCH", `${STAGES}/a`, { metadata: { labels: { in: "yes" } } });
    await client.call("PATCH", `${STAGES}/a`, { spec: { shard: "east" } });
    const { body } = await client.call("PATCH", `${STAGES}/a`, { metadata: { labels: { in: "no" } } });
    const events = [await reader.next(), await reader.next(), await reader.next()];
    expect(events.map(shape)).toEqual(["ADDED a", "MODIFIED a", "DELETED a"]);
    // What left is shown as it was known, at the version of the change.
    expect(readPath(events[2]?.object, ["metadata", "labels"])).toEqual({ in: "yes" });
    expect(metaOf(events[2]?.object, "resourceVersion")).toBe(metaOf(body, "resourceVersion"));
  });

  it("answers too old a resourceVersion with an ERROR event of 410, or with HTTP 410 when told to", async () => {
    const from = await currentVersion();
    await client.call("POST", STAGES, makeStage("a"));
    cluster.store.compact();
    const inStream = await watch(`${STAGES}?watch=true&resourceVersion=${from}`);
    expect(inStream.status).toBe(200);
    expect(await inStream.next()).toMatchObject({ type: "ERROR", object: { code: 410, reason: "Expired" } });
    expect(await inStream.next()).toBeUndefined();
    cluster.faults.goneAsHttpStatus(true);
    expect((await watch(`${STAGES}?watch=true&resourceVersion=${from}`)).status).toBe(410);
  });

  it("forgets what falls out of the event window", async () => {
    const from = await currentVersion();
    for (let i = 0; i < 11; i++) await client.call("POST", CONFIG_MAPS, makeConfigMap(`map-${i}`));
    const reader = await watch(`${STAGES}?watch=true&resourceVersion=${from}`);
    expect(await reader.next()).toMatchObject({ type: "ERROR", object: { code: 410 } });
  });

  it("moves a watcher on by bookmarks although nothing of its kind changes", async () => {
    const from = await currentVersion();
    const reader = await watch(`${STAGES}?watch=true&allowWatchBookmarks=true&resourceVersion=${from}`);
    const { body } = await client.call("POST", CONFIG_MAPS, makeConfigMap("other"));
    let event = await reader.next();
    while (metaOf(event?.object, "resourceVersion") === from) event = await reader.next();
    expect(event?.type).toBe("BOOKMARK");
    expect(metaOf(event?.object, "resourceVersion")).toBe(metaOf(body, "resourceVersion"));
  });

  it("ends after timeoutSeconds with a last bookmark", async () => {
    const reader = await watch(`${STAGES}?watch=true&allowWatchBookmarks=true&timeoutSeconds=0.05`);
    let last: WatchEvent | undefined;
    for (let event = await reader.next(); event !== undefined; event = await reader.next()) last = event;
    expect(last?.type).toBe("BOOKMARK");
  });

  it("marks the end of the initial events when they were asked for", async () => {
    await client.call("POST", STAGES, makeStage("a"));
    const reader = await watch(
      `${STAGES}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan`,
    );
    expect(shape(await reader.next())).toBe("ADDED a");
    const mark = await reader.next();
    expect(mark?.type).toBe("BOOKMARK");
    expect(readPath(mark?.object, ["metadata", "annotations", "k8s.io/initial-events-end"])).toBe("true");
  });

  it("can be dropped, expired and stalled", async () => {
    const from = await currentVersion();
    const path = `${STAGES}?watch=true&resourceVersion=${from}`;
    const dropped = await watch(path);
    cluster.faults.dropWatches();
    expect(await dropped.next()).toBeUndefined();

    const expired = await watch(path);
    cluster.faults.expireWatches();
    expect(await expired.next()).toMatchObject({ type: "ERROR", object: { code: 410 } });

    const stalled = await watch(path);
    cluster.faults.stallWatches(true);
    await client.call("POST", STAGES, makeStage("a"));
    const event = stalled.next();
    const silent = await Promise.race([event, currentVersion().then(() => "silent")]);
    expect(silent).toBe("silent");
    cluster.faults.stallWatches(false);
    expect(shape(await event)).toBe("ADDED a");
    expect(cluster.store.stats().watches).toBe(1);
  });
});

describe("replay", () => {
  const resource = findKind("v1", "ConfigMap") as ResourceKind;
  const matches = parseLabelSelector("in=yes");

  interface Step {
    readonly name: string;
    readonly action: "put" | "remove";
    readonly labelled: boolean;
    readonly value: number;
  }
  const step: fc.Arbitrary<Step> = fc.record({
    name: fc.constantFrom("a", "b", "c", "d"),
    action: fc.constantFrom("put", "put", "remove"),
    labelled: fc.boolean(),
    value: fc.nat(3),
  });

  function take(store: ObjectStore, { name, action, labelled, value }: Step): void {
    const current = store.get(resource, `default/${name}`);
    if (action === "remove") {
      if (current !== undefined) store.remove(resource, current);
      return;
    }
    store.put(resource, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: {
        name,
        namespace: "default",
        uid: current?.metadata.uid ?? `${name}-${store.resourceVersion}`,
        resourceVersion: "",
        creationTimestamp: "2026-01-01T00:00:00Z",
        labels: { in: labelled ? "yes" : "no" },
      },
      data: { value },
    });
  }

  const select = (objects: readonly StoredObject[]): Map<string, string> =>
    new Map(objects.filter(matches).map((object) => [keyOf(object), serialise(object)]));

  it("from any resourceVersion ends in the state that a list shows, events in order", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.nat(30), fc.nat(30), (steps, joins, blocks) => {
        const store = new ObjectStore({ resourceVersion: 0, objects: [] }, 1000);
        const hub = new WatchHub(store, 1_000_000);
        for (const one of steps) take(store, one);
        const from = Math.min(joins, store.resourceVersion);
        const known = select(store.snapshot(resource, from));
        let last = from;
        let room = blocks;
        let isFull = false;
        const waiting: (() => void)[] = [];
        hub.open(
          { resource, matches, from, bookmarks: false, markInitialEnd: false, format: serialise },
          {
            write: (frame) => {
              const { type, object } = JSON.parse(frame) as { type: string; object: StoredObject };
              const key = keyOf(object);
              expect(Number(object.metadata.resourceVersion)).toBeGreaterThan(last);
              last = Number(object.metadata.resourceVersion);
              // A reader that falls behind must lose nothing.
              expect(known.has(key)).toBe(type !== "ADDED");
              if (type === "DELETED") known.delete(key);
              else known.set(key, serialise(object));
              expect(isFull).toBe(false);
              room -= 1;
              isFull = room === 0;
              return !isFull;
            },
            onDrain: (resume) => waiting.push(resume),
            end: () => undefined,
            destroy: () => undefined,
          },
        );
        for (const one of steps.slice(0, 5)) take(store, one);
        isFull = false;
        for (const resume of waiting.splice(0)) resume();
        hub.stop();
        expect(known).toEqual(select(store.snapshot(resource)));
      }),
    );
  });
});
