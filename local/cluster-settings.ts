import { chmodSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { loadClusterAccess } from "../shared/cluster/kubeconfig.ts";
import type { ClusterAccess } from "../shared/cluster/transport.ts";
import type { Clock } from "../shared/runtime/clock.ts";
import type { ClusterSettings } from "../shared/runtime/configuration.ts";

export interface ContextOptions {
  /** The kubeconfig's context. */
  readonly context: string;
  /** Default: where kubectl looks. */
  readonly kubeconfig?: string | undefined;
  /** Where the children find the current bearer token. */
  readonly tokenFile: string;
  readonly clock: Clock;
  readonly say: (message: string) => void;
  /** Credentials that are no token have changed; the children need these settings. */
  readonly onChange: (settings: ClusterSettings) => void;
}

export interface ContextCluster {
  readonly settings: ClusterSettings;
  readonly access: ClusterAccess;
  stop(): Promise<void>;
}

/** A token is asked for this often; a plugin is run only when its last one has expired. */
const REFRESH_MS = 20_000;

/**
 * The cluster behind a kubeconfig's context, for processes that read no kubeconfig: what rotates is kept fresh
 * for them for as long as the stack runs. Only this process runs exec plugins.
 *
 * @throws Fault `Invalid` when the context cannot be used, `Transient` when its exec plugin fails.
 */
export async function openContext(options: ContextOptions): Promise<ContextCluster> {
  const { clock, context, kubeconfig, say, tokenFile } = options;
  const access = loadClusterAccess({
    context,
    ...(kubeconfig === undefined ? {} : { kubeconfigPath: kubeconfig }),
  });
  let token = await access.token?.(false);
  if (token !== undefined) writeToken(tokenFile, token);
  const describe = (): ClusterSettings =>
    toSettings(context, access, token === undefined ? undefined : tokenFile);
  let settings = describe();

  const stop = new AbortController();
  const refreshing = (async () => {
    for (;;) {
      await clock.sleep(REFRESH_MS, stop.signal);
      if (stop.signal.aborted) return;
      try {
        const next = await access.token?.(false);
        if (next !== undefined && next !== token) writeToken(tokenFile, next);
        token = next;
        const now = describe();
        if (JSON.stringify(now) !== JSON.stringify(settings)) {
          settings = now;
          options.onChange(now);
        }
      } catch (error) {
        say(`the credentials of context ${context} could not be renewed: ${String(error)}`);
      }
    }
  })();
  return {
    settings,
    access,
    async stop() {
      stop.abort();
      await refreshing;
      rmSync(tokenFile, { force: true });
    },
  };
}

function toSettings(context: string, access: ClusterAccess, tokenFile: string | undefined): ClusterSettings {
  const { ca, clientCertificate, insecureSkipTlsVerify, server, tlsServerName } = access;
  return {
    name: toClusterName(context),
    server,
    ...(ca === undefined ? {} : { ca }),
    ...(clientCertificate === undefined ? {} : { clientCertificate }),
    ...(insecureSkipTlsVerify === undefined ? {} : { insecureSkipTlsVerify }),
    ...(tlsServerName === undefined ? {} : { tlsServerName }),
    ...(tokenFile === undefined ? {} : { tokenFile }),
  };
}

/**
 * The cluster's name in messages and in the ledger: the context's name as a DNS label. The ARN that EKS takes for
 * a name loses all but the cluster: `arn:aws:eks:eu-west-1:111122223333:cluster/prod` becomes `prod`.
 */
export function toClusterName(context: string): string {
  const name = context.startsWith("arn:") ? (context.split("/").at(-1) ?? "") : context;
  const label = name
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, 63)
    .replace(/-+$/, "");
  return label === "" ? "cluster" : label;
}

function writeToken(file: string, token: string): void {
  mkdirSync(dirname(file), { recursive: true });
  const temporary = `${file}.new`;
  writeFileSync(temporary, token, { mode: 0o600 });
  chmodSync(temporary, 0o600);
  renameSync(temporary, file);
}
