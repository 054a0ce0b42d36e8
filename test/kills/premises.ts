import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SANDBOX_PLUGIN } from "../../local/sandbox/rollouts/providers.ts";
import { startRolloutsController } from "../../local/sandbox/rollouts-controller.ts";
import { startSandboxCluster } from "../../local/sandbox/sandbox-cluster.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { isFault } from "../../shared/domain/fault.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import type { ClusterSettings } from "../../shared/runtime/configuration.ts";
import { ensureBinaries } from "../cluster/control-plane/build.ts";
import { startControlPlane } from "../cluster/control-plane/control-plane.ts";

const MAX_ATTEMPTS = 300;
const RETRY_MS = 200;

/** A cluster to verify in: how Tallyman reaches it, how everybody else does, and how it can be shaken. */
export interface Premises {
  readonly name: string;
  readonly settings: Omit<ClusterSettings, "name">;
  readonly others: KubernetesTransport;
  /** A metric that takes about a second and succeeds. */
  readonly metric: Record<string, unknown>;
  /** What can be killed beside Tallyman's own processes, by name. */
  readonly shakes: Readonly<Record<string, () => Promise<void>>>;
  stop(): Promise<void>;
}

export async function openSandbox(): Promise<Premises> {
  const sandbox = await startSandboxCluster({ eventWindow: 100_000 });
  const rollouts = startRolloutsController({ url: sandbox.url });
  const others = createTransport({ server: sandbox.url });
  return {
    name: "the sandbox cluster",
    settings: { server: sandbox.url },
    others,
    metric: {
      name: "probe",
      interval: "300ms",
      count: 2,
      provider: { plugin: { [SANDBOX_PLUGIN]: { outcomes: ["Successful"] } } },
    },
    shakes: {},
    async stop() {
      await rollouts.stop();
      others.close();
      await sandbox.stop();
    },
  };
}

/** A real API server and etcd, both of which are killed as well, and the real Argo Rollouts. */
export async function openControlPlane(): Promise<Premises> {
  const dir = mkdtempSync(join(tmpdir(), "tallyman-kills-cluster-"));
  const binaries = await ensureBinaries();
  const controlPlane = await startControlPlane({ dir, binaries });
  await controlPlane.installCrds();
  await controlPlane.applyFiles([join(import.meta.dirname, "../../deploy/rbac/managed.yaml")]);
  await controlPlane.startRolloutsController();
  const ca = Buffer.from(controlPlane.caData, "base64").toString("utf8");
  const { server, adminToken } = controlPlane;
  const token = await controlPlane.createServiceAccountToken("tallyman", "tallyman");
  const others = createPersistentTransport(createTransport({ server, ca, token: async () => adminToken }));
  const app = createServer((_request, response) => response.end('{"healthy":true}'));
  await new Promise<void>((resolve) => app.listen(0, "127.0.0.1", resolve));
  const { port } = app.address() as AddressInfo;
  return {
    name: `a real API server (${readFileSync(join(import.meta.dirname, "../cluster/control-plane/go.mod"), "utf8").match(/k8s\.io\/kubernetes v\S+/)?.[0] ?? ""})`,
    settings: { server, ca, token },
    others,
    metric: {
      name: "probe",
      interval: "1s",
      count: 2,
      successCondition: "result.healthy == true",
      provider: { web: { url: `http://127.0.0.1:${port}`, jsonPath: "{$}" } },
    },
    shakes: {
      "API server": () => controlPlane.restartApiServer("SIGKILL"),
      etcd: () => controlPlane.restartEtcd("SIGKILL"),
    },
    async stop() {
      app.close();
      others.close();
      await controlPlane.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/**
 * Other people's calls have to be made again, too, while the API server is being restarted. What was created before the
 * answer got lost counts as created.
 */
function createPersistentTransport(transport: KubernetesTransport): KubernetesTransport {
  return {
    ...transport,
    async request(request) {
      for (let attempt = 1; ; attempt++) {
        try {
          const response = await transport.request(request);
          if (response.status === 409 && request.method === "POST" && attempt > 1)
            return { ...response, status: 200 };
          if (response.status !== 429 && response.status < 500) return response;
          if (attempt === MAX_ATTEMPTS) return response;
        } catch (error) {
          if (!isFault(error, "Transient") || attempt === MAX_ATTEMPTS) throw error;
        }
        await systemClock.sleep(RETRY_MS);
      }
    },
  };
}
