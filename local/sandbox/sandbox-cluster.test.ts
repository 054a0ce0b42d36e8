import { connect } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { readPath } from "./objects.ts";
import { type SandboxCluster, startSandboxCluster } from "./sandbox-cluster.ts";
import {
  CONFIG_MAPS,
  createTestClient,
  itemsOf,
  makeConfigMap,
  makeRun,
  makeStage,
  metaOf,
  RUNS,
  STAGES,
  type TestClient,
} from "./test-client.ts";

let cluster: SandboxCluster;
let client: TestClient;

beforeAll(async () => {
  cluster = await startSandboxCluster();
  client = createTestClient(cluster.url);
});

afterEach(async () => {
  cluster.faults.clear();
  for (const path of [STAGES, RUNS, CONFIG_MAPS]) await client.call("DELETE", path);
});

afterAll(async () => {
  client.close();
  await cluster.stop();
});

const reasonOf = (body: unknown): unknown => readPath(body, ["reason"]);

describe("create", () => {
  it("sets uid, creationTimestamp, generation and resourceVersion and drops the status of a Stage", async () => {
    const { status, body } = await client.call("POST", STAGES, {
      ...makeStage("dev"),
      status: { health: { status: "Healthy" } },
    });
    expect(status).toBe(201);
    expect(metaOf(body, "uid")).toMatch(/^[0-9a-f-]{36}$/);
    expect(metaOf(body, "creationTimestamp")).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(metaOf(body, "generation")).toBe("1");
    expect(metaOf(body, "namespace")).toBe("default");
    expect(Number(metaOf(body, "resourceVersion"))).toBeGreaterThan(0);
    expect(body).not.toHaveProperty("status");
  });

  it("keeps the status of an AnalysisRun, which has no status subresource", async () => {
    const { body } = await client.call("POST", RUNS, { ...makeRun("run"), status: { phase: "Running" } });
    expect(body).toHaveProperty("status.phase", "Running");
  });

  it("makes a name from generateName", async () => {
    const { body } = await client.call("POST", STAGES, makeStage("", { generateName: "dev-" }));
    expect(metaOf(body, "name")).toMatch(/^dev-[a-z0-9]{5}$/);
  });

  it("answers 409 AlreadyExists with the name in the details", async () => {
    await client.call("POST", STAGES, makeStage("dev"));
    const { status, body } = await client.call("POST", STAGES, makeStage("dev"));
    expect(status).toBe(409);
    expect(body).toMatchObject({
      kind: "Status",
      apiVersion: "v1",
      status: "Failure",
      reason: "AlreadyExists",
      code: 409,
      message: 'stages.kargo.akuity.io "dev" already exists',
      details: { name: "dev", group: "kargo.akuity.io", kind: "stages" },
    });
  });

  it.each([
    ["no name", makeStage(""), 422, "Invalid"],
    ["a name that is no DNS subdomain", makeStage("Dev_1"), 422, "Invalid"],
    ["a label value over 63 characters", makeStage("dev", { labels: { a: "x".repeat(64) } }), 422, "Invalid"],
    [
      "an owner without uid",
      makeStage("dev", { ownerReferences: [{ kind: "A", name: "b" }] }),
      422,
      "Invalid",
    ],
    ["no requested Freight", { ...makeStage("dev"), spec: {} }, 422, "Invalid"],
    ["another kind", { ...makeStage("dev"), kind: "Freight" }, 422, "Invalid"],
    [
      "an empty list of requested Freight",
      { ...makeStage("dev"), spec: { requestedFreight: [] } },
      422,
      "Invalid",
    ],
    ["another apiVersion", { ...makeStage("dev"), apiVersion: "v1" }, 400, "BadRequest"],
    ["no kind", { ...makeStage("dev"), kind: undefined }, 400, "BadRequest"],
    ["another namespace", makeStage("dev", { namespace: "shop" }), 400, "BadRequest"],
    ["a body that is no object", [], 400, "BadRequest"],
  ])("refuses %s", async (_, body, code, reason) => {
    const response = await client.call("POST", STAGES, body);
    expect([response.status, reasonOf(response.body)]).toEqual([code, reason]);
  });

  it("refuses a namespace that does not exist", async () => {
    const { status, body } = await client.call(
      "POST",
      STAGES.replace("default", "nowhere"),
      makeStage("dev"),
    );
    expect(status).toBe(404);
    expect(body).toMatchObject({ message: 'namespaces "nowhere" not found' });
  });

  it("keeps nothing of a dry run", async () => {
    expect((await client.call("POST", `${STAGES}?dryRun=All`, makeStage("dev"))).status).toBe(201);
    expect((await client.call("GET", `${STAGES}/dev`)).status).toBe(404);
  });

  it("makes the namespace of a Project before it answers", async () => {
    const projects = "/apis/kargo.akuity.io/v1alpha1/projects";
    const project = { apiVersion: "kargo.akuity.io/v1alpha1", kind: "Project", metadata: { name: "shop" } };
    await client.call("POST", projects, project);
    expect((await client.call("GET", "/api/v1/namespaces/shop")).status).toBe(200);
  });

  it("turns stringData of a Secret into data", async () => {
    const secrets = "/api/v1/namespaces/default/secrets";
    const { body } = await client.call("POST", secrets, {
      metadata: { name: "key" },
      stringData: { a: "b" },
    });
    expect(body).toMatchObject({ type: "Opaque", data: { a: "Yg==" } });
    expect(body).not.toHaveProperty("stringData");
  });

  it("answers 413 to a body over 3 MB, etcd's refusal to a run over 1.5 MB, 422 to a ConfigMap over 1 MiB", async () => {
    const data = (size: number): unknown => ({ ...makeConfigMap("big"), data: { a: "x".repeat(size) } });
    expect((await client.call("POST", CONFIG_MAPS, data(3_200_000))).status).toBe(413);
    expect((await client.call("POST", CONFIG_MAPS, data(1_048_577))).status).toBe(422);
    expect((await client.call("POST", CONFIG_MAPS, data(1_048_576))).status).toBe(201);
    await client.call("POST", RUNS, makeRun("run"));
    const status = { phase: "Running", message: "x".repeat(1_600_000) };
    const large = await client.call("PATCH", `${RUNS}/run`, { status });
    expect([large.status, readPath(large.body, ["message"])]).toEqual([
      500,
      "etcdserver: request is too large",
    ]);
  });

  it("takes an Event only beside what it is about", async () => {
    const event = (namespace: string): unknown => ({
      metadata: { generateName: "dev." },
      involvedObject: { kind: "Freight", name: "one", namespace },
    });
    const statusOf = async (place: string, about: string): Promise<number> =>
      (await client.call("POST", `/api/v1/namespaces/${place}/events`, event(about))).status;
    expect(await statusOf("default", "default")).toBe(201);
    expect(await statusOf("default", "shop")).toBe(422);
    expect(await statusOf("default", "")).toBe(201);
  });
});

describe("update", () => {
  it("answers 409 Conflict to a resourceVersion that is not the latest", async () => {
    const { body: first } = await client.call("POST", STAGES, makeStage("dev"));
    await client.call("PATCH", `${STAGES}/dev`, { metadata: { labels: { a: "b" } } });
    const { status, body } = await client.call("PUT", `${STAGES}/dev`, first);
    expect([status, reasonOf(body)]).toEqual([409, "Conflict"]);
  });

  it("wants a resourceVersion for a custom resource and none for a ConfigMap", async () => {
    await client.call("POST", STAGES, makeStage("dev"));
    await client.call("POST", CONFIG_MAPS, makeConfigMap("map"));
    expect((await client.call("PUT", `${STAGES}/dev`, makeStage("dev"))).status).toBe(422);
    const map = { ...makeConfigMap("map"), data: { a: "1" } };
    expect((await client.call("PUT", `${CONFIG_MAPS}/map`, map)).status).toBe(200);
  });

  it("ignores status on the main resource, and everything else on /status", async () => {
    const { body: created } = await client.call("POST", STAGES, makeStage("dev"));
    const both = {
      ...(created as object),
      spec: { ...(readPath(created, ["spec"]) as object), shard: "east" },
      status: { freightSummary: "one" },
    };
    const { body: main } = await client.call("PUT", `${STAGES}/dev`, both);
    expect(main).toHaveProperty("spec.shard", "east");
    expect(main).not.toHaveProperty("status");

    const { body: status } = await client.call("PUT", `${STAGES}/dev/status`, {
      ...(main as object),
      metadata: { ...(readPath(main, ["metadata"]) as object), labels: { a: "b" } },
      spec: {},
      status: { freightSummary: "two" },
    });
    expect(status).toMatchObject({ spec: { shard: "east" }, status: { freightSummary: "two" } });
    expect(status).not.toHaveProperty("metadata.labels");
  });

  it("raises a Stage's generation for spec alone, an AnalysisRun's for status too", async () => {
    await client.call("POST", STAGES, makeStage("dev"));
    await client.call("POST", RUNS, makeRun("run"));
    const generations: string[] = [];
    for (const [path, patch] of [
      [`${STAGES}/dev`, { metadata: { annotations: { a: "b" } } }],
      [`${STAGES}/dev/status`, { status: { freightSummary: "x" } }],
      [`${STAGES}/dev`, { spec: { shard: "east" } }],
      [`${RUNS}/run`, { metadata: { annotations: { a: "b" } } }],
      [`${RUNS}/run`, { status: { phase: "Running" } }],
    ] as const) {
      generations.push(metaOf((await client.call("PATCH", path, patch)).body, "generation"));
    }
    expect(generations).toEqual(["1", "1", "2", "1", "2"]);
  });

  it("writes nothing when nothing changes", async () => {
    const { body: before } = await client.call("POST", STAGES, makeStage("dev"));
    const { body: after } = await client.call("PUT", `${STAGES}/dev`, before);
    expect(after).toEqual(before);
  });

  it("refuses a status that the CRD does not allow, and names the field", async () => {
    await client.call("POST", STAGES, makeStage("dev"));
    const analysisRun = { namespace: "default", name: "run" };
    const write = (reference: object) =>
      client.call("PATCH", `${STAGES}/dev/status`, {
        status: { freightHistory: [{ id: "x", verificationHistory: [{ id: "1", analysisRun: reference }] }] },
      });
    const refused = await write(analysisRun);
    expect([refused.status, reasonOf(refused.body)]).toEqual([422, "Invalid"]);
    expect(readPath(refused.body, ["message"])).toContain(
      "status.freightHistory[0].verificationHistory[0].analysisRun.phase: Required value",
    );
    expect((await write({ ...analysisRun, phase: "" })).status).toBe(200);
  });

  it("has no /status where the CRD has none", async () => {
    await client.call("POST", RUNS, makeRun("run"));
    for (const method of ["GET", "PUT", "PATCH"] as const) {
      expect(
        (await client.call(method, `${RUNS}/run/status`, method === "GET" ? undefined : {})).status,
      ).toBe(404);
    }
  });

  it("answers 409 when the uid is another one", async () => {
    const { body } = await client.call("POST", STAGES, makeStage("dev"));
    const metadata = {
      ...(readPath(body, ["metadata"]) as object),
      uid: "6f1d0b6a-0000-4000-8000-000000000000",
    };
    expect((await client.call("PUT", `${STAGES}/dev`, { ...(body as object), metadata })).status).toBe(409);
  });
});

describe("patch", () => {
  it("takes metadata.resourceVersion in a merge patch as an optimistic lock", async () => {
    const { body } = await client.call("POST", STAGES, makeStage("dev"));
    const patch = { metadata: { resourceVersion: metaOf(body, "resourceVersion"), labels: { a: "b" } } };
    expect((await client.call("PATCH", `${STAGES}/dev`, patch)).status).toBe(200);
    const again = await client.call("PATCH", `${STAGES}/dev`, patch);
    expect([again.status, reasonOf(again.body)]).toEqual([409, "Conflict"]);
  });

  it("answers 422 to a JSON patch whose test fails, and changes nothing", async () => {
    await client.call("POST", STAGES, makeStage("dev", { annotations: { "kargo.akuity.io/abort": "x" } }));
    const pointer = "/metadata/annotations/kargo.akuity.io~1abort";
    const patch = (value: string): unknown => [
      { op: "test", path: pointer, value },
      { op: "remove", path: pointer },
    ];
    const send = (value: string) =>
      client.call("PATCH", `${STAGES}/dev`, patch(value), "application/json-patch+json");
    const failed = await send("y");
    expect([failed.status, reasonOf(failed.body)]).toEqual([422, "Invalid"]);
    const { status, body } = await send("x");
    expect(status).toBe(200);
    expect(body).not.toHaveProperty("metadata.annotations");
  });

  it("answers 415 to a patch type that the kind does not take", async () => {
    await client.call("POST", STAGES, makeStage("dev"));
    await client.call("POST", CONFIG_MAPS, makeConfigMap("map"));
    const strategic = "application/strategic-merge-patch+json";
    expect((await client.call("PATCH", `${STAGES}/dev`, {}, strategic)).status).toBe(415);
    expect((await client.call("PATCH", `${CONFIG_MAPS}/map`, { data: { a: "1" } }, strategic)).status).toBe(
      200,
    );
    expect((await client.call("PATCH", `${STAGES}/dev`, {}, "application/apply-patch+yaml")).status).toBe(
      415,
    );
  });

  it("writes the status of an AnalysisRun on the main resource", async () => {
    await client.call("POST", RUNS, makeRun("run"));
    const { body } = await client.call("PATCH", `${RUNS}/run`, { status: { phase: "Successful" } });
    expect(body).toHaveProperty("status.phase", "Successful");
  });
});

describe("delete", () => {
  it("answers a Status, and 404 the second time", async () => {
    await client.call("POST", STAGES, makeStage("dev"));
    const { status, body } = await client.call("DELETE", `${STAGES}/dev`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      kind: "Status",
      status: "Success",
      details: { name: "dev", kind: "stages" },
    });
    expect((await client.call("DELETE", `${STAGES}/dev`)).status).toBe(404);
  });

  it("waits for finalizers, lets none be added, and ends when the last one goes", async () => {
    await client.call("POST", STAGES, makeStage("dev", { finalizers: ["kargo.akuity.io/finalizer"] }));
    const { body } = await client.call("DELETE", `${STAGES}/dev`);
    expect(metaOf(body, "deletionTimestamp")).not.toBe("");
    const more = { metadata: { finalizers: ["kargo.akuity.io/finalizer", "a/b"] } };
    expect((await client.call("PATCH", `${STAGES}/dev`, more)).status).toBe(422);
    await client.call("PATCH", `${STAGES}/dev`, { metadata: { finalizers: null } });
    expect((await client.call("GET", `${STAGES}/dev`)).status).toBe(404);
  });

  it("keeps to preconditions", async () => {
    await client.call("POST", STAGES, makeStage("dev"));
    const options = { preconditions: { uid: "6f1d0b6a-0000-4000-8000-000000000000" } };
    expect((await client.call("DELETE", `${STAGES}/dev`, options)).status).toBe(409);
  });

  it("deletes a collection by labels", async () => {
    await client.call("POST", STAGES, makeStage("a", { labels: { x: "1" } }));
    await client.call("POST", STAGES, makeStage("b"));
    await client.call("DELETE", `${STAGES}?labelSelector=x%3D1`);
    expect(itemsOf((await client.call("GET", STAGES)).body).map((i) => metaOf(i, "name"))).toEqual(["b"]);
  });

  it("collects a dependent with its last owner, and only takes dead references off before", async () => {
    const owners: Record<string, unknown>[] = [];
    for (const name of ["f1", "f2"]) {
      const { body } = await client.call("POST", CONFIG_MAPS, makeConfigMap(name));
      owners.push({ apiVersion: "v1", kind: "ConfigMap", name, uid: metaOf(body, "uid") });
    }
    const watch = await client.watch(`${STAGES}?watch=true`);
    await client.call("POST", STAGES, makeStage("dev", { ownerReferences: owners }));
    expect((await watch.next())?.type).toBe("ADDED");
    await client.call("DELETE", `${CONFIG_MAPS}/f1`);
    const modified = await watch.next();
    expect(modified?.type).toBe("MODIFIED");
    expect(readPath(modified?.object, ["metadata", "ownerReferences"])).toEqual([owners[1]]);
    await client.call("DELETE", `${CONFIG_MAPS}/f2`);
    expect((await watch.next())?.type).toBe("DELETED");
    watch.close();
  });

  it("leaves dependents alone when they are orphaned", async () => {
    const { body } = await client.call("POST", CONFIG_MAPS, makeConfigMap("f1"));
    const owner = { apiVersion: "v1", kind: "ConfigMap", name: "f1", uid: metaOf(body, "uid") };
    await client.call("POST", STAGES, makeStage("dev", { ownerReferences: [owner] }));
    await client.call("DELETE", `${CONFIG_MAPS}/f1`, { propagationPolicy: "Orphan" });
    const stage = await client.call("GET", `${STAGES}/dev`);
    expect(stage.body).not.toHaveProperty("metadata.ownerReferences");
  });

  it("empties a namespace, and takes nothing new while that goes on", async () => {
    const path = STAGES.replace("default", "temporary");
    await client.call("POST", "/api/v1/namespaces", { metadata: { name: "temporary" } });
    await client.call("POST", path, makeStage("kept", { finalizers: ["a/b"] }));
    await client.call("DELETE", "/api/v1/namespaces/temporary");
    expect((await client.call("POST", path, makeStage("new"))).status).toBe(403);
    const watch = await client.watch("/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dtemporary");
    expect(readPath((await watch.next())?.object, ["status", "phase"])).toBe("Terminating");
    await client.call("PATCH", `${path}/kept`, { metadata: { finalizers: [] } });
    expect((await watch.next())?.type).toBe("DELETED");
    watch.close();
  });
});

describe("what is not served", () => {
  it.each([
    ["GET", "/apis/kargo.akuity.io/v1alpha1/namespaces/default/pods"],
    ["GET", "/apis/kargo.akuity.io/v1/namespaces/default/stages"],
    ["GET", "/apis/kargo.akuity.io/v1alpha1/stages/dev"],
    ["GET", "/api/v1/namespaces/default/namespaces"],
    ["GET", "/nothing"],
  ] as const)("%s %s is 404", async (method, path) => {
    expect((await client.call(method, path)).status).toBe(404);
  });

  it("answers as a real one to verbs that a path does not have", async () => {
    expect((await client.call("PUT", STAGES, makeStage("dev"))).status).toBe(400);
    expect((await client.call("DELETE", `${STAGES}/dev/status`)).status).toBe(405);
    const everywhere = "/apis/kargo.akuity.io/v1alpha1/stages";
    expect((await client.call("POST", everywhere, makeStage("dev"))).status).toBe(404);
  });
});

describe("who may call", () => {
  const raw = (lines: readonly string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(cluster.port, "127.0.0.1", () => socket.write(`${lines.join("\r\n")}\r\n\r\n`));
      socket.setEncoding("utf8");
      socket.once("data", (text: string) => {
        resolve(text.split("\r\n")[0] ?? "");
        socket.destroy();
      });
      socket.once("error", reject);
    });

  it("refuses a name that was rebound to loopback, and web pages", async () => {
    expect(await raw(["GET /version HTTP/1.1", "Host: evil.example"])).toContain("403");
    expect(await raw(["GET /version HTTP/1.1", "Host: 127.0.0.1", "Origin: http://a.example"])).toContain(
      "403",
    );
    expect(await raw(["GET /version HTTP/1.1", "Host: localhost:80"])).toContain("200");
  });
});

describe("faults", () => {
  it("answers the planned number of matching requests with an error, then none", async () => {
    cluster.faults.respond(429, 2, ({ path }) => path.startsWith(STAGES), 7);
    const first = await client.call("GET", STAGES);
    expect([first.status, first.headers["retry-after"]]).toEqual([429, "7"]);
    expect((await client.call("GET", RUNS)).status).toBe(200);
    expect((await client.call("GET", STAGES)).status).toBe(429);
    expect((await client.call("GET", STAGES)).status).toBe(200);
  });

  it("carries a request out and loses the answer", async () => {
    cluster.faults.loseAnswers(1, ({ method }) => method === "POST");
    await expect(client.call("POST", STAGES, makeStage("dev"))).rejects.toThrow();
    expect((await client.call("GET", `${STAGES}/dev`)).status).toBe(200);
  });

  it("is out, and back on the same port", async () => {
    cluster.faults.outage(true);
    await expect(client.call("GET", STAGES)).rejects.toThrow();
    cluster.faults.outage(false);
    expect((await client.call("GET", STAGES)).status).toBe(200);
  });
});
