import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SandboxCluster, startSandboxCluster } from "../../local/sandbox/sandbox-cluster.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesRequest, KubernetesTransport } from "../../shared/cluster/transport.ts";
import { findObstacle } from "./control-plane/binaries.ts";
import { ensureBinaries } from "./control-plane/build.ts";
import { type ControlPlane, startControlPlane } from "./control-plane/control-plane.ts";

const PROJECT = "breakwater";
const stages = `/apis/kargo.akuity.io/v1alpha1/namespaces/${PROJECT}/stages`;
const runs = `/apis/argoproj.io/v1alpha1/namespaces/${PROJECT}/analysisruns`;

const obstacle = findObstacle();
if (obstacle !== undefined)
  console.warn(`SKIPPED, the sandbox was not held against a real API server: ${obstacle}`);

type Step = Omit<KubernetesRequest, "query"> & {
  readonly query?: Record<string, string>;
  /** Replaces `$rv` in the body by the resourceVersion of the last object answered. */
  readonly usesVersion?: boolean;
};

const stage = (name: string, extra: object = {}) => ({
  apiVersion: "kargo.akuity.io/v1alpha1",
  kind: "Stage",
  metadata: { name },
  spec: {
    requestedFreight: [{ origin: { kind: "Warehouse", name: "lamps" }, sources: { direct: true } }],
  },
  ...extra,
});
const run = (name: string) => ({
  apiVersion: "argoproj.io/v1alpha1",
  kind: "AnalysisRun",
  metadata: { name, labels: { "kargo.akuity.io/stage": "dev" } },
  spec: { metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1", jsonPath: "{$}" } } }] },
});
const merge = (path: string, body: unknown, extra: Partial<Step> = {}): Step => ({
  method: "PATCH",
  path,
  body,
  ...extra,
});
const json = (path: string, body: unknown): Step => ({
  method: "PATCH",
  path,
  body,
  contentType: "application/json-patch+json",
});

/** Told to both servers in this order; each answer must agree in status, reason and what the object has become. */
const CONVERSATION: readonly (readonly [string, Step])[] = [
  ["an object that is not there", { method: "GET", path: `${stages}/dev` }],
  [
    "a Stage is created",
    { method: "POST", path: stages, body: stage("dev", { status: { health: { status: "Healthy" } } }) },
  ],
  ["the same name again", { method: "POST", path: stages, body: stage("dev") }],
  ["a name that is none", { method: "POST", path: stages, body: stage("Dev_1") }],
  ["no name at all", { method: "POST", path: stages, body: { ...stage("x"), metadata: {} } }],
  ["a required field is missing", { method: "POST", path: stages, body: { ...stage("poor"), spec: {} } }],
  ["another kind's object", { method: "POST", path: stages, body: { ...stage("odd"), kind: "Freight" } }],
  [
    "a namespace that is not there",
    { method: "POST", path: stages.replace(PROJECT, "nowhere"), body: stage("dev") },
  ],
  ["a body that is no JSON object", { method: "POST", path: stages, body: [1] }],
  [
    "status by the main resource is ignored",
    merge(`${stages}/dev`, { status: { health: { status: "Healthy" } } }),
  ],
  ["status by its subresource", merge(`${stages}/dev/status`, { status: { health: { status: "Healthy" } } })],
  ["spec by the status subresource is ignored", merge(`${stages}/dev/status`, { spec: { shard: "east" } })],
  [
    "a status patch with the current version",
    merge(
      `${stages}/dev/status`,
      { metadata: { resourceVersion: "$rv" }, status: { health: { status: "Unhealthy" } } },
      { usesVersion: true },
    ),
  ],
  [
    "a status patch with a stale version",
    merge(`${stages}/dev/status`, { metadata: { resourceVersion: "1" }, status: {} }),
  ],
  [
    "an annotation is set",
    merge(`${stages}/dev`, { metadata: { annotations: { "kargo.akuity.io/reverify": "v1" } } }),
  ],
  [
    "a JSON patch whose test does not hold",
    json(`${stages}/dev`, [
      { op: "test", path: "/metadata/annotations/kargo.akuity.io~1reverify", value: "other" },
      { op: "remove", path: "/metadata/annotations/kargo.akuity.io~1reverify" },
    ]),
  ],
  [
    "a JSON patch whose test holds",
    json(`${stages}/dev`, [
      { op: "test", path: "/metadata/annotations/kargo.akuity.io~1reverify", value: "v1" },
      { op: "remove", path: "/metadata/annotations/kargo.akuity.io~1reverify" },
    ]),
  ],
  [
    "a patch of an unknown type",
    { method: "PATCH", path: `${stages}/dev`, body: {}, contentType: "application/yaml" },
  ],
  ["a patch of what is not there", merge(`${stages}/ghost`, {})],
  ["a spec change raises the generation", merge(`${stages}/dev`, { spec: { shard: "west" } })],
  ["an AnalysisRun is created", { method: "POST", path: runs, body: run("probe") }],
  ["the same run again", { method: "POST", path: runs, body: run("probe") }],
  ["a run's status is part of the run", merge(`${runs}/probe`, { status: { phase: "Running" } })],
  ["a run has no status subresource", merge(`${runs}/probe/status`, { status: { phase: "Failed" } })],
  ["a run is told to terminate", merge(`${runs}/probe`, { spec: { terminate: true } })],
  ["a list by label", { method: "GET", path: runs, query: { labelSelector: "kargo.akuity.io/stage=dev" } }],
  [
    "a list by another label",
    { method: "GET", path: runs, query: { labelSelector: "kargo.akuity.io/stage=qa" } },
  ],
  ["a selector that cannot be read", { method: "GET", path: runs, query: { labelSelector: "a=b=c" } }],
  ["a page of one", { method: "GET", path: stages, query: { limit: "1" } }],
  ["a continue token that is none", { method: "GET", path: stages, query: { continue: "rubbish" } }],
  ["a resource that is not there", { method: "GET", path: "/apis/kargo.akuity.io/v1alpha1/boats" }],
  ["a group that is not there", { method: "GET", path: "/apis/example.test/v1/boats" }],
  ["a run is deleted", { method: "DELETE", path: `${runs}/probe` }],
  ["and again", { method: "DELETE", path: `${runs}/probe` }],
  ["a Stage is deleted", { method: "DELETE", path: `${stages}/dev` }],
];

describe.skipIf(obstacle !== undefined)("the sandbox answers as a real API server does", () => {
  const dir = mkdtempSync(join(tmpdir(), "tallyman-conformance-"));
  let controlPlane: ControlPlane;
  let sandbox: SandboxCluster;
  let real: KubernetesTransport;
  let ours: KubernetesTransport;
  const versions = new Map<KubernetesTransport, string>();

  beforeAll(async () => {
    const binaries = await ensureBinaries();
    controlPlane = await startControlPlane({ dir, binaries });
    await controlPlane.installCrds();
    sandbox = await startSandboxCluster();
    const ca = Buffer.from(controlPlane.caData, "base64").toString("utf8");
    real = createTransport({ server: controlPlane.server, ca, token: async () => controlPlane.adminToken });
    ours = createTransport({ server: sandbox.url });
    const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: PROJECT } };
    for (const server of [real, ours])
      await server.request({ method: "POST", path: "/api/v1/namespaces", body });
  });
  afterAll(async () => {
    real?.close();
    ours?.close();
    await sandbox?.stop();
    await controlPlane?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  async function ask(server: KubernetesTransport, step: Step) {
    const { usesVersion, ...request } = step;
    const body = usesVersion
      ? JSON.parse(JSON.stringify(step.body).replace("$rv", versions.get(server) ?? ""))
      : step.body;
    const response = await server.request({ ...request, ...(body === undefined ? {} : { body }) });
    const object = (typeof response.body === "object" ? response.body : {}) as Answer;
    if (object.metadata?.resourceVersion !== undefined) versions.set(server, object.metadata.resourceVersion);
    return {
      status: response.status,
      kind: object.kind,
      reason: object.reason,
      generation: object.metadata?.generation,
      annotations: object.metadata?.annotations,
      labels: object.metadata?.labels,
      spec: object.spec,
      statusOfObject: typeof object.status === "object" ? object.status : undefined,
      items: object.items?.length,
      more: object.metadata?.continue !== undefined && object.metadata.continue !== "",
    };
  }

  it.each(CONVERSATION)("%s", async (_title, step) => {
    const theirs = await ask(real, step);
    // Defaults that a CRD's schema adds are no matter of the API server's behaviour.
    expect(await ask(ours, step)).toEqual({
      ...theirs,
      spec: theirs.spec === undefined ? undefined : expect.anything(),
    });
  });

  it("a watch from a resourceVersion tells what has happened since, and bookmarks are on request", async () => {
    const told = async (server: KubernetesTransport): Promise<string[]> => {
      const list = await server.request({ method: "GET", path: stages });
      const { resourceVersion } = (list.body as Answer).metadata ?? {};
      await server.request({ method: "POST", path: stages, body: stage("seen") });
      await server.request(merge(`${stages}/seen/status`, { status: { health: { status: "Healthy" } } }));
      await server.request({ method: "DELETE", path: `${stages}/seen` });
      const stream = await server.stream({
        method: "GET",
        path: stages,
        query: { watch: "true", resourceVersion: resourceVersion ?? "", timeoutSeconds: "2" },
      });
      let text = "";
      for await (const chunk of stream.body) text += String(chunk);
      return text
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { type: string }).type);
    };
    expect(await told(ours)).toEqual(["ADDED", "MODIFIED", "DELETED"]);
    expect(await told(real)).toEqual(["ADDED", "MODIFIED", "DELETED"]);
  });
});

interface Answer {
  readonly kind?: string;
  readonly reason?: string;
  readonly spec?: unknown;
  readonly status?: unknown;
  readonly items?: readonly unknown[];
  readonly metadata?: {
    readonly resourceVersion?: string;
    readonly generation?: number;
    readonly annotations?: Record<string, string>;
    readonly labels?: Record<string, string>;
    readonly continue?: string;
  };
}
