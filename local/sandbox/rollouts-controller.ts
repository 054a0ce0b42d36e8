import type { Readable } from "node:stream";
import { isDeepStrictEqual } from "node:util";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { type Clock, systemClock } from "../../shared/runtime/clock.ts";
import { isRecord, readPath, type StoredObject } from "./objects.ts";
import { draftStatus, isCompleted, type RunStatus, readSpec } from "./rollouts/analysis-run.ts";
import { findExpiry, reconcileRun } from "./rollouts/reconciliation.ts";

export interface RolloutsControllerOptions {
  /** The sandbox cluster; or give a `transport`. */
  readonly url?: string;
  readonly transport?: KubernetesTransport;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** How much faster than written intervals, delays and durations pass. Default 1. */
  readonly speed?: number;
  /** Set: only runs with this instance label are taken. Not set: only runs without one. */
  readonly instanceId?: string;
  /** One line a message. Default: nowhere. */
  readonly log?: (message: string) => void;
}

export interface RolloutsController {
  /** Ends the watch and all measurements; runs stay as they are and are taken up by the next controller. */
  stop(): Promise<void>;
}

const COLLECTION = "/apis/argoproj.io/v1alpha1/analysisruns";
const INSTANCE_LABEL = "argo-rollouts.argoproj.io/controller-instance-id";
const RETRY_MS = 1000;
const PAGE = 500;
/** Timers of Node end at 24 days; looking once too often does no harm. */
const LONGEST_WAIT_MS = 86_400_000;

/**
 * Runs the AnalysisRuns of the sandbox cluster as Argo Rollouts would: an ordinary client that lists, watches
 * and patches status on the main resource. All that it knows of a run is in the run, so it can be stopped and
 * started at any time.
 */
export function startRolloutsController(options: RolloutsControllerOptions): RolloutsController {
  const controller = new Controller(options);
  const done = controller.run();
  return {
    stop: async () => {
      controller.abort();
      await done;
    },
  };
}

class Controller {
  readonly #options: RolloutsControllerOptions;
  readonly #transport: KubernetesTransport;
  readonly #clock: Clock;
  readonly #speed: number;
  readonly #log: (message: string) => void;
  readonly #abort = new AbortController();
  readonly #runs = new Map<string, StoredObject>();
  readonly #busy = new Map<string, Promise<void>>();
  readonly #changed = new Set<string>();
  /** One pending look a run; a new one takes the old one's place. */
  readonly #timers = new Map<string, AbortController>();

  constructor(options: RolloutsControllerOptions) {
    if (options.transport === undefined && options.url === undefined) {
      throw new Error("the Rollouts controller needs a url or a transport");
    }
    this.#options = options;
    this.#transport = options.transport ?? createTransport({ server: options.url ?? "" });
    this.#clock = options.clock ?? systemClock;
    this.#speed = options.speed ?? 1;
    this.#log = options.log ?? (() => undefined);
  }

  abort(): void {
    this.#abort.abort();
    for (const timer of this.#timers.values()) timer.abort();
  }

  /** Lists and watches until it is aborted; every break is followed by another try. */
  async run(): Promise<void> {
    const { signal } = this.#abort;
    let from: string | undefined;
    while (!signal.aborted) {
      try {
        from = await this.#watch(from ?? (await this.#list()));
      } catch (error) {
        if (signal.aborted) break;
        this.#log(`rollouts: watch of AnalysisRuns broke: ${String(error)}`);
        from = undefined;
        await this.#clock.sleep(RETRY_MS, signal);
      }
    }
    await Promise.allSettled(this.#busy.values());
    if (this.#options.transport === undefined) this.#transport.close();
  }

  /** @returns the resourceVersion to watch from. */
  async #list(): Promise<string> {
    const seen = new Set<string>();
    let token = "";
    let resourceVersion = "";
    do {
      const response = await this.#transport.request({
        method: "GET",
        path: COLLECTION,
        query: { limit: String(PAGE), ...(token === "" ? {} : { continue: token }) },
        signal: this.#abort.signal,
      });
      if (response.status !== 200) throw new Error(`list answered ${response.status}`);
      resourceVersion = String(readPath(response.body, ["metadata", "resourceVersion"]));
      token = String(readPath(response.body, ["metadata", "continue"]) ?? "");
      for (const item of (readPath(response.body, ["items"]) ?? []) as StoredObject[]) {
        seen.add(idOf(item));
        this.#see(item);
      }
    } while (token !== "");
    for (const id of this.#runs.keys()) if (!seen.has(id)) this.#forget(id);
    return resourceVersion;
  }

  /** @returns where to go on, `undefined` when only a new list helps. */
  async #watch(from: string): Promise<string | undefined> {
    const stream = await this.#transport.stream({
      method: "GET",
      path: COLLECTION,
      query: { watch: "true", allowWatchBookmarks: "true", resourceVersion: from },
      signal: this.#abort.signal,
    });
    const destroy = (): void => void stream.body.destroy();
    this.#abort.signal.addEventListener("abort", destroy, { once: true });
    stream.body.on("error", () => undefined);
    let last: string | undefined = from;
    try {
      if (stream.status !== 200) throw new Error(`watch answered ${stream.status}`);
      for await (const line of readLines(stream.body)) {
        last = this.#take(line, last);
        if (last === undefined) break;
      }
    } finally {
      this.#abort.signal.removeEventListener("abort", destroy);
      stream.body.destroy();
    }
    return last;
  }

  #take(line: string, from: string): string | undefined {
    const event: unknown = JSON.parse(line);
    const type = readPath(event, ["type"]);
    const object = readPath(event, ["object"]) as StoredObject;
    if (type === "ERROR") return undefined;
    if (type === "DELETED") this.#forget(idOf(object));
    else if (type !== "BOOKMARK") this.#see(object);
    return object.metadata.resourceVersion ?? from;
  }

  #see(run: StoredObject): void {
    const label = run.metadata.labels?.[INSTANCE_LABEL];
    if (label !== this.#options.instanceId) return;
    const id = idOf(run);
    const known = this.#runs.get(id);
    // Our own write comes back by the watch later than by its answer.
    if (known !== undefined && versionOf(known) >= versionOf(run)) return;
    this.#runs.set(id, run);
    this.#enqueue(id);
  }

  #forget(id: string): void {
    this.#runs.delete(id);
    this.#timers.get(id)?.abort();
    this.#timers.delete(id);
  }

  /** One pass at a time for each run; a change during a pass asks for another one. */
  #enqueue(id: string): void {
    this.#changed.add(id);
    if (this.#busy.has(id)) return;
    const pass = this.#work(id).finally(() => this.#busy.delete(id));
    this.#busy.set(id, pass);
  }

  async #work(id: string): Promise<void> {
    while (this.#changed.delete(id) && !this.#abort.signal.aborted) {
      try {
        await this.#pass(id);
      } catch (error) {
        if (this.#abort.signal.aborted) return;
        this.#log(`rollouts: ${id}: ${String(error)}`);
        this.#lookAgain(id, this.#clock.now() + RETRY_MS);
      }
    }
  }

  async #pass(id: string): Promise<void> {
    const run = this.#runs.get(id);
    if (run === undefined || run.metadata.deletionTimestamp !== undefined) return;
    const status = draftStatus(run);
    if (isCompleted(status.phase)) {
      await this.#expire(id, run, status);
      return;
    }
    const outcome = await reconcileRun(readSpec(run), status, {
      now: () => this.#clock.now(),
      speed: this.#speed,
      signal: this.#abort.signal,
      readSecret: (name) => this.#readSecret(run.metadata.namespace ?? "", name),
    });
    if (this.#abort.signal.aborted) return;
    if (!isDeepStrictEqual(outcome.status, run.status)) await this.#persist(id, run, outcome.status);
    if (outcome.nextTime !== undefined) this.#lookAgain(id, outcome.nextTime);
  }

  async #persist(id: string, run: StoredObject, status: RunStatus): Promise<void> {
    const response = await this.#transport.request({
      method: "PATCH",
      path: pathOf(run),
      // A merge patch without resourceVersion, as Argo Rollouts sends it: nobody else writes this status.
      body: { status: { ...status, message: status.message || null } },
    });
    if (response.status === 404) {
      this.#forget(id);
      return;
    }
    if (response.status !== 200) throw new Error(`status patch answered ${response.status}`);
    this.#see(response.body as StoredObject);
  }

  async #expire(id: string, run: StoredObject, status: RunStatus): Promise<void> {
    const expiry = findExpiry(readSpec(run), status);
    if (expiry === undefined) return;
    if (expiry > this.#clock.now()) {
      this.#lookAgain(id, expiry);
      return;
    }
    const response = await this.#transport.request({ method: "DELETE", path: pathOf(run) });
    if (response.status >= 400 && response.status !== 404) {
      throw new Error(`delete answered ${response.status}`);
    }
  }

  async #readSecret(namespace: string, name: string): Promise<Readonly<Record<string, string>>> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets/${encodeURIComponent(name)}`;
    const response = await this.#transport.request({ method: "GET", path });
    if (response.status === 404) throw new Error(`secrets "${name}" not found`);
    if (response.status !== 200) throw new Error(`secret ${name}: answered ${response.status}`);
    const data = readPath(response.body, ["data"]);
    if (!isRecord(data)) return {};
    const entries = Object.entries(data).map(([key, value]) => [
      key,
      Buffer.from(String(value), "base64").toString("utf8"),
    ]);
    return Object.fromEntries(entries);
  }

  #lookAgain(id: string, time: number): void {
    this.#timers.get(id)?.abort();
    const timer = new AbortController();
    this.#timers.set(id, timer);
    const wait = Math.min(Math.max(0, time - this.#clock.now()), LONGEST_WAIT_MS);
    void this.#clock.sleep(wait, timer.signal).then(() => {
      if (timer.signal.aborted || this.#abort.signal.aborted) return;
      this.#timers.delete(id);
      this.#enqueue(id);
    });
  }
}

/** node:readline would wait for ever on a stream that is destroyed; iterating the stream itself ends. */
async function* readLines(body: Readable): AsyncGenerator<string> {
  let rest = "";
  body.setEncoding("utf8");
  for await (const chunk of body as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines.filter((line) => line !== "");
  }
}

function idOf(run: StoredObject): string {
  return `${run.metadata.namespace ?? ""}/${run.metadata.name}`;
}

function pathOf(run: StoredObject): string {
  const { namespace = "", name } = run.metadata;
  return `/apis/argoproj.io/v1alpha1/namespaces/${encodeURIComponent(namespace)}/analysisruns/${encodeURIComponent(name)}`;
}

function versionOf(run: StoredObject): number {
  return Number(run.metadata.resourceVersion);
}
