import { badRequest, continueExpired, tooLarge, tooOld } from "./api-status.ts";
import type { ObjectStore } from "./object-store.ts";
import { isRecord, keyOf, type StoredObject } from "./objects.ts";
import type { ResourceKind } from "./resources.ts";
import { type Matches, parseFieldSelector, parseLabelSelector } from "./selectors.ts";

export interface ListRequest {
  readonly resource: ResourceKind;
  /** Empty: all namespaces. */
  readonly namespace: string;
  readonly query: URLSearchParams;
}

export interface Page {
  readonly items: readonly StoredObject[];
  readonly resourceVersion: number;
  readonly continue?: string;
  readonly remaining?: number;
}

interface ContinueToken {
  /** The snapshot; 0 goes on with the state of now, without consistency. */
  readonly v: number;
  /** The last key that was given out. */
  readonly k: string;
}

function encodeToken(token: ContinueToken): string {
  return Buffer.from(JSON.stringify(token)).toString("base64url");
}

function decodeToken(text: string): ContinueToken {
  try {
    const token: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    if (isRecord(token) && Number.isSafeInteger(token.v) && typeof token.k === "string") {
      return { v: Number(token.v), k: token.k };
    }
  } catch {
    // Falls through to the refusal below.
  }
  throw badRequest("continue key is not valid");
}

/** What namespace, labelSelector and fieldSelector let through. @throws ApiError 400. */
export function createFilter(request: ListRequest): Matches {
  const { resource, namespace, query } = request;
  const byLabel = parseLabelSelector(query.get("labelSelector") ?? "");
  const byField = parseFieldSelector(resource, query.get("fieldSelector") ?? "");
  return (object) =>
    (namespace === "" || object.metadata.namespace === namespace) && byLabel(object) && byField(object);
}

/** A resourceVersion as a client gives it; `undefined` when left out. @throws ApiError 400. */
export function readResourceVersion(query: URLSearchParams): number | undefined {
  const text = query.get("resourceVersion") ?? "";
  if (text === "") return undefined;
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || !Number.isSafeInteger(value)) {
    throw badRequest(`Invalid value: ${JSON.stringify(text)}: resourceVersion is not a decimal number`);
  }
  return value;
}

/**
 * One page of a list. All pages of a list show one moment: a continue token names the resourceVersion of the
 * first page, and the state of that moment is worked out from the event log.
 *
 * @throws ApiError 400, 410 (the event log no longer reaches the token's moment), 504 (a moment to come).
 */
export function list(store: ObjectStore, request: ListRequest): Page {
  const { query } = request;
  const matches = createFilter(request);
  const limit = readLimit(query.get("limit"));
  const text = query.get("continue") ?? "";
  const token = text === "" ? undefined : decodeToken(text);
  const moment = token === undefined ? readMoment(store, query) : momentOf(store, token);

  const after = token?.k;
  const matching = store
    .snapshot(request.resource, moment)
    .filter((object) => (after === undefined || keyOf(object) > after) && matches(object));
  const items = limit === undefined ? matching : matching.slice(0, limit);
  const last = items.at(-1);
  if (items.length === matching.length || last === undefined) return { items, resourceVersion: moment };
  return {
    items,
    resourceVersion: moment,
    continue: encodeToken({ v: moment, k: keyOf(last) }),
    // With a selector the real API server does not know how many are left, and says nothing.
    ...(query.get("labelSelector") || query.get("fieldSelector")
      ? {}
      : { remaining: matching.length - items.length }),
  };
}

function readLimit(text: string | null): number | undefined {
  if (text === null || text === "" || text === "0") return undefined;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) throw badRequest(`limit: Invalid value: ${text}`);
  return value;
}

function readMoment(store: ObjectStore, query: URLSearchParams): number {
  const wanted = readResourceVersion(query);
  if (wanted === undefined || wanted === 0) return store.resourceVersion;
  if (wanted > store.resourceVersion) throw tooLarge(wanted, store.resourceVersion);
  if (query.get("resourceVersionMatch") !== "Exact") return store.resourceVersion;
  if (!store.log.reaches(wanted)) throw tooOld(wanted, store.log.compactedAt);
  return wanted;
}

function momentOf(store: ObjectStore, token: ContinueToken): number {
  if (token.v === 0) return store.resourceVersion;
  if (token.v > store.resourceVersion) throw badRequest("continue key is not valid");
  if (!store.log.reaches(token.v)) throw continueExpired(encodeToken({ v: 0, k: token.k }));
  return token.v;
}
