import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../../shared/cluster/annotations.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { isTerminal } from "../../shared/domain/phase.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { startEngine } from "../harness/bench-top.ts";
import { assembleWorkbench, PROJECT, type Workbench } from "../harness/workbench.ts";
import { findObstacle } from "./control-plane/binaries.ts";
import { ensureBinaries } from "./control-plane/build.ts";
import { type ControlPlane, startControlPlane } from "./control-plane/control-plane.ts";
import { type StartedProcess, waitUntil } from "./control-plane/process.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);
const RBAC = join(import.meta.dirname, "../../deploy/rbac/managed.yaml");

const obstacle = findObstacle();
if (obstacle !== undefined)
  console.warn(`SKIPPED, the product was not tested against a real cluster: ${obstacle}`);

/** The forwarder and the operations as a least-privilege ServiceAccount; Argo Rollouts is the real one. */
describe.skipIf(obstacle !== undefined)("Tallyman on a real API server", () => {
  const dir = mkdtempSync(join(tmpdir(), "tallyman-product-"));
  let controlPlane: ControlPlane;
  let rollouts: StartedProcess;
  let engine: RunningEngine;
  let product: KubernetesTransport;
  let others: KubernetesTransport;
  let app: Server;
  let answer = { healthy: true, ready: true };
  let bench: Workbench;
  let counter = 0;

  beforeAll(async () => {
    const binaries = await ensureBinaries();
    controlPlane = await startControlPlane({ dir, binaries });
    await controlPlane.installCrds();
    await controlPlane.applyFiles([RBAC]);
    engine = await startEngine();
    const ca = Buffer.from(controlPlane.caData, "base64").toString("utf8");
    const { server, adminToken } = controlPlane;
    others = createTransport({ server, ca, token: async () => adminToken });
    const token = await controlPlane.createServiceAccountToken("tallyman", "tallyman");
    product = createTransport({ server, ca, token: async () => token });
    await waitUntil("the role binding", async () => {
      const { status } = await product.request({
        method: "GET",
        path: "/apis/kargo.akuity.io/v1alpha1/stages",
      });
      return status === 200;
    });
    app = createServer((_request, response) => {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
    await new Promise<void>((resolve) => app.listen(0, "127.0.0.1", resolve));
    await controlPlane.createNamespace(PROJECT);
    rollouts = await controlPlane.startRolloutsController();

    const actor = assembleWorkbench({ engine, cluster: "preparation", transport: product, others });
    await actor.kargo.createFreight(A);
    await actor.kargo.createFreight(B);
    await actor.kargo.createTemplate("smoke", {
      args: [{ name: "count", value: "2" }],
      metrics: [
        {
          name: "probe",
          interval: "1s",
          count: "{{args.count}}",
          successCondition: "result.healthy == true",
          failureLimit: 0,
          provider: {
            web: { url: `http://127.0.0.1:${(app.address() as AddressInfo).port}`, jsonPath: "{$}" },
          },
        },
      ],
    });
    await actor.stop();
  });

  afterAll(async () => {
    app?.close();
    others?.close();
    product?.close();
    await controlPlane?.stop();
    await engine?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  beforeEach(() => {
    answer = { healthy: true, ready: true };
    bench = assembleWorkbench({ engine, cluster: `real-${++counter}`, transport: product, others });
  });
  afterEach(async () => {
    await bench.stop();
    for (const { metadata } of await stagesLeft()) await bench.kargo.deleteStage(metadata.name);
    for (const run of await bench.kargo.listRuns()) await bench.kargo.deleteRun(run.metadata.name);
  });

  /**
   * After failed attempts the controller's own informers wait for up to a minute before they look again, and a test that
   * sat through that would time client-go. A controller that starts afresh looks at once.
   */
  async function restartRollouts(): Promise<void> {
    await rollouts.stop();
    rollouts = await controlPlane.startRolloutsController();
  }

  async function stagesLeft(): Promise<readonly { metadata: { name: string } }[]> {
    const path = `/apis/kargo.akuity.io/v1alpha1/namespaces/${PROJECT}/stages`;
    const { body } = await others.request({ method: "GET", path });
    return (body as { items: { metadata: { name: string } }[] }).items;
  }

  async function untilPhases(stage: string, ...phases: Verification["phase"][]): Promise<Verification[]> {
    let seen: Verification[] = [];
    await bench
      .until(`${stage} has ${phases.join(", ")}`, async () => {
        seen = await bench.verifications(stage);
        return JSON.stringify(seen.map((v) => v.phase)) === JSON.stringify(phases);
      })
      .catch((error: unknown) => {
        expect(
          seen.map((v) => [v.phase, v.message]),
          String(error),
        ).toEqual(phases.map((phase) => [phase, ""]));
      });
    return seen;
  }

  it("verifies Freight by a run that the real controller takes to Successful, and shows it in the Stage and the Freight", async () => {
    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    const [verification] = await untilPhases("dev", "Successful");
    const stage = await bench.kargo.getStage("dev");
    const [entry] = stage.status?.freightHistory?.[0]?.verificationHistory ?? [];
    expect(entry).toMatchObject({
      id: verification?.id,
      phase: "Successful",
      analysisRun: { name: verification?.run?.name, phase: "Successful" },
    });
    expect(entry?.finishTime).toBeTypeOf("string");
    expect(stage.status?.conditions).toContainEqual(
      expect.objectContaining({ type: "Verified", status: "True" }),
    );
    expect(await bench.kargo.getFreight(A)).toHaveProperty("status.verifiedIn.dev.verifiedAt");
    const [run] = await bench.kargo.listRuns("dev");
    expect(run?.metadata.ownerReferences).toMatchObject([{ kind: "Freight", name: A }]);
    expect(run?.metadata.labels).toMatchObject({
      "kargo.akuity.io/freight-collection": verification?.collection.id,
    });
    const described = await bench.ledger.describeVerification(bench.key("dev"), verification?.id ?? "");
    expect(described?.transitions.at(-1)?.run?.metrics[0]).toMatchObject({ name: "probe", successful: 2 });
  });

  it("records a failure with the controller's own words, and repeats it on request", async () => {
    answer = { healthy: false, ready: true };
    await bench.kargo.createStage("qa", {
      verification: { analysisTemplates: [{ name: "smoke" }], args: [{ name: "count", value: "1" }] },
    });
    await bench.kargo.promote("qa", [{ name: A }]);
    const [failed] = await untilPhases("qa", "Failed");
    expect(failed?.message).toContain("assessed Failed");
    answer = { healthy: true, ready: true };
    bench.clock.advance(1_000);
    await bench.kargo.annotate(
      "qa",
      REVERIFY_ANNOTATION,
      JSON.stringify({ id: failed?.id, actor: "kubernetes:ada" }),
    );
    const [, again] = await untilPhases("qa", "Failed", "Successful");
    expect(again).toMatchObject({ actor: "kubernetes:ada", cause: { kind: "reverify", of: failed?.id } });
    await bench.until("the annotation is gone", async () => {
      const { metadata } = await bench.kargo.getStage("qa");
      return metadata.annotations?.[REVERIFY_ANNOTATION] === undefined;
    });
  });

  it("aborts a run; the real controller reports Successful, and the verification stays Aborted", async () => {
    await bench.kargo.createStage("soak", {
      verification: { analysisTemplates: [{ name: "smoke" }], args: [{ name: "count", value: "600" }] },
    });
    await bench.kargo.promote("soak", [{ name: A }]);
    const [running] = await untilPhases("soak", "Running");
    await bench.kargo.annotate("soak", ABORT_ANNOTATION, running?.id ?? "");
    await bench.until("the terminated run has ended", async () => {
      const [verification] = await bench.verifications("soak");
      return verification?.run?.phase === "Successful";
    });
    expect(await bench.verifications("soak")).toMatchObject([
      { phase: "Aborted", run: { phase: "Successful" } },
    ]);
    const stage = await bench.kargo.getStage("soak");
    expect(stage.status?.freightHistory?.[0]?.verificationHistory).toMatchObject([
      { phase: "Aborted", analysisRun: { phase: "Successful" } },
    ]);
    expect(stage.status?.conditions).toContainEqual(
      expect.objectContaining({ type: "Verified", status: "False", reason: "VerificationAborted" }),
    );
  });

  it("follows A, B and A again to their own ends while the API server and etcd restart", async () => {
    await bench.kargo.createStage("busy", {
      verification: { analysisTemplates: [{ name: "smoke" }], args: [{ name: "count", value: "4" }] },
    });
    for (const [index, name] of [A, B, A].entries()) {
      bench.clock.advance(1_000);
      await bench.kargo.promote("busy", [{ name }]);
      await bench.until(
        "its verification has started",
        async () => (await bench.verifications("busy")).length === index + 1,
      );
    }
    await controlPlane.restartApiServer("SIGKILL");
    await controlPlane.restartEtcd("SIGKILL");
    await restartRollouts();
    const verifications = await untilPhases("busy", "Successful", "Successful", "Successful");
    expect(new Set(verifications.map((v) => v.id)).size).toBe(3);
    expect(await bench.kargo.listRuns("busy")).toHaveLength(3);
    const { status } = await bench.kargo.getStage("busy");
    expect(
      status?.freightHistory?.map((item) => item.verificationHistory?.map((each) => each.phase)),
    ).toEqual([["Successful"], ["Successful"], ["Successful"]]);
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("ends nothing in Error while the API server is away", async () => {
    await bench.kargo.createStage("dark");
    await bench.kargo.promote("dark", [{ name: A }], { health: null });
    await bench.kargo.setHealth("dark", "Healthy");
    await controlPlane.stopApiServer("SIGKILL");
    for (let i = 0; i < 10; i++) await bench.drain(10_000);
    expect((await bench.verifications("dark")).filter((v) => isTerminal(v.phase))).toEqual([]);
    await controlPlane.startApiServer();
    await restartRollouts();
    await untilPhases("dark", "Successful");
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("is woken by an Application that names the Stage", async () => {
    await bench.kargo.createStage("woken");
    await bench.kargo.createApplication("lamp", `${PROJECT}:woken`, { health: { status: "Healthy" } });
    await bench.until("Applications are watched", async () => {
      return bench.forwarder.resourceVersions().applications !== undefined;
    });
    const before = bench.queue.accepted.length;
    await bench.kargo.patchApplication("lamp", { status: { health: { status: "Degraded" } } });
    await bench.until("the Stage is woken", async () =>
      bench.queue.accepted
        .slice(before)
        .some(({ message }) => message.data.stage === "woken" && message.data.observed === undefined),
    );
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("may do what it needs and nothing else", async () => {
    const attempts: readonly [string, string, string][] = [
      ["DELETE", `/apis/argoproj.io/v1alpha1/namespaces/${PROJECT}/analysisruns/any`, "delete a run"],
      ["DELETE", `/apis/kargo.akuity.io/v1alpha1/namespaces/${PROJECT}/stages/any`, "delete a Stage"],
      ["GET", `/api/v1/namespaces/${PROJECT}/secrets`, "read Secrets"],
      ["GET", "/api/v1/pods", "read Pods"],
      ["POST", `/apis/kargo.akuity.io/v1alpha1/namespaces/${PROJECT}/promotions`, "create a Promotion"],
      [
        "PATCH",
        `/apis/argoproj.io/v1alpha1/namespaces/${PROJECT}/analysistemplates/any`,
        "change a template",
      ],
      [
        "PATCH",
        `/apis/argoproj.io/v1alpha1/namespaces/${PROJECT}/applications/lamp`,
        "change an Application",
      ],
    ];
    for (const [method, path, what] of attempts) {
      const { status } = await product.request({
        method: method as "GET",
        path,
        ...(method === "POST" ? { body: {} } : {}),
      });
      expect(status, what).toBe(403);
    }
  });
});
