import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { ApiError, badRequest, NoSuchPath } from "./api-status.ts";
import { describeOpenApi, discover, VERSION } from "./discovery.ts";
import type { RequestFaults } from "./faults.ts";
import { isRecord } from "./objects.ts";
import { decodeProtobuf, PROTOBUF } from "./protobuf-body.ts";
import { handleResource, internalError, type ResourceContext } from "./resource-handler.ts";
import type { WatchHub, WatchRequest } from "./watch-hub.ts";

/** What a real API server takes in one body. */
const MAX_BODY_BYTES = 3 * 1024 * 1024;
/** Watches without a timeout end by themselves after a while, as real ones do. */
const WATCH_SECONDS = 30 * 60;

export interface ServerContext extends ResourceContext {
  readonly hub: WatchHub;
  readonly faults: RequestFaults;
  readonly log: (message: string) => void;
}

/** The HTTP side: connections, bodies, answers. It listens on loopback and nowhere else. */
export class SandboxServer {
  readonly #server: Server;
  readonly #context: ServerContext;
  readonly #sockets = new Set<Socket>();
  #isOut = false;

  constructor(context: ServerContext) {
    this.#context = context;
    this.#server = createServer((request, response) => {
      this.#handle(request, response).catch((error: unknown) => {
        context.log(`sandbox: ${request.method} ${request.url}: ${String(error)}`);
        response.destroy();
      });
    });
    // Longer than clients keep idle connections, as real API servers do: Node's five seconds would break
    // writes that are sent at just that moment, and a client must not repeat those by itself.
    this.#server.keepAliveTimeout = 120_000;
    this.#server.on("connection", (socket) => {
      if (this.#isOut) {
        socket.destroy();
        return;
      }
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  /** @returns the port. @throws Error when the port is taken. */
  listen(port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host: "127.0.0.1", port }, () => {
        const address = this.#server.address();
        resolve(typeof address === "object" && address !== null ? address.port : port);
      });
    });
  }

  outage(on: boolean): void {
    this.#isOut = on;
    if (on) for (const socket of this.#sockets) socket.destroy();
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const path = url.pathname.length > 1 ? url.pathname.replace(/\/+$/, "") : url.pathname;
    const query = url.searchParams;
    const method = request.method ?? "GET";
    const isWatch = query.get("watch") === "true" || query.get("watch") === "1";
    const fault = this.#context.faults.take({ method, path, query, isWatch });
    try {
      checkCaller(request);
      if (fault?.kind === "respond") throw refusal(fault.status, fault.retryAfterSeconds);
      const contentType = (request.headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
      const body = parseBody(contentType, await readBody(request));
      const fixed = answerFixed(method, path, body);
      if (fixed !== undefined) {
        send(response, fixed.status, fixed.text, fixed.type);
        return;
      }
      const accept = request.headers.accept ?? "";
      const answer = handleResource({ method, path, query, accept, contentType, body }, this.#context);
      if (fault?.kind === "lose") request.socket.destroy();
      else if ("watch" in answer) this.#stream(response, answer.watch, answer.timeoutSeconds);
      else send(response, answer.status, answer.text);
    } catch (error) {
      this.#refuse(request, response, error);
    }
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (error instanceof NoSuchPath) {
      send(response, 404, "404 page not found\n", "text/plain; charset=utf-8");
      return;
    }
    if (!(error instanceof ApiError)) {
      this.#context.log(`sandbox: ${request.method} ${request.url}: ${String(error)}`);
    }
    const { status } = error instanceof ApiError ? error : internalError(error);
    const retryAfter = status.details?.retryAfterSeconds;
    if (retryAfter !== undefined) response.setHeader("Retry-After", String(retryAfter));
    // A body that was not read to its end leaves the connection unusable.
    if (!request.complete) response.setHeader("Connection", "close");
    send(response, status.code ?? 500, JSON.stringify(status));
  }

  #stream(response: ServerResponse, watch: WatchRequest, timeoutSeconds = WATCH_SECONDS): void {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.flushHeaders();
    const opened = this.#context.hub.open(watch, {
      write: (frame) => response.write(frame),
      onDrain: (resume) => response.once("drain", resume),
      end: () => response.end(),
      destroy: () => response.destroy(),
    });
    const timer = setTimeout(() => opened.finish(), timeoutSeconds * 1000);
    timer.unref();
    response.on("close", () => {
      clearTimeout(timer);
      opened.forget();
    });
  }
}

/**
 * There is no authentication, so nothing but a program on this machine may get in: a web page that a browser
 * shows has an Origin, and one that rebinds its name to loopback has a foreign Host.
 */
function checkCaller(request: IncomingMessage): void {
  const host = (request.headers.host ?? "").replace(/:\d+$/, "");
  const isLoopback = host === "localhost" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
  if (isLoopback && request.headers.origin === undefined) return;
  throw new ApiError(403, "Forbidden", "the sandbox cluster answers programs on this machine only");
}

function refusal(status: number, retryAfterSeconds: number | undefined): ApiError {
  const reasons: Readonly<Record<number, [string, string]>> = {
    429: ["TooManyRequests", "the server has received too many requests and has asked us to try again later"],
    503: ["ServiceUnavailable", "the server is currently unable to handle the request"],
    504: ["Timeout", "the server was unable to return a response in the time allotted"],
  };
  const [reason, message] = reasons[status] ?? ["InternalError", "Internal error occurred"];
  const details = retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } };
  return new ApiError(status, reason, message, details);
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) {
      throw new ApiError(
        413,
        "RequestEntityTooLarge",
        `Request entity too large: limit is ${MAX_BODY_BYTES}`,
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function parseBody(contentType: string, body: Buffer): unknown {
  if (body.length === 0) return undefined;
  if (contentType === PROTOBUF) return decodeProtobuf(body);
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw badRequest(`the body of the request is not JSON: ${String(error)}`);
  }
}

interface FixedAnswer {
  readonly status: number;
  readonly text: string;
  readonly type?: string;
}

/** Paths that are no resources: health, version, discovery, access reviews. */
function answerFixed(method: string, path: string, body: unknown): FixedAnswer | undefined {
  if (method === "GET" && ["/healthz", "/readyz", "/livez"].includes(path)) {
    return { status: 200, text: "ok", type: "text/plain" };
  }
  if (method === "GET" && path === "/version") return { status: 200, text: JSON.stringify(VERSION) };
  if (path.startsWith("/openapi")) {
    const document = describeOpenApi(path);
    if (document === undefined) throw new NoSuchPath();
    return { status: 200, text: JSON.stringify(document) };
  }
  if (method === "POST" && path === "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") {
    const review = isRecord(body) ? body : {};
    return { status: 201, text: JSON.stringify({ ...review, status: { allowed: true } }) };
  }
  const discovered = method === "GET" ? discover(path) : undefined;
  return discovered === undefined ? undefined : { status: 200, text: JSON.stringify(discovered) };
}

function send(response: ServerResponse, status: number, text: string, type = "application/json"): void {
  response.writeHead(status, { "Content-Type": type, "Content-Length": Buffer.byteLength(text) });
  response.end(text);
}
