import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, isAbsolute, join, resolve, sep } from "node:path";
import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { parse } from "yaml";
import { Fault, isFault } from "../domain/fault.ts";
import type { ClusterAccess } from "./transport.ts";

/** Where to look. With neither path nor text: `KUBECONFIG`, `~/.kube/config`, the Pod's ServiceAccount. */
export interface KubeconfigSource {
  readonly kubeconfigPath?: string;
  /** The file's text, for example out of a secret. File names in it must be absolute. */
  readonly kubeconfigText?: string;
  /** Default: the file's `current-context`. */
  readonly context?: string;
  /** Put before `/var/run/secrets/kubernetes.io/serviceaccount`; for tests. */
  readonly serviceAccountRoot?: string;
}

/** One context of one source, with everything that may be missing found to be there. */
interface Selection {
  readonly config: KubeConfig;
  readonly cluster: Cluster;
  readonly user: User;
  /** What to call it in an error: the file and the context. */
  readonly origin: string;
}

type KeyPair = { readonly cert: string; readonly key: string };

/**
 * Reads how to reach a cluster: certificates, tokens, token files and exec plugins. Certificate files are read
 * again for each request, token files at least once a minute, and everything anew after a 401, so that whatever
 * rotates may rotate.
 *
 * This is the one file that imports client-node; functions that do not read a kubeconfig do without it.
 *
 * @throws {Fault} `Invalid`, naming the file and the context, when the source cannot be used.
 */
export function loadClusterAccess(source: KubeconfigSource = {}): ClusterAccess {
  const { cluster, user, origin, config } = select(source);
  let credentials = createCredentials(config, user, origin);
  const access: ClusterAccess = {
    server: cluster.server,
    insecureSkipTlsVerify: cluster.skipTLSVerify,
    ...(cluster.tlsServerName ? { tlsServerName: cluster.tlsServerName } : {}),
    async token(refresh) {
      if (refresh) {
        const again = select(source);
        credentials = createCredentials(again.config, again.user, again.origin);
      }
      return credentials.token();
    },
  };
  // As getters, because files change; defined one by one, because an absent CA is not an empty one.
  const ca = () => pem(cluster.caFile, cluster.caData, "certificate-authority", origin);
  if (ca() !== undefined) Object.defineProperty(access, "ca", { enumerable: true, get: ca });
  credentials.clientCertificate();
  Object.defineProperty(access, "clientCertificate", {
    enumerable: true,
    get: () => credentials.clientCertificate(),
  });
  return access;
}

function select(source: KubeconfigSource): Selection {
  const { config, origin } = load(source);
  const name = source.context ?? config.getCurrentContext();
  const known = config.getContexts().map((context) => context.name);
  if (!name) {
    throw new Fault(
      "Invalid",
      `${origin} has no current-context; name one of its contexts: ${known.join(", ") || "(it has none)"}`,
    );
  }
  const context = config.getContextObject(name);
  if (context === null) {
    throw new Fault(
      "Invalid",
      `there is no context ${JSON.stringify(name)} in ${origin}; it has: ${known.join(", ") || "(none)"}`,
    );
  }
  config.setCurrentContext(name);
  const where = `${origin}, context ${JSON.stringify(name)}`;
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    throw new Fault("Invalid", `${where}: its cluster ${JSON.stringify(context.cluster)} is not defined`);
  }
  const user: User | null = context.user ? config.getCurrentUser() : { name: "" };
  if (user === null) {
    throw new Fault("Invalid", `${where}: its user ${JSON.stringify(context.user)} is not defined`);
  }
  refuseUnsupported(cluster, user, where);
  return { config, cluster, user, origin: where };
}

/** What would be ignored in silence is refused instead: without them we would be someone or somewhere else. */
function refuseUnsupported(cluster: Cluster, user: User, where: string): void {
  const found = [
    cluster.proxyUrl
      ? "its cluster's proxy-url is not supported; use an address that can be reached directly"
      : "",
    user.impersonateUser
      ? "its user's impersonation (as) is not supported; use that user's own credentials"
      : "",
    user.username ? "its user's username and password are not supported; use a token or a certificate" : "",
  ].filter((sentence) => sentence !== "");
  if (found.length > 0) {
    throw new Fault(
      "Invalid",
      found.map((sentence) => `${where}: ${sentence}`),
    );
  }
}

function load(source: KubeconfigSource): { config: KubeConfig; origin: string } {
  if (source.kubeconfigText !== undefined) {
    const origin = "the given kubeconfig text";
    return { config: parseKubeconfig(source.kubeconfigText, origin, undefined), origin };
  }
  const files = source.kubeconfigPath === undefined ? usualFiles() : [source.kubeconfigPath];
  if (files.length > 0) {
    const [first, ...others] = files.map((file) => readKubeconfig(file));
    const config = first ?? new KubeConfig();
    for (const other of others) merge(config, other);
    return { config, origin: files.join(delimiter) };
  }
  const root = source.serviceAccountRoot ?? "";
  if (existsSync(`${root}/var/run/secrets/kubernetes.io/serviceaccount/token`)) {
    const config = new KubeConfig();
    config.loadFromCluster(root);
    return { config, origin: "the Pod's ServiceAccount" };
  }
  throw new Fault(
    "Invalid",
    "no cluster to talk to: KUBECONFIG is not set, ~/.kube/config does not exist and this is not a Pod; name a kubeconfig file",
  );
}

function usualFiles(): string[] {
  const named = (process.env.KUBECONFIG ?? "").split(delimiter).filter((file) => file !== "");
  if (named.length > 0) {
    // As kubectl: files of the list that do not exist are passed over, unless none does.
    const existing = named.filter((file) => existsSync(file));
    return existing.length > 0 ? existing : named;
  }
  const usual = join(process.env.HOME ?? homedir(), ".kube", "config");
  return existsSync(usual) ? [usual] : [];
}

function readKubeconfig(file: string): KubeConfig {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new Fault("Invalid", `cannot read the kubeconfig ${file}: ${messageOf(error)}`, { cause: error });
  }
  return parseKubeconfig(text, file, dirname(resolve(file)));
}

function parseKubeconfig(text: string, origin: string, directory: string | undefined): KubeConfig {
  const config = new KubeConfig();
  try {
    const raw: unknown = parse(text);
    if (typeof raw !== "object" || raw === null) throw new Error("it is not a YAML mapping");
    config.loadFromString(text);
    if (directory !== undefined) config.makePathsAbsolute(directory);
    config.users = config.users.map((user) => complete(user, raw, directory));
    // A kubectl proxy on this machine; whether the host is loopback is the transport's to check.
    config.clusters = config.clusters.map((cluster) =>
      cluster.server.startsWith("http:") ? { ...cluster, skipTLSVerify: true } : cluster,
    );
  } catch (error) {
    if (isFault(error)) throw error;
    throw new Fault("Invalid", `${origin} is not a kubeconfig: ${messageOf(error)}`, { cause: error });
  }
  return config;
}

/** What client-node leaves out: `tokenFile`, relative exec commands and the information exec plugins expect. */
function complete(user: User, raw: unknown, directory: string | undefined): User {
  const tokenFile = tokenFileOf(raw, user.name);
  if (tokenFile !== undefined) {
    // As in kubectl, a token file wins over a token beside it.
    const { token: _, ...rest } = user;
    return {
      ...rest,
      authProvider: { name: "tokenFile", config: { tokenFile: absolute(tokenFile, directory) } },
    };
  }
  if (user.exec) {
    const command: string = user.exec.command ?? "";
    const info = {
      apiVersion: user.exec.apiVersion ?? "client.authentication.k8s.io/v1",
      kind: "ExecCredential",
      spec: { interactive: false },
    };
    return {
      ...user,
      exec: {
        ...user.exec,
        command: command.includes(sep) ? absolute(command, directory) : command,
        env: [...(user.exec.env ?? []), { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }],
      },
    };
  }
  return user;
}

function tokenFileOf(raw: unknown, name: string): string | undefined {
  const users: unknown = (raw as { users?: unknown }).users;
  if (!Array.isArray(users)) return undefined;
  const entry = users.find((user) => user?.name === name);
  const file: unknown = entry?.user?.tokenFile;
  return typeof file === "string" && file !== "" ? file : undefined;
}

function absolute(file: string, directory: string | undefined): string {
  return isAbsolute(file) || directory === undefined ? file : join(directory, file);
}

/** As kubectl: the first file that says something wins; client-node refuses duplicates instead. */
function merge(config: KubeConfig, other: KubeConfig): void {
  const lacks = (present: { name: string }[]) => (entry: { name: string }) =>
    !present.some((known) => known.name === entry.name);
  config.clusters.push(...other.clusters.filter(lacks(config.clusters)));
  config.users.push(...other.users.filter(lacks(config.users)));
  config.contexts.push(...other.contexts.filter(lacks(config.contexts)));
  if (!config.getCurrentContext()) config.setCurrentContext(other.getCurrentContext());
}

interface Credentials {
  token(): Promise<string | undefined>;
  clientCertificate(): KeyPair | undefined;
}

function createCredentials(config: KubeConfig, user: User, origin: string): Credentials {
  let issued: KeyPair | undefined;
  let pending: Promise<string | undefined> | undefined;

  async function obtain(): Promise<string | undefined> {
    const options: { headers?: Record<string, unknown>; cert?: unknown; key?: unknown } = {};
    try {
      await config.applyToHTTPSOptions(options as Parameters<KubeConfig["applyToHTTPSOptions"]>[0]);
    } catch (error) {
      throw credentialFault(user, origin, error);
    }
    if (user.exec && options.cert && options.key) {
      issued = { cert: String(options.cert), key: String(options.key) };
    }
    const header = options.headers?.Authorization;
    // Token files end with a newline, which a header must not contain.
    return typeof header === "string" ? header.replace(/^Bearer\s+/, "").trim() || undefined : undefined;
  }

  return {
    token() {
      // Requests that start together share one run of an exec plugin.
      pending ??= obtain().finally(() => {
        pending = undefined;
      });
      return pending;
    },
    clientCertificate() {
      if (issued !== undefined) return issued;
      const cert = pem(user.certFile, user.certData, "client-certificate", origin);
      const key = pem(user.keyFile, user.keyData, "client-key", origin);
      return cert === undefined || key === undefined ? undefined : { cert, key };
    },
  };
}

/** A plugin that is not there will not come by waiting; one that failed may succeed the next time. */
function credentialFault(user: User, origin: string, error: unknown): Fault {
  const missing = error instanceof Error && "code" in error && error.code === "ENOENT";
  if (user.exec && missing) {
    const hint = user.exec.installHint ? ` ${String(user.exec.installHint).trim()}` : "";
    return new Fault("Invalid", `${origin}: its exec plugin ${user.exec.command} is not installed.${hint}`, {
      cause: error,
    });
  }
  const what = user.exec ? `its exec plugin ${user.exec.command} failed` : "its credentials cannot be read";
  return new Fault("Transient", `${origin}: ${what}: ${messageOf(error).trim()}`, { cause: error });
}

function pem(
  file: string | undefined,
  data: string | undefined,
  field: string,
  origin: string,
): string | undefined {
  if (!file) return data ? Buffer.from(data, "base64").toString("utf8") : undefined;
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Fault("Invalid", `${origin}: cannot read its ${field}: ${messageOf(error)}`, { cause: error });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
