import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { list } from "./listing.ts";
import { ObjectStore } from "./object-store.ts";
import { readPath, serialise } from "./objects.ts";
import { findKind, type ResourceKind } from "./resources.ts";
import { type SandboxCluster, startSandboxCluster } from "./sandbox-cluster.ts";
import { createTestClient, itemsOf, makeStage, metaOf, STAGES, type TestClient } from "./test-client.ts";

let cluster: SandboxCluster;
let client: TestClient;

beforeEach(async () => {
  cluster = await startSandboxCluster();
  client = createTestClient(cluster.url);
});

afterEach(async () => {
  client.close();
  await cluster.stop();
});

const names = (body: unknown): readonly string[] => itemsOf(body).map((item) => metaOf(item, "name"));
const query = (parameters: Record<string, string>): string => `${STAGES}?${new URLSearchParams(parameters)}`;

describe("list", () => {
  it("shows one namespace or all of them", async () => {
    await client.call("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
    await client.call("POST", STAGES, makeStage("b"));
    await client.call("POST", STAGES.replace("default", "shop"), makeStage("a"));
    expect(names((await client.call("GET", STAGES)).body)).toEqual(["b"]);
    const all = await client.call("GET", "/apis/kargo.akuity.io/v1alpha1/stages");
    expect(names(all.body)).toEqual(["b", "a"]);
    expect(all.body).toMatchObject({ kind: "StageList", apiVersion: "kargo.akuity.io/v1alpha1" });
  });

  it.each([
    ["a=1", ["one"]],
    ["a==1", ["one"]],
    ["a!=1", ["none", "two"]],
    ["a in (1,2)", ["one", "two"]],
    ["a notin (1)", ["none", "two"]],
    ["a", ["one", "two"]],
    ["!a", ["none"]],
    ["a in (1,2),b=x", ["two"]],
    ["a=", []],
  ])("selects by the label selector %s", async (labelSelector, expected) => {
    await client.call("POST", STAGES, makeStage("none"));
    await client.call("POST", STAGES, makeStage("one", { labels: { a: "1" } }));
    await client.call("POST", STAGES, makeStage("two", { labels: { a: "2", b: "x" } }));
    expect(names((await client.call("GET", query({ labelSelector }))).body)).toEqual(expected);
  });

  it("selects by name and namespace, and by no other field", async () => {
    await client.call("POST", STAGES, makeStage("a"));
    await client.call("POST", STAGES, makeStage("b"));
    const by = async (fieldSelector: string) => client.call("GET", query({ fieldSelector }));
    expect(names((await by("metadata.name=b,metadata.namespace=default")).body)).toEqual(["b"]);
    expect(names((await by("metadata.name!=b")).body)).toEqual(["a"]);
    expect((await by("spec.shard=east")).status).toBe(400);
    expect((await client.call("GET", query({ labelSelector: "a in 1" }))).status).toBe(400);
  });

  it("shows one moment on all pages", async () => {
    for (const name of ["a", "b", "c", "d"]) await client.call("POST", STAGES, makeStage(name));
    const first = await client.call("GET", query({ limit: "2" }));
    expect(names(first.body)).toEqual(["a", "b"]);
    expect(readPath(first.body, ["metadata", "remainingItemCount"])).toBe(2);
    await client.call("DELETE", `${STAGES}/c`);
    await client.call("POST", STAGES, makeStage("bb"));
    const rest = await client.call("GET", query({ limit: "2", continue: metaOf(first.body, "continue") }));
    expect(names(rest.body)).toEqual(["c", "d"]);
    expect(metaOf(rest.body, "continue")).toBe("");
    expect(metaOf(rest.body, "resourceVersion")).toBe(metaOf(first.body, "resourceVersion"));
  });

  it("answers 410 to a continue token that is too old, with one that goes on inconsistently", async () => {
    for (const name of ["a", "b", "c"]) await client.call("POST", STAGES, makeStage(name));
    const first = await client.call("GET", query({ limit: "1" }));
    await client.call("DELETE", `${STAGES}/b`);
    cluster.store.compact();
    const expired = await client.call("GET", query({ limit: "1", continue: metaOf(first.body, "continue") }));
    expect(expired.status).toBe(410);
    expect(expired.body).toMatchObject({ reason: "Expired" });
    const next = await client.call("GET", query({ continue: metaOf(expired.body, "continue") }));
    expect(names(next.body)).toEqual(["c"]);
  });

  it("refuses a token and a resourceVersion that it never gave out", async () => {
    expect((await client.call("GET", query({ continue: "bm9uc2Vuc2U" }))).status).toBe(400);
    expect((await client.call("GET", query({ resourceVersion: "abc" }))).status).toBe(400);
    expect((await client.call("GET", query({ resourceVersion: "999999" }))).status).toBe(504);
  });

  it("reads an exact moment of the past", async () => {
    const { body } = await client.call("POST", STAGES, makeStage("a"));
    await client.call("DELETE", `${STAGES}/a`);
    const resourceVersion = metaOf(body, "resourceVersion");
    const past = await client.call("GET", query({ resourceVersion, resourceVersionMatch: "Exact" }));
    expect(names(past.body)).toEqual(["a"]);
    expect(names((await client.call("GET", query({ resourceVersion }))).body)).toEqual([]);
  });
});

describe("paging", () => {
  const resource = findKind("v1", "ConfigMap") as ResourceKind;
  const change = fc.record({ name: fc.constantFrom("a", "b", "c", "d", "e"), remove: fc.boolean() });
  const changes = fc.array(change, { maxLength: 12 });

  function apply(store: ObjectStore, steps: readonly { name: string; remove: boolean }[]): void {
    for (const { name, remove } of steps) {
      const current = store.get(resource, `default/${name}`);
      if (remove && current !== undefined) store.remove(resource, current);
      if (remove) continue;
      const metadata = { name, namespace: "default", uid: name, resourceVersion: "", creationTimestamp: "" };
      store.put(resource, { apiVersion: "v1", kind: "ConfigMap", metadata });
    }
  }

  it("gives the pages of the first page's moment whatever is written in between", () => {
    fc.assert(
      fc.property(
        changes,
        fc.array(changes, { maxLength: 6 }),
        fc.integer({ min: 1, max: 3 }),
        (before, between, limit) => {
          const store = new ObjectStore({ resourceVersion: 0, objects: [] }, 1000);
          apply(store, before);
          const expected = store.snapshot(resource).map(serialise);
          const seen: string[] = [];
          let token: string | undefined;
          let pages = 0;
          do {
            const parameters = new URLSearchParams({ limit: String(limit) });
            if (token !== undefined) parameters.set("continue", token);
            const page = list(store, { resource, namespace: "", query: parameters });
            seen.push(...page.items.map(serialise));
            token = page.continue;
            apply(store, between[pages++] ?? []);
          } while (token !== undefined);
          expect(seen).toEqual(expected);
        },
      ),
    );
  });
});
