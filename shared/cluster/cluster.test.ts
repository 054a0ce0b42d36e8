import { describe, expect, it } from "vitest";
import { isFault } from "../domain/fault.ts";
import { type Cluster, createCluster } from "./cluster.ts";
import type { KubernetesRequest, KubernetesResponse, KubernetesTransport } from "./transport.ts";

/** A cluster whose API server, or whatever stands before it, gives these answers one after the other. */
function answering(...answers: readonly { readonly status: number; readonly body: unknown }[]) {
  const asked: KubernetesRequest[] = [];
  const transport: KubernetesTransport = {
    async request(request): Promise<KubernetesResponse> {
      const answer = answers[Math.min(asked.length, answers.length - 1)] ?? { status: 500, body: undefined };
      asked.push(request);
      return { headers: {}, ...answer };
    },
    stream: () => Promise.reject(new Error("no streams here")),
    close() {},
  };
  return { asked, cluster: createCluster("harbour", transport) };
}

async function kindOfFault(work: () => Promise<unknown>): Promise<string> {
  try {
    return `no fault but ${JSON.stringify(await work())}`;
  } catch (error) {
    if (isFault(error)) return error.kind;
    throw error;
  }
}

async function readAll(pages: AsyncIterable<{ readonly items: readonly unknown[] }>): Promise<number> {
  let count = 0;
  for await (const { items } of pages) count += items.length;
  return count;
}

const VERBS: Record<string, (cluster: Cluster) => Promise<unknown>> = {
  getStage: (cluster) => cluster.getStage("p", "s"),
  getAnalysisRun: (cluster) => cluster.getAnalysisRun("p", "r"),
  getTemplate: (cluster) => cluster.getTemplate("p", { kind: "AnalysisTemplate", name: "t" }),
  terminateAnalysisRun: (cluster) => cluster.terminateAnalysisRun("p", "r"),
  patchStatus: (cluster) => cluster.patchStatus("stages", "p", "s", {}),
  createAnalysisRun: (cluster) => cluster.createAnalysisRun("p", { metadata: { name: "r" } }),
  listAnalysisRuns: (cluster) => readAll(cluster.listAnalysisRuns()),
  listStages: (cluster) => readAll(cluster.listStages()),
};

describe.each(Object.entries(VERBS))("%s", (_verb, run) => {
  it.each([
    ["a proxy's sign-in page", "<html>sign in</html>"],
    ["nothing", undefined],
    ["JSON cut short", '{"kind":"Sta'],
    ["a list", []],
    ["an object without metadata", { kind: "Stage" }],
  ])("answered 200 with %s knows nothing, and is tried again", async (_, body) => {
    expect(await kindOfFault(() => run(answering({ status: 200, body }).cluster))).toBe("Transient");
  });
});

describe("a 404", () => {
  it.each(["getStage", "getAnalysisRun", "terminateAnalysisRun", "patchStatus"])(
    "that is not the API server's own word on the object says nothing of it (%s)",
    async (verb) => {
      const run = VERBS[verb] ?? (() => Promise.resolve());
      const page = answering({ status: 404, body: "404 page not found\n" });
      expect(await kindOfFault(() => run(page.cluster))).toBe("Transient");
      const gone = answering({ status: 404, body: { kind: "Status", reason: "NotFound", code: 404 } });
      expect([undefined, "gone"]).toContain(await run(gone.cluster));
    },
  );
});

describe("a list", () => {
  const page = (token: string, items: unknown[] | null = [{ metadata: { name: "a" } }]) => ({
    status: 200,
    body: { kind: "StageList", metadata: { resourceVersion: "7", continue: token }, items },
  });

  it("is read to its last page", async () => {
    const { asked, cluster } = answering(page("x"), page("y"), page(""));
    expect(await readAll(cluster.listStages())).toBe(3);
    expect(asked.map(({ query }) => query?.continue)).toEqual([undefined, "x", "y"]);
  });

  it("may be empty, also as Go writes it", async () => {
    expect(await readAll(answering(page("", null)).cluster.listStages())).toBe(0);
  });

  it("that never ends is given up", async () => {
    const { asked, cluster } = answering(page("x"));
    expect(await kindOfFault(() => readAll(cluster.listStages()))).toBe("Transient");
    expect(asked).toHaveLength(2);
  });

  it.each([
    ["without a resourceVersion", { kind: "StageList", metadata: {}, items: [] }],
    ["without items", { kind: "StageList", metadata: { resourceVersion: "7" } }],
    ["of another kind without items", { kind: "Status", metadata: { resourceVersion: "7" }, items: null }],
  ])("%s is none: nothing must seem to be deleted", async (_, body) => {
    expect(await kindOfFault(() => readAll(answering({ status: 200, body }).cluster.listStages()))).toBe(
      "Transient",
    );
  });
});
