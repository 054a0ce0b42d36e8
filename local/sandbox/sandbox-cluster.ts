import { stringify } from "yaml";
import { type Faults, RequestFaults } from "./faults.ts";
import { GarbageCollector } from "./garbage-collector.ts";
import { SandboxServer } from "./http-server.ts";
import { ObjectStore, type StoreState, type StoreStats } from "./object-store.ts";
import { formatKey } from "./objects.ts";
import { Operations } from "./operations.ts";
import { loadState, Persistence } from "./persistence.ts";
import { NAMESPACE } from "./resources.ts";
import { WatchHub } from "./watch-hub.ts";

export interface SandboxOptions {
  /** On 127.0.0.1; 0 (default) takes any that is free. */
  readonly port?: number;
  /** Where the state survives a restart; default: nowhere. One process a file. */
  readonly dataFile?: string;
  /** Milliseconds between bookmarks of a watch that wants them. Default 10,000. */
  readonly bookmarkIntervalMs?: number;
  /** Writes that are kept for resuming watches and for consistent paging. Default 10,000. */
  readonly eventWindow?: number;
  /** For `creationTimestamp` and ages. Default: the machine's clock. */
  readonly now?: () => Date;
  /** One line a message. Default: nowhere. */
  readonly log?: (message: string) => void;
}

export interface SandboxCluster {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
  readonly port: number;
  /** A kubeconfig, as YAML, whose only context `tallyman-sandbox` leads here. */
  kubeconfig(): string;
  readonly faults: Faults;
  readonly store: { compact(): void; stats(): StoreStats & { readonly watches: number } };
  /** Ends watches and connections and writes the state a last time. */
  stop(): Promise<void>;
}

const EVENT_TTL_MS = 60 * 60 * 1000;
const EXPIRY_INTERVAL_MS = 60 * 1000;

/**
 * Starts a small Kubernetes API server with the kinds that Tallyman deals with: plain HTTP, loopback only,
 * no authentication. It keeps the rules that clients rely on (resourceVersions, conflicts, watches that
 * resume or end in 410, status apart from spec, finalizers, owners) and none of a real cluster's workloads.
 *
 * @throws Error when the port is taken or `dataFile` is not a sandbox's.
 */
export async function startSandboxCluster(options: SandboxOptions = {}): Promise<SandboxCluster> {
  const log = options.log ?? (() => undefined);
  const now = options.now ?? (() => new Date());
  const empty: StoreState = { resourceVersion: 0, objects: [] };
  const state = options.dataFile === undefined ? empty : (loadState(options.dataFile) ?? empty);
  const store = new ObjectStore(state, options.eventWindow ?? 10_000);
  const persistence =
    options.dataFile === undefined ? undefined : new Persistence(options.dataFile, store, log);
  const operations = new Operations(store, now);
  if (store.get(NAMESPACE, formatKey("", "default")) === undefined) {
    const namespace = { metadata: { name: "default" } };
    operations.create({ resource: NAMESPACE, namespace: "" }, namespace, { dryRun: false });
  }

  const collector = new GarbageCollector(store, operations);
  const hub = new WatchHub(store, options.bookmarkIntervalMs ?? 10_000);
  const requestFaults = new RequestFaults();
  let goneAsHttpStatus = false;
  const server = new SandboxServer({
    store,
    operations,
    hub,
    faults: requestFaults,
    now,
    log,
    isGoneAnHttpStatus: () => goneAsHttpStatus,
  });
  const expiry = setInterval(() => {
    operations.expireEvents(new Date(now().getTime() - EVENT_TTL_MS));
  }, EXPIRY_INTERVAL_MS);
  expiry.unref();

  const faults: Faults = {
    outage: (on) => server.outage(on),
    respond: (status, times, matches, retryAfterSeconds) =>
      requestFaults.plan("respond", times, matches, status, retryAfterSeconds),
    loseAnswers: (times, matches) => requestFaults.plan("lose", times, matches),
    dropWatches: () => hub.drop(),
    stallWatches: (on) => hub.stall(on),
    expireWatches: () => hub.expire(),
    compact: () => store.compact(),
    goneAsHttpStatus: (on) => {
      goneAsHttpStatus = on;
    },
    clear: () => {
      requestFaults.clear();
      server.outage(false);
      hub.stall(false);
      goneAsHttpStatus = false;
    },
  };

  async function stop(): Promise<void> {
    clearInterval(expiry);
    collector.stop();
    hub.stop();
    await server.close();
    await persistence?.stop();
  }

  let port: number;
  try {
    port = await server.listen(options.port ?? 0);
  } catch (error) {
    clearInterval(expiry);
    collector.stop();
    hub.stop();
    await persistence?.stop();
    throw error;
  }
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    port,
    kubeconfig: () => formatKubeconfig(url),
    faults,
    store: {
      compact: () => store.compact(),
      stats: () => ({ ...store.stats(), watches: hub.size }),
    },
    stop,
  };
}

function formatKubeconfig(server: string): string {
  const name = "tallyman-sandbox";
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    // There is no TLS to verify; @kubernetes/client-node takes plain HTTP only when that is said.
    clusters: [{ name, cluster: { server, "insecure-skip-tls-verify": true } }],
    users: [{ name, user: {} }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    "current-context": name,
  });
}
