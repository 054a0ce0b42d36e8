import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { Fault } from "../../shared/domain/fault.ts";
import { refusalOf } from "./refusal.ts";

export interface ListOptions {
  readonly transport: KubernetesTransport;
  readonly path: string;
  readonly labelSelector?: string | undefined;
  readonly pageSize: number;
  readonly signal: AbortSignal;
  /** Milliseconds without a byte of the answer. */
  readonly timeoutMs: number;
  readonly now: () => number;
}

export interface ListPage {
  readonly items: readonly unknown[];
  /** From where to watch; the same for all pages of one list. */
  readonly resourceVersion: string;
}

/**
 * Lists page by page; a page can be let go before the next is asked for.
 *
 * @throws {Refusal} when the server says no; `expired` when the continue token is too old.
 * @throws {Fault} `Transient` when no answer came, or one that is not a list. An answer that is merely not
 *   understood must never look like an empty list: everything would seem to be deleted.
 */
export async function* listPages(options: ListOptions): AsyncGenerator<ListPage> {
  const { transport, path, labelSelector, pageSize, signal, timeoutMs } = options;
  const what = `GET ${path}`;
  let token = "";
  let resourceVersion: string | undefined;
  do {
    const query = {
      limit: String(pageSize),
      ...(labelSelector === undefined ? {} : { labelSelector }),
      ...(token === "" ? {} : { continue: token }),
    };
    const { status, headers, body } = await transport.request({
      method: "GET",
      path,
      query,
      signal,
      timeoutMs,
    });
    if (status !== 200) {
      throw refusalOf(what, { status, body, retryAfter: headers["retry-after"] }, options.now());
    }
    const page = parsePage(body, what);
    // The first page's version: should the server answer later pages from a newer state, then the watch repeats
    // a little, and nothing falls between list and watch.
    resourceVersion ??= page.resourceVersion;
    if (page.token !== "" && page.token === token) {
      throw new Fault("Transient", `${what}: the list does not end, its continue token stays the same`);
    }
    token = page.token;
    yield { items: page.items, resourceVersion };
  } while (token !== "");
}

function parsePage(
  body: unknown,
  what: string,
): { items: readonly unknown[]; resourceVersion: string; token: string } {
  const list = body as {
    kind?: unknown;
    items?: unknown;
    metadata?: { resourceVersion?: unknown; continue?: unknown };
  } | null;
  // An empty Go slice may be written as null; only an answer that calls itself a list gets away with it.
  const isEmpty = list?.items === null && typeof list.kind === "string" && list.kind.endsWith("List");
  const items = isEmpty ? [] : list?.items;
  const resourceVersion = list?.metadata?.resourceVersion;
  const token = list?.metadata?.continue ?? "";
  if (!Array.isArray(items) || typeof resourceVersion !== "string" || resourceVersion === "") {
    throw new Fault("Transient", `${what}: the answer is not a list with a resourceVersion`);
  }
  if (typeof token !== "string") throw new Fault("Transient", `${what}: the continue token is not a string`);
  return { items, resourceVersion, token };
}
