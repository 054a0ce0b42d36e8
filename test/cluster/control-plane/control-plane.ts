/**
 * A real Kubernetes control plane for tests: etcd and kube-apiserver on
 * 127.0.0.1, with RBAC, and the Argo Rollouts controller on request.
 *
 *     const controlPlane = await startControlPlane({ dir });
 *     await controlPlane.installCrds();
 *     await controlPlane.createNamespace("kiosk");
 *     …
 *     await controlPlane.stop();
 *
 * There is no controller manager: owner references delete nothing, a deleted
 * namespace stays in Terminating, Jobs run nothing. So give each test a
 * namespace of its own instead of cleaning up.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type ApiClient, createApiClient } from "./api-client.ts";
import { type Binaries, findBinaries } from "./binaries.ts";
import { prepareCredentials, requestServiceAccountToken, writeKubeconfigFile } from "./credentials.ts";
import { applyCrds, applyManifests, createIfAbsent, loadDefaultCrds, loadManifests } from "./manifests.ts";
import { findFreePorts, type StartedProcess, startProcess, waitUntil } from "./process.ts";
import { launchRolloutsController } from "./rollouts-controller.ts";

/** SIGTERM ends a server in good order, SIGKILL is a crash. */
type EndSignal = "SIGTERM" | "SIGKILL";

export interface ControlPlaneOptions {
  /** Holds data, keys, kubeconfigs and logs. Yours to delete after `stop()`. */
  readonly dir: string;
  /** Defaults to what {@link findBinaries} finds. */
  readonly binaries?: Binaries;
  /** Appended to the API server's own, for example a short `--min-request-timeout`. */
  readonly apiServerFlags?: readonly string[];
}

export interface ControlPlane {
  /** `https://127.0.0.1:<port>`, the same after a restart. */
  readonly server: string;
  /** The serving authority, base64 of PEM, as in a kubeconfig. The same after a restart. */
  readonly caData: string;
  readonly adminToken: string;
  /** For kubectl and client libraries. */
  readonly adminKubeconfigPath: string;
  /** Calls the API server as a member of system:masters. */
  readonly admin: ApiClient;

  /** Resolves when the server is gone. Watches end, connections are refused. */
  stopApiServer(signal?: EndSignal): Promise<void>;
  /** Resolves when the server is ready. Harmless when it runs already. */
  startApiServer(): Promise<void>;
  restartApiServer(signal?: EndSignal): Promise<void>;
  /** The API server goes on meanwhile and cannot store anything. Data is kept. */
  restartEtcd(signal?: EndSignal): Promise<void>;

  /** CRD files or folders; by default all that Tallyman knows of. Resolves when they are served. */
  installCrds(paths?: readonly string[]): Promise<void>;
  /** Server-side apply of YAML files or folders, for example of RBAC rules. */
  applyFiles(paths: readonly string[]): Promise<void>;
  /** Harmless when the namespace exists. */
  createNamespace(name: string): Promise<void>;
  /**
   * A token for a service account, which is created when it is missing; the
   * namespace has to exist. The account may do nothing until RBAC says so.
   * @param expirationSeconds at least 600, by default 3600
   */
  createServiceAccountToken(namespace: string, name: string, expirationSeconds?: number): Promise<string>;
  /** A kubeconfig with a new token of that service account; resolves to its path. */
  writeServiceAccountKubeconfig(namespace: string, name: string): Promise<string>;

  /**
   * Runs the real Argo Rollouts controller as administrator. CRDs come first.
   * @throws when the controller was not built
   */
  startRolloutsController(): Promise<StartedProcess>;

  /** Ends everything that was started here. Harmless when repeated. */
  stop(): Promise<void>;
}

/**
 * Starts etcd and the API server and resolves when the latter is ready.
 * @throws when a program is missing or does not become ready within a minute,
 *   with the end of its log; nothing is left running then
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const binaries = options.binaries ?? requireBinaries();
  const dir = resolve(options.dir);
  mkdirSync(dir, { recursive: true });

  const credentials = prepareCredentials(dir);
  const [etcdPort, etcdPeerPort, apiPort] = await findFreePorts(3);
  const server = `https://127.0.0.1:${apiPort}`;
  let etcd: StartedProcess | undefined;
  let apiServer: StartedProcess | undefined;
  const rolloutsControllers: StartedProcess[] = [];

  async function startEtcd(): Promise<void> {
    const client = `http://127.0.0.1:${etcdPort}`;
    const peer = `http://127.0.0.1:${etcdPeerPort}`;
    etcd = await startProcess({
      command: binaries.etcd,
      logFile: join(dir, "etcd.log"),
      args: [
        `--data-dir=${join(dir, "etcd")}`,
        `--listen-client-urls=${client}`,
        `--advertise-client-urls=${client}`,
        `--listen-peer-urls=${peer}`,
        `--initial-advertise-peer-urls=${peer}`,
        `--initial-cluster=default=${peer}`,
        "--unsafe-no-fsync", // outlives a crash of the process, if not of the machine
        "--log-level=warn",
      ],
    });
    const health = async () => ((await fetch(`${client}/health`)).ok ? true : undefined);
    await waitUntil("etcd", health, { process: etcd });
  }

  async function startApiServer(): Promise<void> {
    if (apiServer?.isRunning() !== true) {
      apiServer = await startProcess({
        command: binaries.kubeApiserver,
        logFile: join(dir, "kube-apiserver.log"),
        args: [
          `--etcd-servers=http://127.0.0.1:${etcdPort}`,
          `--cert-dir=${join(dir, "certificates")}`,
          "--bind-address=127.0.0.1",
          "--advertise-address=127.0.0.1",
          `--secure-port=${apiPort}`,
          "--endpoint-reconciler-type=none", // it refuses to publish a loopback address
          "--service-cluster-ip-range=10.0.0.0/24",
          "--authorization-mode=RBAC",
          "--disable-admission-plugins=ServiceAccount", // nobody makes the accounts it asks for
          `--token-auth-file=${credentials.tokenFile}`,
          "--service-account-issuer=https://kubernetes.default.svc",
          `--service-account-signing-key-file=${credentials.serviceAccountSigningKey}`,
          `--service-account-key-file=${credentials.serviceAccountPublicKey}`,
          ...(options.apiServerFlags ?? []),
        ],
      });
    }
    await waitUntilReady();
  }

  async function waitUntilReady(): Promise<void> {
    const ready = () => createClient()<string>("/readyz", { timeoutMs: 3_000 });
    await waitUntil("kube-apiserver", ready, apiServer === undefined ? {} : { process: apiServer });
  }

  /** The server writes its authority on its first start, so it is read when it is used. */
  function readAuthority(): string {
    return readFileSync(join(dir, "certificates", "apiserver.crt"), "utf8");
  }

  function createClient(): ApiClient {
    return createApiClient(server, readAuthority(), credentials.adminToken);
  }

  async function stopApiServer(signal?: EndSignal): Promise<void> {
    await apiServer?.stop(signal);
  }

  async function stop(): Promise<void> {
    for (const controller of rolloutsControllers) await controller.stop();
    await stopApiServer();
    await etcd?.stop();
  }

  try {
    await startEtcd();
    await startApiServer();
  } catch (failure) {
    await stop();
    throw failure;
  }

  const admin = createClient();
  const caData = Buffer.from(readAuthority()).toString("base64");
  const adminKubeconfigPath = join(dir, "admin.kubeconfig");
  writeKubeconfigFile({
    path: adminKubeconfigPath,
    server,
    caData,
    user: "admin",
    token: credentials.adminToken,
    namespace: "default",
  });

  const createServiceAccountToken = (namespace: string, name: string, expirationSeconds = 3600) =>
    requestServiceAccountToken(admin, namespace, name, expirationSeconds);

  return {
    server,
    caData,
    adminToken: credentials.adminToken,
    adminKubeconfigPath,
    admin,
    stopApiServer,
    startApiServer,
    async restartApiServer(signal) {
      await stopApiServer(signal);
      await startApiServer();
    },
    async restartEtcd(signal) {
      await etcd?.stop(signal);
      await startEtcd();
      if (apiServer?.isRunning() === true) await waitUntilReady();
    },
    installCrds: (paths) => applyCrds(admin, paths === undefined ? loadDefaultCrds() : loadManifests(paths)),
    applyFiles: (paths) => applyManifests(admin, loadManifests(paths)),
    createNamespace: (name) =>
      createIfAbsent(admin, "/api/v1/namespaces", {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name },
      }),
    createServiceAccountToken,
    async writeServiceAccountKubeconfig(namespace, name) {
      const path = join(dir, `${namespace}.${name}.kubeconfig`);
      const token = await createServiceAccountToken(namespace, name);
      writeKubeconfigFile({ path, server, caData, user: name, token, namespace });
      return path;
    },
    async startRolloutsController() {
      if (binaries.rolloutsController === undefined) {
        throw new Error("the Argo Rollouts controller was not built");
      }
      const controller = await launchRolloutsController({
        binary: binaries.rolloutsController,
        kubeconfigPath: adminKubeconfigPath,
        dir,
      });
      rolloutsControllers.push(controller);
      return controller;
    },
    stop,
  };
}

function requireBinaries(): Binaries {
  const binaries = findBinaries();
  if (binaries === undefined) throw new Error("no control plane found; run control-plane/build.ts first");
  return binaries;
}
