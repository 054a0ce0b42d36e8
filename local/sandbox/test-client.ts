import type { Readable } from "node:stream";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesResponse } from "../../shared/cluster/transport.ts";
import { isRecord, readPath } from "./objects.ts";

/** What tests send and look at; not for anything else. */
export interface TestClient {
  call(
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    body?: unknown,
    contentType?: string,
  ): Promise<KubernetesResponse>;
  watch(path: string): Promise<WatchReader>;
  close(): void;
}

export interface WatchEvent {
  readonly type: string;
  readonly object: Record<string, unknown>;
}

export interface WatchReader {
  readonly status: number;
  /** The next event; `undefined` when the stream has ended or broken. */
  next(): Promise<WatchEvent | undefined>;
  close(): void;
}

/** A client of the sandbox at `url`. `path` may carry a query. */
export function createTestClient(url: string): TestClient {
  const transport = createTransport({ server: url });
  const split = (path: string): { path: string; query: Record<string, string> } => {
    const at = path.indexOf("?");
    if (at < 0) return { path, query: {} };
    return { path: path.slice(0, at), query: Object.fromEntries(new URLSearchParams(path.slice(at))) };
  };
  return {
    call: (method, path, body, contentType) =>
      transport.request({
        method,
        ...split(path),
        ...(body === undefined ? {} : { body }),
        ...(contentType === undefined ? {} : { contentType }),
      }),
    watch: async (path) => {
      const stream = await transport.stream({ method: "GET", ...split(path) });
      const events = readEvents(stream.body);
      return {
        status: stream.status,
        next: async () => {
          const result = await events.next().catch(() => ({ done: true as const, value: undefined }));
          return result.done ? undefined : result.value;
        },
        close: () => void stream.body.destroy(),
      };
    },
    close: () => transport.close(),
  };
}

async function* readEvents(body: Readable): AsyncGenerator<WatchEvent, undefined> {
  let rest = "";
  body.setEncoding("utf8");
  for await (const chunk of body as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line) as WatchEvent;
  }
  return undefined;
}

/** `metadata.FIELD` of a body or an event's object, as text. */
export function metaOf(object: unknown, field: string): string {
  return String(readPath(object, ["metadata", field]) ?? "");
}

export function itemsOf(body: unknown): readonly Record<string, unknown>[] {
  const items = readPath(body, ["items"]);
  return Array.isArray(items) ? items.filter(isRecord) : [];
}

export const STAGES = "/apis/kargo.akuity.io/v1alpha1/namespaces/default/stages";
export const RUNS = "/apis/argoproj.io/v1alpha1/namespaces/default/analysisruns";
export const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";

export function makeStage(name: string, metadata: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    apiVersion: "kargo.akuity.io/v1alpha1",
    kind: "Stage",
    metadata: { name, ...metadata },
    spec: { requestedFreight: [{ origin: { kind: "Warehouse", name: "base" }, sources: { direct: true } }] },
  };
}

export function makeRun(name: string, metrics: readonly unknown[] = []): Record<string, unknown> {
  return {
    apiVersion: "argoproj.io/v1alpha1",
    kind: "AnalysisRun",
    metadata: { name },
    spec: { metrics },
  };
}

export function makeConfigMap(name: string, metadata: Record<string, unknown> = {}): Record<string, unknown> {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...metadata } };
}
