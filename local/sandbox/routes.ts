import { NoSuchPath, notFound } from "./api-status.ts";
import { findResource, type ResourceKind } from "./resources.ts";

/** What a resource path means. */
export interface Route {
  readonly resource: ResourceKind;
  /** Empty: cluster-scoped, or all namespaces. */
  readonly namespace: string;
  /** `undefined`: the collection. */
  readonly name: string | undefined;
  readonly subresource: "status" | undefined;
}

/**
 * Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`. `path` is still percent-encoded.
 *
 * @throws ApiError 404 for what is not served, `/status` of a kind without it included.
 */
export function parseRoute(path: string): Route {
  const parts = path.split("/").slice(1).map(decode);
  const isCore = parts[0] === "api";
  if (!isCore && parts[0] !== "apis") throw new NoSuchPath();
  const [group, version, rest] = isCore
    ? ["", parts[1] ?? "", parts.slice(2)]
    : [parts[1] ?? "", parts[2] ?? "", parts.slice(3)];

  const scoped = rest[0] === "namespaces" && rest.length > 2 && rest[2] !== "status";
  const [namespace, [plural = "", name, subresource, ...more]] = scoped
    ? [rest[1] ?? "", rest.slice(2)]
    : ["", rest];
  const resource = findResource(group, version, plural);
  if (resource === undefined || more.length > 0) throw new NoSuchPath();
  if (scoped !== resource.namespaced && (scoped || name !== undefined)) throw new NoSuchPath();
  if (subresource !== undefined && (subresource !== "status" || !resource.statusSubresource)) {
    throw notFound(resource, name ?? "");
  }
  return { resource, namespace, name: name === "" ? undefined : name, subresource: subresource && "status" };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new NoSuchPath();
  }
}
