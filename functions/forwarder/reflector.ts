/**
 * List and watch one kind of Kubernetes object, for as long as it takes.
 *
 * One loop does one thing at a time: list, watch, wait, and again. There can be no second watch beside the first,
 * because nothing is ever started in the background that could open one. Every end of a stream, however it came
 * about, leads back to the loop, which goes on from the last resource version; only the server's word that this
 * version is gone leads to a new list, whose difference to what is known is what happened meanwhile, deletions
 * included. What is known advances only after the handler has taken it, so a handler that fails sees it again.
 */
import type { KubernetesStream, KubernetesTransport } from "../../shared/cluster/transport.ts";
import { Fault, isFault } from "../../shared/domain/fault.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import { createBackoff } from "./backoff.ts";
import { gather } from "./gather.ts";
import { createKnownObjects, type ReflectorEvent, type StagedChanges } from "./known-objects.ts";
import type { ObjectIdentity } from "./object-identity.ts";
import { listPages } from "./object-list.ts";
import { Refusal, readRefusedBody, refusalOf } from "./refusal.ts";
import { type Sighting, sight, sightings } from "./sighting.ts";
import { readWatch } from "./watch-stream.ts";

export type { ReflectorEvent } from "./known-objects.ts";

export interface ReflectorOptions {
  /** How long the server is asked to keep a watch open, seconds. Default 290. */
  readonly watchTimeoutSeconds?: number;
  /** A watch without a byte for so long is given up, milliseconds. Default 90,000: bookmarks come each minute. */
  readonly silenceTimeoutMs?: number;
  /** Milliseconds without an answer to a list, or without a watch's response headers. Default 30,000. */
  readonly answerTimeoutMs?: number;
  /** Upper bound of the first pause after a failure, milliseconds. Default 1,000. */
  readonly backoffBaseMs?: number;
  /** Upper bound of every pause, milliseconds. Default 30,000. */
  readonly backoffCapMs?: number;
  /** A watch that lived so long, milliseconds, starts the backoff afresh. Default 10,000. */
  readonly provenAfterMs?: number;
  /** Watch events that may wait for the handler before the socket is paused. Default 1,000. */
  readonly maxWaiting?: number;
  /** Longest watch event, bytes. Default 8 MiB; etcd takes objects of about 1.5 MiB. */
  readonly maxLineBytes?: number;
}

/** Something went wrong and will be tried again; for logs and metrics. */
export interface ReflectorTrouble {
  readonly during: "list" | "watch";
  readonly fault: Fault;
  /** The pause before the next attempt, milliseconds. */
  readonly retryInMs: number;
}

export interface ReflectorConfig<T> {
  readonly transport: KubernetesTransport;
  /** For example `/apis/kargo.akuity.io/v1alpha1/stages`. */
  readonly path: string;
  readonly labelSelector?: string;
  /** Objects in one page of a list. Default 500; halved when a page is too large for the transport. */
  readonly pageSize?: number;
  /** What to keep of an object; may throw for an object that makes no sense. */
  readonly project: (object: unknown) => T;
  readonly key: (object: unknown) => string;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /**
   * Where an earlier reflector stopped: its `state().resourceVersion` and `entries()`. Without `known`, objects
   * are `added` when they first change, `deleted` carries the state that the deletion itself tells, and what was
   * deleted while nobody watched stays unknown if the version has expired.
   */
  readonly resume?: { readonly resourceVersion: string; readonly known?: Iterable<readonly [string, T]> };
  /**
   * Takes changes in order, never two calls at once; while its promise is pending the stream is held back. What it
   * throws ends `run` with that error.
   */
  readonly handler: (events: readonly ReflectorEvent<T>[]) => Promise<void> | void;
  /** Told of objects that could not be projected; they are skipped, and what was known of them stays. */
  readonly onInvalid?: (identity: ObjectIdentity, error: unknown) => void;
  readonly onTrouble?: (trouble: ReflectorTrouble) => void;
  readonly options?: ReflectorOptions;
}

interface ReflectorState {
  /** Everything up to here has been taken by the handler; undefined before the first complete list. */
  readonly resourceVersion: string | undefined;
  /** True while what is known is a complete list plus all changes since. */
  readonly synced: boolean;
  /** True once every object has been seen: after a complete list, or from a checkpoint that brought what is known. */
  readonly complete: boolean;
  /** When the server last sent anything, milliseconds since the epoch; undefined before it did. */
  readonly lastActivityAt: number | undefined;
  /** Complete lists after the first. */
  readonly relists: number;
  /** Watches after the first. */
  readonly reconnects: number;
}

export interface Reflector<T> {
  /**
   * Works until `signal` is aborted, then resolves. May be called again afterwards and goes on where it was.
   *
   * @throws whatever the handler (or `onInvalid`, `onTrouble`) throws; `Fault` `Invalid` when it runs already.
   */
  run(signal: AbortSignal): Promise<void>;
  state(): ReflectorState;
  /** What is known now, by key. */
  entries(): Iterable<readonly [string, T]>;
}

/** How a list or a watch ended. */
interface Ending {
  readonly during: "list" | "watch";
  /** Missing when all is well. */
  readonly fault?: Fault;
  /** How long a watch lived after its headers, milliseconds. */
  readonly livedMs: number;
}

/** Creates a reflector; nothing happens before `run`. */
export function createReflector<T>(config: ReflectorConfig<T>): Reflector<T> {
  const { transport, path, clock, handler } = config;
  const watchTimeoutSeconds = config.options?.watchTimeoutSeconds ?? 290;
  const silenceTimeoutMs = config.options?.silenceTimeoutMs ?? 90_000;
  const answerTimeoutMs = config.options?.answerTimeoutMs ?? 30_000;
  const provenAfterMs = config.options?.provenAfterMs ?? 10_000;
  const maxWaiting = config.options?.maxWaiting ?? 1_000;
  const maxLineBytes = config.options?.maxLineBytes ?? 8 * 1024 * 1024;
  const backoff = createBackoff({
    baseMs: config.options?.backoffBaseMs ?? 1_000,
    capMs: config.options?.backoffCapMs ?? 30_000,
    random: config.random,
  });
  const known = createKnownObjects<T>(config.resume === undefined ? [] : config.resume.known);
  let resourceVersion = config.resume?.resourceVersion;
  let synced = resourceVersion !== undefined;
  let pageSize = config.pageSize ?? 500;
  let lastActivityAt: number | undefined;
  let quietSince = 0;
  let lists = 0;
  let watches = 0;
  let running = false;
  let delivering = false;

  function noteActivity(): void {
    lastActivityAt = clock.now();
    quietSince = lastActivityAt;
  }

  /** Gives the handler what there is, then makes it known. */
  async function deliver(events: readonly ReflectorEvent<T>[], staged?: StagedChanges<T>): Promise<void> {
    if (events.length > 0) {
      delivering = true;
      try {
        await handler(events);
      } finally {
        delivering = false;
        // The stream was held back, so its silence meanwhile says nothing about the server.
        quietSince = clock.now();
      }
    }
    staged?.commit();
  }

  async function list(signal: AbortSignal): Promise<Ending> {
    const seen = new Set<string>();
    let listed: string | undefined;
    const pages = listPages({
      transport,
      path,
      labelSelector: config.labelSelector,
      pageSize,
      signal,
      timeoutMs: answerTimeoutMs,
      now: clock.now,
    });
    for (;;) {
      let page: Awaited<ReturnType<typeof pages.next>>;
      try {
        page = await pages.next();
      } catch (error) {
        // Too large a page stays too large; a smaller one may do.
        if (isFault(error, "Permanent")) pageSize = Math.max(1, Math.floor(pageSize / 2));
        return { during: "list", fault: faultOf(error), livedMs: 0 };
      }
      if (page.done || signal.aborted) break;
      noteActivity();
      listed = page.value.resourceVersion;
      await takePage(page.value.items, seen);
    }
    if (signal.aborted || listed === undefined) return { during: "list", livedMs: 0 };
    await takeAbsences(seen, listed);
    await deliver([{ type: "synced", resourceVersion: listed }]);
    known.complete();
    resourceVersion = listed;
    synced = true;
    lists += 1;
    return { during: "list", livedMs: 0 };
  }

  async function takePage(items: readonly unknown[], seen: Set<string>): Promise<void> {
    const staged = known.stage();
    const events: ReflectorEvent<T>[] = [];
    for (const item of items) {
      const sighting = sight(item, config, known.has);
      // An object that cannot be projected is there all the same: it must not seem to be deleted.
      if ("key" in sighting) seen.add(sighting.key);
      if (sighting.type === "invalid") config.onInvalid?.(sighting.identity, sighting.error);
      if (sighting.type !== "present") continue;
      const event = staged.observe(sighting);
      if (event !== undefined) events.push(event);
    }
    await deliver(events, staged);
  }

  /** Only after a complete list: what is known and was not listed has been deleted meanwhile. */
  async function takeAbsences(seen: ReadonlySet<string>, listed: string): Promise<void> {
    const gone = [...known.keys()].filter((key) => !seen.has(key));
    for (let start = 0; start < gone.length; start += pageSize) {
      const staged = known.stage();
      const events: ReflectorEvent<T>[] = [];
      for (const key of gone.slice(start, start + pageSize)) {
        const event = staged.observe({ type: "absent", key, resourceVersion: listed });
        if (event !== undefined) events.push(event);
      }
      await deliver(events, staged);
    }
  }

  async function watch(signal: AbortSignal): Promise<Ending> {
    const attempt = new AbortController();
    const stop = (): void => attempt.abort();
    signal.addEventListener("abort", stop, { once: true });
    const watchdog = guard(attempt);
    let stream: KubernetesStream | undefined;
    let openedAt: number | undefined;
    const ending = (error?: unknown): Ending => ({
      during: "watch",
      livedMs: openedAt === undefined ? 0 : clock.now() - openedAt,
      ...(error === undefined ? {} : { fault: faultOf(attempt.signal.reason ?? error) }),
    });
    watches += 1;
    try {
      try {
        stream = await transport.stream({
          method: "GET",
          path,
          query: watchQuery(),
          signal: attempt.signal,
          timeoutMs: answerTimeoutMs,
        });
        // Whoever reads the body hears of its errors; one that comes after the last read is of no interest.
        stream.body.on("error", () => {});
        noteActivity();
        if (stream.status !== 200) throw await refusalFrom(stream);
      } catch (error) {
        return ending(error);
      }
      openedAt = clock.now();
      const batches = gather(
        sightings(readEvents(stream), { projection: config, keepLast: () => !known.isComplete(), refuse }),
        maxWaiting,
      );
      try {
        for (;;) {
          let batch: Awaited<ReturnType<typeof batches.next>>;
          try {
            batch = await batches.next();
          } catch (error) {
            return ending(error);
          }
          if (batch.done) return ending();
          if (signal.aborted) return ending();
          await takeSightings(batch.value);
        }
      } finally {
        attempt.abort();
        stream.body.destroy();
        await batches.return(undefined);
      }
    } finally {
      signal.removeEventListener("abort", stop);
      attempt.abort();
      stream?.body.destroy();
      await watchdog;
    }
  }

  function watchQuery(): Record<string, string> {
    return {
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: resourceVersion ?? "",
      timeoutSeconds: String(watchTimeoutSeconds),
      ...(config.labelSelector === undefined ? {} : { labelSelector: config.labelSelector }),
    };
  }

  function readEvents(stream: KubernetesStream): ReturnType<typeof readWatch> {
    return readWatch(stream.body, {
      maxLineBytes,
      onActivity: noteActivity,
    });
  }

  async function takeSightings(batch: readonly Sighting<T>[]): Promise<void> {
    const staged = known.stage();
    const events: ReflectorEvent<T>[] = [];
    let latest = resourceVersion;
    for (const sighting of batch) {
      if (sighting.type === "familiar") continue;
      if (sighting.type === "invalid") {
        config.onInvalid?.(sighting.identity, sighting.error);
        latest = sighting.identity.resourceVersion ?? latest;
        continue;
      }
      latest = sighting.resourceVersion;
      const event =
        sighting.type === "bookmark"
          ? { type: sighting.type, resourceVersion: sighting.resourceVersion }
          : staged.observe(sighting);
      if (event !== undefined) events.push(event);
    }
    await deliver(events, staged);
    resourceVersion = latest;
  }

  /** Gives up an attempt when the server has been silent for too long. */
  async function guard(attempt: AbortController): Promise<void> {
    quietSince = clock.now();
    while (!attempt.signal.aborted) {
      // A clock that was set back must not make the silence seem to lie in the future, and last until then.
      quietSince = delivering ? clock.now() : Math.min(quietSince, clock.now());
      const left = quietSince + silenceTimeoutMs - clock.now();
      if (left <= 0) {
        attempt.abort(new Fault("Transient", `GET ${path}: the watch was silent for ${silenceTimeoutMs} ms`));
        return;
      }
      await clock.sleep(left, attempt.signal);
    }
  }

  function refuse(status: unknown): Refusal {
    const code = Number((status as { code?: unknown } | null)?.code ?? 0);
    return refusalOf(`GET ${path}: the watch`, { status: code, body: status }, clock.now());
  }

  async function refusalFrom(stream: KubernetesStream): Promise<Refusal> {
    const body = await readRefusedBody(stream.body);
    const answer = { status: stream.status, body, retryAfter: stream.headers["retry-after"] };
    return refusalOf(`GET ${path}: the watch`, answer, clock.now());
  }

  function pauseAfter({ during, fault, livedMs }: Ending): number {
    if (during === "list" && fault === undefined) return 0;
    const proven = livedMs >= provenAfterMs;
    if (proven) backoff.reset();
    if (proven && fault === undefined) return 0;
    return Math.max(backoff.next(), fault instanceof Refusal ? fault.retryAfterMs : 0);
  }

  async function run(signal: AbortSignal): Promise<void> {
    if (running) throw new Fault("Invalid", `the reflector of ${path} runs already`);
    running = true;
    try {
      while (!signal.aborted) {
        const ending = await (synced ? watch(signal) : list(signal));
        if (signal.aborted) return;
        if (ending.during === "watch" && ending.fault instanceof Refusal && ending.fault.expired)
          synced = false;
        const pause = pauseAfter(ending);
        if (ending.fault !== undefined) {
          config.onTrouble?.({ during: ending.during, fault: ending.fault, retryInMs: pause });
        }
        if (pause > 0) await clock.sleep(pause, signal);
      }
    } finally {
      running = false;
    }
  }

  function state(): ReflectorState {
    return {
      resourceVersion,
      synced,
      complete: known.isComplete() && synced,
      lastActivityAt,
      relists: Math.max(0, config.resume === undefined ? lists - 1 : lists),
      reconnects: Math.max(0, watches - 1),
    };
  }

  return { run, state, entries: () => known.entries() };
}

function faultOf(error: unknown): Fault {
  if (isFault(error)) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new Fault("Transient", `the stream broke: ${message}`, { cause: error });
}
