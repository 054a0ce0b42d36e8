/**
 * An API server for one kind of object that misbehaves on request: real sockets on loopback, a resource version
 * that counts, paged lists, watches that replay from a version, and faults to be queued for the next calls.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

interface StoredObject {
  readonly metadata: { readonly namespace: string; readonly name: string; readonly resourceVersion: string };
  readonly [field: string]: unknown;
}

/** A fault for one call; it takes the response and does with it what it likes. */
export type ScriptedAnswer = (response: ServerResponse, request: IncomingMessage) => void;

type CallKind = "list" | "watch" | "other";

interface RecordedCall {
  readonly kind: CallKind;
  readonly query: URLSearchParams;
  readonly authorization: string | undefined;
}

interface LogEntry {
  readonly version: number;
  readonly line: string;
}

export interface ScriptedApiServer {
  readonly url: string;
  readonly calls: readonly RecordedCall[];
  callsOf(kind: CallKind): readonly RecordedCall[];
  /** Creates or replaces an object and tells the live watches. */
  put(name: string, fields?: Record<string, unknown>): void;
  /** Stores many objects at once, without events. */
  fill(count: number, fields: (index: number) => Record<string, unknown>): void;
  remove(name: string): void;
  objects(): ReadonlyMap<string, StoredObject>;
  version(): string;
  /** Forgets the past: watches from before and continue tokens answer 410 from now on. */
  compact(): void;
  /** The answer of a server without faults, to be queued between scripted ones. */
  readonly proper: ScriptedAnswer;
  /** Queues an answer for the next call of this kind. */
  next(kind: CallKind, ...answers: ScriptedAnswer[]): void;
  /** Drops the queued answers that were not used. */
  forgetFaults(): void;
  /** Answers every call like this until undefined is given. */
  always(answer: ScriptedAnswer | undefined): void;
  liveWatches(): number;
  maxLiveWatches(): number;
  /** Ends all live watches: cleanly, or with a reset. */
  endWatches(): void;
  resetWatches(): void;
  /** Live watches hear no more of anything, but stay open. */
  muteWatches(): void;
  /** Writes to every live watch. */
  write(bytes: string | Buffer): void;
  /** Bytes that were written to watches and that no socket has taken yet. */
  backlog(): number;
  bookmark(): void;
  /** Closes the port and all connections; `start` opens the same port again. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** The body of a refusal as an API server writes it. */
export function statusObject(code: number, fields: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    message: `scripted ${code}`,
    ...fields,
  };
}

/** An answer with a status and, unless given, a Status object. */
export function refuse(
  code: number,
  headers: Record<string, string> = {},
  body: unknown = statusObject(code),
): ScriptedAnswer {
  return (response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
}

/** Headers of a watch, then whatever `write` does. */
export function openWatch(write: (response: ServerResponse) => void): ScriptedAnswer {
  return (response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    write(response);
  };
}

/** No answer at all, with the connection kept. */
export const silence: ScriptedAnswer = () => {};

/** The connection is reset before any answer. */
export const reset: ScriptedAnswer = (response) => {
  (response.socket as Socket | null)?.resetAndDestroy();
};

/** Starts a server of one kind, `Stage`, in one namespace. */
export async function startScriptedApiServer(): Promise<ScriptedApiServer> {
  const stored = new Map<string, StoredObject>();
  const log: LogEntry[] = [];
  const calls: RecordedCall[] = [];
  const queued: Record<CallKind, ScriptedAnswer[]> = { list: [], watch: [], other: [] };
  const watches = new Set<ServerResponse>();
  const muted = new WeakSet<ServerResponse>();
  const sockets = new Set<Socket>();
  // Pages of one list show one state, whatever happens between them.
  const snapshots = new Map<number, readonly StoredObject[]>();
  let standing: ScriptedAnswer | undefined;
  let version = 100;
  let oldest = 100;
  let most = 0;
  let port = 0;
  let server: Server;

  function tell(type: string, object: unknown): void {
    const line = `${JSON.stringify({ type, object })}\n`;
    log.push({ version, line });
    for (const watch of watches) if (!muted.has(watch) && !watch.writableEnded) watch.write(line);
  }

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const kind: CallKind =
      request.method !== "GET" ? "other" : url.searchParams.get("watch") === "true" ? "watch" : "list";
    calls.push({ kind, query: url.searchParams, authorization: request.headers.authorization });
    const scripted = queued[kind].shift() ?? standing ?? proper;
    scripted(response, request);
  }

  function proper(response: ServerResponse, request: IncomingMessage): void {
    const { searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
    if (request.method !== "GET") refuse(404)(response, request);
    else if (searchParams.get("watch") === "true") watch(searchParams, response);
    else list(searchParams, response);
  }

  function list(query: URLSearchParams, response: ServerResponse): void {
    const limit = Number(query.get("limit") ?? 0) || Number.POSITIVE_INFINITY;
    const [at, from] = (query.get("continue") ?? `${version}:0`).split(":").map(Number) as [number, number];
    if (at < oldest) {
      refuse(410, {}, statusObject(410, { reason: "Expired" }))(response, undefined as never);
      return;
    }
    const all = (from === 0 ? undefined : snapshots.get(at)) ?? [...stored.values()];
    const items = all.slice(from, from + limit);
    const next = from + items.length < all.length ? `${at}:${from + items.length}` : "";
    if (from === 0 && next !== "") snapshots.set(at, all);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(
      JSON.stringify({ kind: "StageList", metadata: { resourceVersion: String(at), continue: next }, items }),
    );
  }

  function watch(query: URLSearchParams, response: ServerResponse): void {
    const since = Number(query.get("resourceVersion"));
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    if (since < oldest) {
      response.end(
        `${JSON.stringify({ type: "ERROR", object: statusObject(410, { reason: "Expired" }) })}\n`,
      );
      return;
    }
    for (const entry of log) if (entry.version > since) response.write(entry.line);
    watches.add(response);
    most = Math.max(most, watches.size);
    response.on("close", () => watches.delete(response));
  }

  function start(): Promise<void> {
    server = createServer(answer);
    server.on("connection", (socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      socket.on("error", () => {});
    });
    return new Promise((resolve) => {
      server.listen(port, "127.0.0.1", () => {
        port = (server.address() as AddressInfo).port;
        resolve();
      });
    });
  }

  function make(name: string, fields: Record<string, unknown>): StoredObject {
    version += 1;
    const metadata = { namespace: "harbour", name, resourceVersion: String(version) };
    return { kind: "Stage", metadata, ...fields };
  }

  await start();
  return {
    get url() {
      return `http://127.0.0.1:${port}`;
    },
    calls,
    callsOf: (kind) => calls.filter((call) => call.kind === kind),
    put(name, fields = {}) {
      const type = stored.has(name) ? "MODIFIED" : "ADDED";
      const object = make(name, fields);
      stored.set(name, object);
      tell(type, object);
    },
    fill(count, fields) {
      for (let index = 0; index < count; index += 1) {
        stored.set(`filled-${index}`, make(`filled-${index}`, fields(index)));
      }
    },
    remove(name) {
      const object = stored.get(name);
      if (object === undefined) return;
      stored.delete(name);
      version += 1;
      tell("DELETED", { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } });
    },
    objects: () => stored,
    version: () => String(version),
    compact() {
      version += 1;
      oldest = version;
      log.length = 0;
    },
    proper,
    next: (kind, ...answers) => {
      queued[kind].push(...answers);
    },
    forgetFaults() {
      for (const answers of Object.values(queued)) answers.length = 0;
    },
    always: (scripted) => {
      standing = scripted;
    },
    liveWatches: () => watches.size,
    maxLiveWatches: () => most,
    endWatches() {
      for (const response of watches) response.end();
    },
    resetWatches() {
      for (const response of watches) response.socket?.resetAndDestroy();
    },
    muteWatches() {
      for (const response of watches) muted.add(response);
    },
    write(bytes) {
      for (const response of watches) response.write(bytes);
    },
    backlog() {
      let bytes = 0;
      for (const response of watches) bytes += response.writableLength;
      return bytes;
    },
    bookmark() {
      version += 1;
      tell("BOOKMARK", { kind: "Stage", metadata: { resourceVersion: String(version) } });
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => {
        server.close(() => resolve());
      });
    },
    start,
  };
}
