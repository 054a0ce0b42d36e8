import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../../shared/cluster/annotations.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { startEngine } from "../harness/bench-top.ts";
import { createKargoVerifier } from "../harness/kargo-verifier.ts";
import { assembleWorkbench, PROJECT, type Workbench } from "../harness/workbench.ts";
import { findObstacle } from "./control-plane/binaries.ts";
import { ensureBinaries } from "./control-plane/build.ts";
import { type ControlPlane, startControlPlane } from "./control-plane/control-plane.ts";
import { waitUntil } from "./control-plane/process.ts";

const A = "a".repeat(40);
const RBAC = join(import.meta.dirname, "../../deploy/rbac/companion.yaml");

const obstacle = findObstacle();
if (obstacle !== undefined)
  console.warn(`SKIPPED, companion mode was not tested against a real cluster: ${obstacle}`);

describe.skipIf(obstacle !== undefined)("companion mode on a real API server", () => {
  const dir = mkdtempSync(join(tmpdir(), "tallyman-companion-"));
  let controlPlane: ControlPlane;
  let engine: RunningEngine;
  let product: KubernetesTransport;
  let others: KubernetesTransport;
  let bench: Workbench;

  beforeAll(async () => {
    const binaries = await ensureBinaries();
    controlPlane = await startControlPlane({ dir, binaries });
    await controlPlane.installCrds();
    await controlPlane.applyFiles([RBAC]);
    engine = await startEngine();
    const ca = Buffer.from(controlPlane.caData, "base64").toString("utf8");
    const { server, adminToken } = controlPlane;
    others = createTransport({ server, ca, token: async () => adminToken });
    const token = await controlPlane.createServiceAccountToken("tallyman", "tallyman-companion");
    product = createTransport({ server, ca, token: async () => token });
    await waitUntil("the role binding", async () => {
      const path = "/apis/kargo.akuity.io/v1alpha1/stages";
      return (await product.request({ method: "GET", path })).status === 200;
    });
    await controlPlane.createNamespace(PROJECT);
    bench = assembleWorkbench({
      engine,
      cluster: "beside",
      transport: product,
      others,
      policy: { mode: "companion" },
    });
    await bench.kargo.createFreight(A);
  });
  afterAll(async () => {
    await bench?.stop();
    others?.close();
    product?.close();
    await controlPlane?.stop();
    await engine?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  it("records another verifier's verification and passes a reverify and an abort on, with the rights it has", async () => {
    const kargo = createKargoVerifier(others, PROJECT, bench.clock);
    const phases = async () => (await bench.verifications("dev")).map((v) => v.phase);
    const send = async (kind: "reverify" | "abort", id: string) => {
      const envelope = { id, source: "test", time: new Date(bench.clock.now()) };
      const data = { project: PROJECT, stage: "dev", actor: "ada" };
      await bench.queue.send(kind, [buildMessage(kind, envelope, data)]);
    };
    const annotations = async () => (await bench.kargo.getStage("dev")).metadata.annotations ?? {};

    await bench.kargo.createStage("dev");
    await bench.kargo.promote("dev", [{ name: A }]);
    await kargo.reconcile("dev");
    await bench.until("the verification is recorded", async () => (await phases()).join() === "Pending");
    const [run] = await bench.kargo.listRuns("dev");
    await bench.kargo.setRun(run?.metadata.name ?? "", { phase: "Failed", message: "no" });
    await kargo.reconcile("dev");
    await bench.until("its end is recorded", async () => (await phases()).join() === "Failed");

    bench.clock.advance(1_000);
    await send("reverify", "again");
    await bench.until("it is passed on", async () => REVERIFY_ANNOTATION in (await annotations()));
    await kargo.reconcile("dev");
    await bench.until("the successor is recorded", async () => (await phases()).join() === "Failed,Pending");

    await send("abort", "stop");
    await bench.until("the abort is passed on", async () => ABORT_ANNOTATION in (await annotations()));
    await kargo.reconcile("dev");
    await bench.until("the abort is recorded", async () => (await phases()).join() === "Failed,Aborted");
    expect(await bench.ledger.readRequest(bench.key("dev"), "stop")).toMatchObject({ outcome: "aborted" });
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("may do nothing else: no AnalysisRun, no status, no Secrets", async () => {
    const kargoApi = `/apis/kargo.akuity.io/v1alpha1/namespaces/${PROJECT}`;
    const rollouts = `/apis/argoproj.io/v1alpha1/namespaces/${PROJECT}`;
    const attempts: readonly ["GET" | "POST" | "PATCH" | "DELETE", string][] = [
      ["POST", `${rollouts}/analysisruns`],
      ["PATCH", `${rollouts}/analysisruns/any`],
      ["DELETE", `${rollouts}/analysisruns/any`],
      ["GET", `${rollouts}/analysistemplates/smoke`],
      ["PATCH", `${kargoApi}/stages/dev/status`],
      ["PATCH", `${kargoApi}/freights/${A}/status`],
      ["GET", `${kargoApi}/freights/${A}`],
      ["DELETE", `${kargoApi}/stages/dev`],
      ["GET", `/api/v1/namespaces/${PROJECT}/secrets`],
    ];
    for (const [method, path] of attempts) {
      const { status } = await product.request({ method, path, ...(method === "GET" ? {} : { body: {} }) });
      expect(status, `${method} ${path}`).toBe(403);
    }
  });
});
