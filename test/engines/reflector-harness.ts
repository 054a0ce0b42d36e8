import { onTestFinished } from "vitest";
import {
  createReflector,
  type Reflector,
  type ReflectorConfig,
  type ReflectorEvent,
  type ReflectorTrouble,
} from "../../functions/forwarder/reflector.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { ClusterAccess } from "../../shared/cluster/transport.ts";
import { eventually } from "./eventually.ts";
import { type ScriptedApiServer, startScriptedApiServer } from "./scripted-api-server.ts";
import { createVirtualClock, type VirtualClock } from "./virtual-clock.ts";

/** What the tests keep of a Stage. */
export interface Projected {
  readonly phase: unknown;
}

export type StageEvent = ReflectorEvent<Projected>;

export interface ReflectorHarness {
  readonly api: ScriptedApiServer;
  readonly clock: VirtualClock;
  readonly reflector: Reflector<Projected>;
  /** Everything the handler was given, in order; not with a handler of one's own. */
  readonly events: StageEvent[];
  /** The events about objects only. */
  changes(): StageEvent[];
  readonly invalid: { readonly identity: object; readonly error: unknown }[];
  readonly troubles: ReflectorTrouble[];
  /** The state that the events add up to, by key. */
  mirror(): Map<string, Projected>;
  /** The state of the server, by key. */
  truth(): Map<string, Projected>;
  /** Waits for something over the sockets; pauses of the reflector (not the watchdog's) end at once. */
  settle(what: string, holds: () => boolean, withinMs?: number): Promise<void>;
  /** Waits likewise, with the clock standing still. */
  eventually(what: string, holds: () => boolean): Promise<void>;
  /** Starts the reflector and waits until it has listed and watches. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** What `run` came to; settled after `stop` or a failing handler. */
  readonly ended: Promise<void>;
}

// Backoff pauses are at most so long; the watchdog's sleeps are longer.
const LONGEST_PAUSE_MS = 30_000;

export interface HarnessOptions extends Partial<ReflectorConfig<Projected>> {
  readonly api?: ScriptedApiServer;
  readonly access?: Partial<ClusterAccess>;
}

/** Creates a reflector of a scripted server; everything ends with the test. */
export async function createReflectorHarness(options: HarnessOptions = {}): Promise<ReflectorHarness> {
  const { api: given, access, ...config } = options;
  const api = given ?? (await startScriptedApiServer());
  const clock = createVirtualClock();
  const events: StageEvent[] = [];
  const invalid: ReflectorHarness["invalid"] = [];
  const troubles: ReflectorTrouble[] = [];
  const stopping = new AbortController();
  const transport = createTransport({ server: api.url, ...access });
  const ended = Promise.withResolvers<void>();
  ended.promise.catch(() => {});
  let started = false;
  const reflector = createReflector<Projected>({
    transport,
    path: "/apis/kargo.akuity.io/v1alpha1/stages",
    clock,
    random: () => 0,
    key: keyOf,
    project: projectPhase,
    handler: (batch) => {
      events.push(...batch);
    },
    onInvalid: (identity, error) => {
      invalid.push({ identity, error });
    },
    onTrouble: (trouble) => {
      troubles.push(trouble);
    },
    ...config,
  });

  async function stop(): Promise<void> {
    stopping.abort();
    if (started) await ended.promise.catch(() => {});
    transport.close();
  }
  onTestFinished(async () => {
    await stop();
    if (given === undefined) await api.stop();
  });

  const settle: ReflectorHarness["settle"] = (what, holds, withinMs) =>
    eventually(what, holds, withinMs, () => clock.wakeNext(LONGEST_PAUSE_MS));

  return {
    api,
    clock,
    reflector,
    events,
    changes: () => events.filter(({ type }) => type !== "synced" && type !== "bookmark"),
    invalid,
    troubles,
    mirror: () => fold(events),
    truth: () => new Map([...api.objects().values()].map((object) => [keyOf(object), projectPhase(object)])),
    settle,
    eventually: (what, holds) => eventually(what, holds),
    async start() {
      started = true;
      reflector.run(stopping.signal).then(ended.resolve, ended.reject);
      await settle("a live watch", () => api.liveWatches() === 1);
    },
    stop,
    ended: ended.promise,
  };
}

export function keyOf(object: unknown): string {
  const { namespace, name } = (object as { metadata: { namespace: string; name: string } }).metadata;
  return `${namespace}/${name}`;
}

export function projectPhase(object: unknown): Projected {
  const { phase } = object as { phase?: unknown };
  if (phase === "nonsense") throw new Error("this phase makes no sense");
  return { phase };
}

function fold(events: readonly StageEvent[]): Map<string, Projected> {
  const state = new Map<string, Projected>();
  for (const event of events) {
    if (event.type === "added" || event.type === "changed") state.set(event.key, event.current);
    if (event.type === "deleted") state.delete(event.key);
  }
  return state;
}
