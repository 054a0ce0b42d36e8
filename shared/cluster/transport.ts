import type { Readable } from "node:stream";

/** One call to a Kubernetes API server. `path` starts with `/` and is already percent-encoded. */
export interface KubernetesRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default `application/json`; for PATCH `application/merge-patch+json`. */
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  /** Milliseconds without an answer (for a stream: without response headers). Default 10,000. */
  readonly timeoutMs?: number;
}

/** The answer, whatever its status; 4xx and 5xx are answers, not exceptions. */
export interface KubernetesResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Parsed JSON; `undefined` when the body is empty; the text itself when it is not JSON. */
  readonly body: unknown;
}

/** A response whose body is read as it comes; the reader destroys it when done. */
export interface KubernetesStream {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Readable;
}

/**
 * The way to an API server: the one thing that knows addresses, TLS and credentials.
 * Both verbs throw a `Transient` fault when no answer came (refused, reset, timed out, TLS failure).
 */
export interface KubernetesTransport {
  request(request: KubernetesRequest): Promise<KubernetesResponse>;
  stream(request: KubernetesRequest): Promise<KubernetesStream>;
  /** Closes idle connections. */
  close(): void;
}

/** Where an API server is and how to prove who we are; read anew for each connection so that it may rotate. */
export interface ClusterAccess {
  /** For example `https://127.0.0.1:6443`. `http:` is taken for loopback addresses only. */
  readonly server: string;
  /** PEM. */
  readonly ca?: string;
  /** PEM pair, for client certificates. */
  readonly clientCertificate?: { readonly cert: string; readonly key: string };
  readonly insecureSkipTlsVerify?: boolean;
  /** Bearer token; called before every request and expected to cache. `refresh` is true after a 401. */
  readonly token?: (refresh: boolean) => Promise<string | undefined>;
  /** The name to expect in the server certificate when it is not the address, as through a tunnel. */
  readonly tlsServerName?: string;
}
