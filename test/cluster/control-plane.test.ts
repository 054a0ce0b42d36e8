/**
 * What the harness promises to the tests that stand on it, and what the real
 * Argo Rollouts controller does with an AnalysisRun.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig, Watch } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";
import { createApiClient, type KubernetesObject } from "./control-plane/api-client.ts";
import { findObstacle } from "./control-plane/binaries.ts";
import { ensureBinaries } from "./control-plane/build.ts";
import { type ControlPlane, startControlPlane } from "./control-plane/control-plane.ts";
import { waitUntil } from "./control-plane/process.ts";

interface AnalysisRun extends KubernetesObject {
  readonly status?: {
    readonly phase?: string;
    readonly message?: string;
    readonly completedAt?: string;
    readonly metricResults?: readonly {
      readonly phase: string;
      readonly measurements?: readonly { readonly phase: string }[];
    }[];
  };
}

const project = "harbour";
const stages = `/apis/kargo.akuity.io/v1alpha1/namespaces/${project}/stages`;
const analysisRuns = `/apis/argoproj.io/v1alpha1/namespaces/${project}/analysisruns`;

const obstacle = findObstacle();
if (obstacle !== undefined) console.warn(`SKIPPED, nothing was tested against a real cluster: ${obstacle}`);

describe.skipIf(obstacle !== undefined)("a real control plane", () => {
  const dir = mkdtempSync(join(tmpdir(), "tallyman-control-plane-"));
  let controlPlane: ControlPlane;

  beforeAll(async () => {
    const binaries = await ensureBinaries();
    controlPlane = await startControlPlane({ dir, binaries });
    await controlPlane.installCrds();
    await controlPlane.createNamespace(project);
  });

  afterAll(async () => {
    await controlPlane?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  it("serves the API over TLS under the authority it names", async () => {
    expect(await controlPlane.admin("/readyz")).toBe("ok");
    expect(await controlPlane.admin("/version")).toMatchObject({ major: "1" });
  });

  it("keeps a Stage's spec and status apart, as Kargo's CRD does", async () => {
    const created = await createStage("till");
    const health = { status: { health: { status: "Healthy" } } };

    await controlPlane.admin(`${stages}/till`, { method: "PATCH", body: health });
    expect(await controlPlane.admin(`${stages}/till`)).not.toHaveProperty("status");

    await controlPlane.admin(`${stages}/till/status`, { method: "PATCH", body: health });
    const patched = await controlPlane.admin(`${stages}/till`);
    expect(patched).toMatchObject(health);
    expect(patched.metadata.generation).toBe(created.metadata.generation);
  });

  it("has no status subresource on AnalysisRuns, and raises the generation with the status", async () => {
    const created = await createAnalysisRun("untouched", {});
    await expect(
      controlPlane.admin(`${analysisRuns}/untouched/status`, { method: "PATCH", body: {} }),
    ).rejects.toMatchObject({ status: 404 });

    const patched = await controlPlane.admin(`${analysisRuns}/untouched`, {
      method: "PATCH",
      body: { status: { phase: "Running" } },
    });
    expect(patched.metadata.generation).toBe(Number(created.metadata.generation) + 1);
  });

  it("grants a service account nothing until a role does", async () => {
    const token = await controlPlane.createServiceAccountToken(project, "clerk");
    const ca = Buffer.from(controlPlane.caData, "base64").toString("utf8");
    const clerk = createApiClient(controlPlane.server, ca, token);

    await expect(clerk(stages)).rejects.toMatchObject({ status: 403 });

    await controlPlane.admin(`/apis/rbac.authorization.k8s.io/v1/namespaces/${project}/rolebindings`, {
      body: {
        metadata: { name: "clerk" },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
        subjects: [{ kind: "ServiceAccount", name: "clerk", namespace: project }],
      },
    });
    await waitUntil("the role binding", () => clerk(stages));
    await expect(clerk("/api/v1/nodes")).rejects.toMatchObject({ status: 403 });
  });

  it("writes a kubeconfig with which the official client acts as the service account", async () => {
    const config = new KubeConfig();
    config.loadFromFile(await controlPlane.writeServiceAccountKubeconfig(project, "lookout"));
    const failure = await firstWatchFailure(config);
    expect(String(failure)).toContain("Forbidden");
  });

  it("reports changes to a watch of the official client", async () => {
    const since = await currentVersion();
    const seen = collectEvents(since, 3);
    await createStage("quay");
    await controlPlane.admin(`${stages}/quay/status`, {
      method: "PATCH",
      body: { status: { health: { status: "Progressing" } } },
    });
    await controlPlane.admin(`${stages}/quay`, { method: "DELETE" });
    expect(await seen).toEqual(["ADDED quay", "MODIFIED quay", "DELETED quay"]);
  });

  it("keeps objects when the API server is restarted in good order", async () => {
    await provesDurable("slipway", () => controlPlane.restartApiServer());
  });

  it("keeps objects when the API server crashes", async () => {
    await provesDurable("drydock", () => controlPlane.restartApiServer("SIGKILL"));
  });

  it("keeps objects when etcd crashes", async () => {
    await provesDurable("lock", () => controlPlane.restartEtcd("SIGKILL"));
  });

  it("answers a watch from before a restart of the API server with 410, though nothing is lost", async () => {
    const since = await currentVersion();
    await createStage("pier");
    await controlPlane.restartApiServer();
    // Its memory of events begins with the restart, so who watches has to list
    // again; and until that memory is set up the answer is 429.
    const seen = await waitUntil("an answer to the watch", () => collectEvents(since, 1));
    expect(seen).toEqual(["ERROR 410"]);
    expect(await controlPlane.admin(`${stages}/pier`)).toMatchObject({ metadata: { name: "pier" } });
  });

  it("continues a watch from before a crash of etcd", async () => {
    const since = await currentVersion();
    const seen = collectEvents(since, 2);
    await createStage("jetty");
    await controlPlane.restartEtcd("SIGKILL");
    await createStage("mole");
    expect(await seen).toEqual(["ADDED jetty", "ADDED mole"]);
  });

  it("refuses connections while the API server is stopped", async () => {
    await controlPlane.stopApiServer("SIGKILL");
    await expect(controlPlane.admin("/readyz")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await controlPlane.startApiServer();
    expect(await controlPlane.admin("/readyz")).toBe("ok");
  });

  describe("with the real Argo Rollouts controller", () => {
    let absence: string | undefined;
    let web: Server;
    let address: string;

    beforeAll(async () => {
      const { rolloutsController } = await ensureBinaries(() => {});
      if (rolloutsController === undefined) {
        absence = "the Argo Rollouts controller was not built";
        console.warn(`SKIPPED, no AnalysisRun was really carried out: ${absence}`);
        return;
      }
      await controlPlane.startRolloutsController();
      web = createServer((request, response) => {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ isOpen: request.url === "/open" }));
      });
      await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
      address = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
    });

    afterAll(() => {
      web?.closeAllConnections();
      web?.close();
    });

    const askGate = (path: "/open" | "/closed", extra: object = {}) => ({
      metrics: [
        {
          name: "gate",
          provider: { web: { url: `${address}${path}`, jsonPath: "{$.isOpen}" } },
          successCondition: "result == true",
          ...extra,
        },
      ],
    });

    const itRuns = (title: string, run: () => Promise<void>) =>
      it(title, async (context: TestContext) => {
        context.skip(absence !== undefined, absence);
        await run();
      });

    itRuns("a met condition ends Successful, without a message", async () => {
      await createAnalysisRun("gate-open", askGate("/open"));
      const { status } = await untilCompleted("gate-open");
      expect(status).toMatchObject({ phase: "Successful", completedAt: expect.any(String) });
      expect(status).not.toHaveProperty("message");
    });

    itRuns("an unmet condition ends Failed and names the metric", async () => {
      await createAnalysisRun("gate-closed", askGate("/closed"));
      const { status } = await untilCompleted("gate-closed");
      expect(status).toMatchObject({
        phase: "Failed",
        message: 'Metric "gate" assessed Failed due to failed (1) > failureLimit (0)',
      });
    });

    itRuns("an argument that nobody gives ends in Error, without completedAt", async () => {
      await createAnalysisRun("gate-unknown", {
        metrics: [{ name: "gate", provider: { web: { url: "{{args.address}}" } } }],
      });
      const { status } = await untilCompleted("gate-unknown");
      expect(status?.phase).toBe("Error");
      expect(status).not.toHaveProperty("completedAt");
    });

    itRuns("terminate makes a run Successful, with the message Run Terminated", async () => {
      await createAnalysisRun("gate-watched", askGate("/open", { interval: "1s" }));
      await untilMeasured("gate-watched");
      await terminate("gate-watched");
      const { status } = await untilCompleted("gate-watched");
      expect(status).toMatchObject({ phase: "Successful", message: "Run Terminated" });
    });

    itRuns("terminate makes a run Successful even if every measurement failed so far", async () => {
      await createAnalysisRun("gate-doubted", askGate("/closed", { interval: "1s", failureLimit: 100 }));
      await untilMeasured("gate-doubted");
      await terminate("gate-doubted");
      const { status } = await untilCompleted("gate-doubted");
      expect(status).toMatchObject({ phase: "Successful", message: "Run Terminated" });
      expect(status?.metricResults?.[0]?.measurements?.every(({ phase }) => phase === "Failed")).toBe(true);
    });

    itRuns("terminate before the first measurement makes a run Successful, measured nothing", async () => {
      await createAnalysisRun("gate-stillborn", { ...askGate("/closed"), terminate: true });
      const { status } = await untilCompleted("gate-stillborn");
      expect(status).toMatchObject({ phase: "Successful", message: "Run Terminated" });
      expect(status).not.toHaveProperty("metricResults");
    });

    itRuns("terminate while a Job runs makes a run Inconclusive, since Argo Rollouts 1.10", async () => {
      const container = { name: "probe", image: "probe", command: ["true"] };
      const template = { spec: { restartPolicy: "Never", containers: [container] } };
      await createAnalysisRun("gate-job", {
        metrics: [{ name: "gate", provider: { job: { spec: { template } } } }],
      });
      await untilMeasured("gate-job");
      await terminate("gate-job");
      const { status } = await untilCompleted("gate-job");
      expect(status?.phase).toBe("Inconclusive");
      expect(status?.message).toContain("Metric Terminated");
    });

    itRuns("terminate changes nothing about a run that had ended", async () => {
      await createAnalysisRun("gate-late", askGate("/closed"));
      const ended = await untilCompleted("gate-late");
      await terminate("gate-late");
      // Gives the controller the occasion: once it has carried out a later run it
      // has had this one's change in its queue.
      await createAnalysisRun("gate-later", askGate("/open"));
      await untilCompleted("gate-later");
      const afterwards = await controlPlane.admin<AnalysisRun>(`${analysisRuns}/gate-late`);
      expect(afterwards.status).toEqual(ended.status);
    });
  });

  function createStage(name: string): Promise<KubernetesObject> {
    const origin = { kind: "Warehouse", name: "depot" };
    return controlPlane.admin(stages, {
      body: {
        apiVersion: "kargo.akuity.io/v1alpha1",
        kind: "Stage",
        metadata: { name },
        spec: { requestedFreight: [{ origin, sources: { direct: true } }] },
      },
    });
  }

  function createAnalysisRun(name: string, spec: object): Promise<AnalysisRun> {
    return controlPlane.admin(analysisRuns, {
      body: {
        apiVersion: "argoproj.io/v1alpha1",
        kind: "AnalysisRun",
        metadata: { name },
        spec: { metrics: [], ...spec },
      },
    });
  }

  function terminate(name: string): Promise<unknown> {
    return controlPlane.admin(`${analysisRuns}/${name}`, {
      method: "PATCH",
      body: { spec: { terminate: true } },
    });
  }

  function untilCompleted(name: string): Promise<AnalysisRun> {
    return waitUntil(`AnalysisRun ${name}`, async () => {
      const run = await controlPlane.admin<AnalysisRun>(`${analysisRuns}/${name}`);
      return ["Successful", "Failed", "Error", "Inconclusive"].includes(run.status?.phase ?? "")
        ? run
        : undefined;
    });
  }

  function untilMeasured(name: string): Promise<AnalysisRun> {
    return waitUntil(`a measurement of AnalysisRun ${name}`, async () => {
      const run = await controlPlane.admin<AnalysisRun>(`${analysisRuns}/${name}`);
      return run.status?.metricResults?.[0]?.measurements === undefined ? undefined : run;
    });
  }

  async function currentVersion(): Promise<string> {
    const list = await controlPlane.admin<{ metadata: { resourceVersion: string } }>(stages);
    return list.metadata.resourceVersion;
  }

  /** The first `count` events after a version, as `TYPE name` or `ERROR code`. */
  async function collectEvents(resourceVersion: string, count: number): Promise<string[]> {
    const config = new KubeConfig();
    config.loadFromFile(controlPlane.adminKubeconfigPath);
    const seen: string[] = [];
    let watching: AbortController | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        new Watch(config)
          .watch(
            stages,
            { resourceVersion },
            (type, object: KubernetesObject & { readonly code?: number }) => {
              seen.push(`${type} ${object.code ?? object.metadata.name}`);
              if (seen.length === count) resolve();
            },
            (failure) => reject(failure ?? new Error(`the watch ended after ${seen.length} events`)),
          )
          .then((controller) => {
            watching = controller;
          }, reject);
      });
    } finally {
      watching?.abort();
    }
    return seen;
  }

  function firstWatchFailure(config: KubeConfig): Promise<unknown> {
    return new Promise((resolve, reject) => {
      new Watch(config).watch(stages, {}, () => {}, resolve).catch(reject);
    });
  }

  /** What was there stays, to the last version, and a new watch works. */
  async function provesDurable(name: string, restart: () => Promise<void>): Promise<void> {
    const before = await createStage(name);
    await restart();
    expect(await controlPlane.admin(`${stages}/${name}`)).toEqual(before);
    const since = await currentVersion();
    await controlPlane.admin(`${stages}/${name}`, { method: "DELETE" });
    const seen = await waitUntil("an answer to the watch", () => collectEvents(since, 1));
    expect(seen).toEqual([`DELETED ${name}`]);
  }
});
