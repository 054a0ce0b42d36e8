/**
 * The harness's own way to the API server: one HTTPS call, one answer, a new
 * connection each time. It stays apart from the product's transport so that a
 * fault there cannot hide itself in the set-up of the tests.
 */
import { request as httpsRequest } from "node:https";

interface ApiRequest {
  /** Defaults to GET, or to POST when there is a body. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Sent as it is when it is a string, else as JSON. */
  readonly body?: unknown;
  /** Defaults to application/json, for PATCH to application/merge-patch+json. */
  readonly contentType?: string;
  /** Defaults to 15 seconds. */
  readonly timeoutMs?: number;
}

/** A Kubernetes object as far as the harness cares. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly generation?: number;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** The API server answered, and the answer was no. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;

  constructor(status: number, what: string, body: string) {
    super(`${what} was answered with ${status}: ${body.slice(0, 1000)}`);
    this.status = status;
  }
}

/**
 * Calls a path such as `/api/v1/namespaces` and resolves to the parsed answer.
 * @throws {ApiError} for a status outside 2xx; other errors are the network's.
 */
export type ApiClient = <T = KubernetesObject>(path: string, request?: ApiRequest) => Promise<T>;

/** Binds a client to one server, one authority (PEM) and one bearer token. */
export function createApiClient(server: string, ca: string, token: string): ApiClient {
  return async <T>(path: string, request: ApiRequest = {}): Promise<T> => {
    const method = request.method ?? (request.body === undefined ? "GET" : "POST");
    const contentType =
      request.contentType ?? (method === "PATCH" ? "application/merge-patch+json" : "application/json");
    const payload =
      request.body === undefined || typeof request.body === "string"
        ? request.body
        : JSON.stringify(request.body);

    const { status, body } = await new Promise<{ status: number; body: string }>((resolve, reject) => {
      const call = httpsRequest(
        new URL(path, server),
        {
          method,
          ca,
          agent: false, // no pooled socket may survive a restart of the server
          signal: AbortSignal.timeout(request.timeoutMs ?? 15_000),
          headers: {
            accept: "application/json",
            authorization: `Bearer ${token}`,
            ...(payload === undefined ? {} : { "content-type": contentType }),
          },
        },
        (answer) => {
          let text = "";
          answer.setEncoding("utf8");
          answer.on("data", (part: string) => {
            text += part;
          });
          answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body: text }));
          answer.on("error", reject);
        },
      );
      call.on("error", reject);
      call.end(payload);
    });
    if (status < 200 || status > 299) throw new ApiError(status, `${method} ${path}`, body);
    // The health endpoints answer in plain text.
    return (body.startsWith("{") ? JSON.parse(body) : body) as T;
  };
}
