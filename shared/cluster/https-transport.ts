import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from "node:https";
import { isIP } from "node:net";
import { Fault, isFault } from "../domain/fault.ts";
import { readBody } from "./response-body.ts";
import type {
  ClusterAccess,
  KubernetesRequest,
  KubernetesResponse,
  KubernetesStream,
  KubernetesTransport,
} from "./transport.ts";

export interface TransportOptions {
  /** Connections kept for `request`; each stream has a connection of its own beside them. Default 16. */
  readonly maxSockets?: number;
  /** Largest body that `request` takes, in bytes after decompression. Default 64 MiB. */
  readonly maxBodyBytes?: number;
}

const DEFAULT_TIMEOUT_MS = 10_000;
// API servers keep idle connections for 90 s or longer; let go first.
const IDLE_SOCKET_MS = 60_000;
const TCP_KEEP_ALIVE_MS = 30_000;

/**
 * Creates the way to one API server over node:http(s) alone: a client library would make every Lambda bundle
 * several times larger and its cold start three times longer.
 *
 * @throws {Fault} `Invalid` when the server's address is not usable, or is `http:` and not a loopback address:
 *   a bearer token must not cross a network in the clear.
 */
export function createTransport(access: ClusterAccess, options: TransportOptions = {}): KubernetesTransport {
  const server = parseServer(access.server);
  const secure = server.protocol === "https:";
  const maxBodyBytes = options.maxBodyBytes ?? 64 * 1024 * 1024;
  const pooling = { keepAlive: true, maxSockets: options.maxSockets ?? 16, timeout: IDLE_SOCKET_MS };
  const pool = secure ? new HttpsAgent(pooling) : new HttpAgent(pooling);
  // A watch holds its connection for minutes, so it must not use up the pool; and after a break it must never
  // be given an old connection that only looks alive.
  const single = { keepAlive: false, maxSockets: Number.POSITIVE_INFINITY };
  const streams = secure ? new HttpsAgent(single) : new HttpAgent(single);

  /** Sends once and resolves with the response at its headers. */
  async function send(
    request: KubernetesRequest,
    refresh: boolean,
    streaming: boolean,
  ): Promise<IncomingMessage> {
    const what = describe(request);
    throwIfAborted(request, what);
    const token = await bearerToken(access, refresh, what);
    throwIfAborted(request, what);
    const payload = request.body === undefined ? undefined : JSON.stringify(request.body);
    const requestOptions: RequestOptions = {
      agent: streaming ? streams : pool,
      host: unbracket(server.hostname),
      port: server.port === "" ? (secure ? 443 : 80) : Number(server.port),
      method: request.method,
      path: target(server, request),
      headers: headersOf(request, payload, token, streaming),
      ...(secure ? tlsOptions(access) : {}),
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    };
    return new Promise((resolve, reject) => {
      const timeoutMs = request.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      const sent = secure ? httpsRequest(requestOptions) : httpRequest(requestOptions);
      const timer = setTimeout(() => sent.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      sent.once("socket", (socket) => socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS));
      sent.once("response", (response) => {
        clearTimeout(timer);
        resolve(response);
      });
      // `on`, not `once`: a connection may fail a second time while it is being torn down.
      sent.on("error", (error) => {
        clearTimeout(timer);
        if (request.method === "GET" && sent.reusedSocket && isReset(error) && !request.signal?.aborted) {
          // The server had closed this idle connection already: nothing was wrong with the request.
          send(request, false, streaming).then(resolve, reject);
          return;
        }
        reject(transient(what, request, error));
      });
      sent.end(payload);
    });
  }

  /** Sends, and once more with a fresh token when the first one is refused. */
  async function sendAuthorised(request: KubernetesRequest, streaming: boolean): Promise<IncomingMessage> {
    const response = await send(request, false, streaming);
    if (response.statusCode !== 401 || access.token === undefined) return response;
    response.on("error", () => {});
    response.resume();
    return send(request, true, streaming);
  }

  return {
    async request(request): Promise<KubernetesResponse> {
      const what = describe(request);
      const response = await sendAuthorised(request, false);
      const timeoutMs = request.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      try {
        const body = await readBody(response, { maxBytes: maxBodyBytes, timeoutMs });
        return { status: response.statusCode ?? 0, headers: flatten(response), body };
      } catch (error) {
        response.destroy();
        if (isFault(error)) throw new Fault(error.kind, `${what}: ${error.message}`, { cause: error });
        throw transient(what, request, error);
      }
    },
    async stream(request): Promise<KubernetesStream> {
      const response = await sendAuthorised(request, true);
      // It may break before its reader listens; the reader is told by the stream's own state.
      response.on("error", () => {});
      return { status: response.statusCode ?? 0, headers: flatten(response), body: response };
    },
    close(): void {
      // Only idle connections: whoever is still reading a stream ends it himself.
      for (const agent of [pool, streams]) {
        for (const sockets of Object.values(agent.freeSockets)) {
          for (const socket of sockets ?? []) socket.destroy();
        }
      }
    },
  };
}

function parseServer(text: string): URL {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw new Fault("Invalid", `the API server's address must be an https: URL, not ${JSON.stringify(text)}`);
  }
  if (url.protocol === "http:" && !isLoopback(unbracket(url.hostname))) {
    throw new Fault(
      "Invalid",
      `the API server's address ${url.origin} is http:, which is taken for loopback addresses only: use https:`,
    );
  }
  return url;
}

function isLoopback(host: string): boolean {
  if (isIP(host) === 4) return host.startsWith("127.");
  return host === "::1" || host === "localhost";
}

/** URL keeps the brackets of an IPv6 address, sockets do not want them. */
function unbracket(hostname: string): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}

function describe(request: KubernetesRequest): string {
  return `${request.method} ${request.path}`;
}

/** The request's path below the server's own, which proxies in front of several clusters use. */
function target(server: URL, request: KubernetesRequest): string {
  const path = server.pathname.replace(/\/+$/, "") + request.path;
  const query = new URLSearchParams(request.query).toString();
  if (query === "") return path;
  return path + (path.includes("?") ? "&" : "?") + query;
}

function headersOf(
  request: KubernetesRequest,
  payload: string | undefined,
  token: string | undefined,
  streaming: boolean,
): Record<string, string> {
  const headers: Record<string, string> = { accept: "application/json", "user-agent": "tallyman" };
  if (request.method === "GET" && !streaming) headers["accept-encoding"] = "gzip";
  if (token !== undefined) headers.authorization = `Bearer ${token}`;
  if (payload !== undefined) {
    const usual = request.method === "PATCH" ? "application/merge-patch+json" : "application/json";
    headers["content-type"] = request.contentType ?? usual;
    headers["content-length"] = String(Buffer.byteLength(payload));
  }
  return headers;
}

/** Read for every request, since the agent opens a new connection when certificates have changed. */
function tlsOptions(access: ClusterAccess): RequestOptions {
  const { ca, clientCertificate, tlsServerName } = access;
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(clientCertificate === undefined ? {} : { cert: clientCertificate.cert, key: clientCertificate.key }),
    ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
    rejectUnauthorized: access.insecureSkipTlsVerify !== true,
  };
}

async function bearerToken(
  access: ClusterAccess,
  refresh: boolean,
  what: string,
): Promise<string | undefined> {
  try {
    return await access.token?.(refresh);
  } catch (error) {
    if (isFault(error)) throw error;
    throw new Fault("Transient", `${what}: no token: ${reason(error)}`, { cause: error });
  }
}

function throwIfAborted(request: KubernetesRequest, what: string): void {
  if (request.signal?.aborted) throw transient(what, request, request.signal.reason);
}

function transient(what: string, request: KubernetesRequest, error: unknown): Fault {
  const why = request.signal?.aborted ? "aborted by the caller" : reason(error);
  return new Fault("Transient", `${what}: ${why}`, { cause: error });
}

function isReset(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ECONNRESET" || error.code === "EPIPE");
}

/** A connection to a name with several addresses fails with an AggregateError whose own message is empty. */
function reason(error: unknown): string {
  if (error instanceof AggregateError && error.message === "") return error.errors.map(reason).join(", ");
  return error instanceof Error ? error.message : String(error);
}

function flatten(response: IncomingMessage): Record<string, string | undefined> {
  const flat: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(response.headers)) {
    flat[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return flat;
}
