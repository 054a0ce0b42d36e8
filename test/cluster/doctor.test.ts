import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import { RIGHTS } from "../../shared/cluster/rights.ts";
import { createCheckpointStore } from "../../shared/ledger/checkpoint.ts";
import { startTestInstallation } from "../harness/cli-installation.ts";
import { findObstacle } from "./control-plane/binaries.ts";
import { ensureBinaries } from "./control-plane/build.ts";
import { type ControlPlane, startControlPlane } from "./control-plane/control-plane.ts";
import { waitUntil } from "./control-plane/process.ts";

const RBAC = join(import.meta.dirname, "../../deploy/rbac");

const obstacle = findObstacle();
if (obstacle !== undefined)
  console.warn(`SKIPPED, doctor was not tested against a real cluster: ${obstacle}`);

interface Check {
  readonly level: string;
  readonly subject: string;
  readonly message: string;
  readonly advice?: string;
}

describe.skipIf(obstacle !== undefined)("doctor on a real API server", () => {
  const dir = mkdtempSync(join(tmpdir(), "tallyman-doctor-"));
  let controlPlane: ControlPlane;

  beforeAll(async () => {
    controlPlane = await startControlPlane({ dir, binaries: await ensureBinaries() });
    await controlPlane.installCrds();
    const managed = readFileSync(join(RBAC, "managed.yaml"), "utf8");
    // The same rights under another name, but for one.
    const lacking = join(dir, "lacking.yaml");
    const text = managed
      .replaceAll("tallyman-managed", "tallyman-lacking")
      .replace("name: tallyman\n    namespace", "name: tallyman-lacking\n    namespace")
      .replace("resources: [stages/status, freights/status]", "resources: [stages/status]");
    writeFileSync(lacking, text);
    await controlPlane.applyFiles([join(RBAC, "managed.yaml"), join(RBAC, "companion.yaml"), lacking]);
  });
  afterAll(async () => {
    await controlPlane?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  async function examine(serviceAccount: string, mode: "managed" | "companion") {
    const ca = Buffer.from(controlPlane.caData, "base64").toString("utf8");
    const token = await controlPlane.createServiceAccountToken("tallyman", serviceAccount);
    const { server } = controlPlane;
    const transport = createTransport({ server, ca, token: async () => token });
    await waitUntil("the role binding", async () => {
      const path = "/apis/kargo.akuity.io/v1alpha1/stages";
      return (await transport.request({ method: "GET", path })).status === 200;
    });
    transport.close();
    const installation = await startTestInstallation({
      clusters: [{ name: "real", server, ca, token, mode }],
      now: Date.now(),
    });
    try {
      const now = installation.clock.now();
      const checkpoints = createCheckpointStore(installation.dynamoDb, "tallyman-test");
      await checkpoints.hold("real", { owner: "test", now, until: now }, { stages: "1", analysisruns: "1" });
      const { code, out } = await installation.run("doctor -o json");
      const { checks } = JSON.parse(out) as { checks: Check[] };
      return { code, checks, troubles: checks.filter(({ level }) => level !== "ok") };
    } finally {
      await installation.stop();
    }
  }

  it.each([
    ["managed", "tallyman"],
    ["companion", "tallyman-companion"],
  ] as const)("finds that the rights of deploy/rbac/%s.yaml are enough", async (mode, account) => {
    const { code, checks, troubles } = await examine(account, mode);
    expect(troubles).toEqual([]);
    expect(code).toBe(0);
    const messages = checks.map(({ message }) => message);
    expect(messages).toContainEqual(expect.stringMatching(/^answers, v1\.\d+/));
    const count = RIGHTS[mode].flatMap(({ verbs }) => verbs).length;
    expect(messages).toContain(
      `system:serviceaccount:tallyman:${account} may do all ${count} things that ${mode} mode needs`,
    );
  });

  it("names the one right that is missing, and the way out", async () => {
    const { code, troubles } = await examine("tallyman-lacking", "managed");
    expect(code).toBe(18);
    expect(troubles).toMatchObject([
      {
        level: "fail",
        subject: "cluster real",
        message:
          "system:serviceaccount:tallyman:tallyman-lacking may not patch freights.kargo.akuity.io/status, needed to write outcomes back",
        advice: expect.stringContaining("Apply deploy/rbac/managed.yaml"),
      },
    ]);
  });

  it("names what companion rights lack for managed mode", async () => {
    const { troubles } = await examine("tallyman-companion", "managed");
    const missing = troubles.map(({ message }) => /may not (\S+ \S+),/.exec(message)?.[1]);
    expect(missing).toContain("create analysisruns.argoproj.io");
    expect(missing).toContain("patch stages.kargo.akuity.io/status");
    expect(missing).not.toContain("patch stages.kargo.akuity.io");
  });
});
