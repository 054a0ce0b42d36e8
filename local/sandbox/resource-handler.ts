import {
  ApiError,
  badRequest,
  methodNotAllowed,
  NoSuchPath,
  tooOld,
  unsupportedMediaType,
} from "./api-status.ts";
import { createFilter, list, type Page, readResourceVersion } from "./listing.ts";
import type { ObjectStore } from "./object-store.ts";
import { type StoredObject, serialise } from "./objects.ts";
import { type Operations, readDeleteOptions } from "./operations.ts";
import { choosePatch } from "./patches.ts";
import { PROTOBUF } from "./protobuf-body.ts";
import { formatApiVersion, type ResourceKind } from "./resources.ts";
import { parseRoute, type Route } from "./routes.ts";
import { formatTable, type IncludeObject } from "./tables.ts";
import type { WatchRequest } from "./watch-hub.ts";

/** A request on a resource, its body read and parsed. */
export interface ResourceRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly accept: string;
  /** Without parameters, lower case. */
  readonly contentType: string;
  readonly body: unknown;
}

/** A finished answer, or a watch to be opened. */
export type ResourceAnswer =
  | { readonly status: number; readonly text: string }
  | { readonly watch: WatchRequest; readonly timeoutSeconds: number | undefined };

export interface ResourceContext {
  readonly store: ObjectStore;
  readonly operations: Operations;
  readonly now: () => Date;
  readonly isGoneAnHttpStatus: () => boolean;
}

/** Carries out one verb on one path. @throws ApiError */
export function handleResource(request: ResourceRequest, context: ResourceContext): ResourceAnswer {
  const route = parseRoute(request.path);
  if (route.name === undefined) return handleCollection(request, route, context);
  return handleObject(request, { ...route, name: route.name }, context);
}

function handleCollection(request: ResourceRequest, route: Route, context: ResourceContext): ResourceAnswer {
  const { resource, namespace } = route;
  const { query } = request;
  const listRequest = { resource, namespace, query };
  switch (request.method) {
    case "GET":
      if (isTrue(query.get("watch"))) return openWatch(request, route, context);
      return { status: 200, text: formatList(request, resource, list(context.store, listRequest), context) };
    case "POST": {
      if (resource.namespaced && namespace === "") throw new NoSuchPath();
      checkJson(request);
      const made = context.operations.create({ resource, namespace }, request.body, readWriteOptions(query));
      return { status: 201, text: formatObject(request, resource, made, context) };
    }
    case "DELETE": {
      const options = readDeleteOptions(request.body, query);
      const items = context.operations.deleteCollection(listRequest, options);
      const page = { items, resourceVersion: context.store.resourceVersion };
      return { status: 200, text: formatList(request, resource, page, context) };
    }
    case "PUT":
    case "PATCH":
      throw badRequest("name must be provided");
    default:
      throw methodNotAllowed();
  }
}

function handleObject(
  request: ResourceRequest,
  target: Route & { readonly name: string },
  context: ResourceContext,
): ResourceAnswer {
  const { operations } = context;
  const { resource, subresource } = target;
  const answer = (object: StoredObject): ResourceAnswer => ({
    status: 200,
    text: formatObject(request, resource, object, context),
  });
  switch (request.method) {
    case "GET":
      if (isTrue(request.query.get("watch"))) return openWatch(request, target, context);
      return answer(operations.get(target));
    case "PUT":
      checkJson(request);
      return answer(
        operations.update(target, subresource, { body: request.body }, readWriteOptions(request.query)),
      );
    case "PATCH": {
      const patch = choosePatch(resource, request.contentType);
      const change = (current: StoredObject): unknown => patch(current, request.body);
      return answer(operations.update(target, subresource, change, readWriteOptions(request.query)));
    }
    case "DELETE": {
      if (subresource !== undefined) throw methodNotAllowed();
      const result = operations.delete(target, readDeleteOptions(request.body, request.query));
      return { status: 200, text: JSON.stringify(result) };
    }
    default:
      throw methodNotAllowed();
  }
}

function openWatch(request: ResourceRequest, route: Route, context: ResourceContext): ResourceAnswer {
  const { resource, namespace, name } = route;
  const query = new URLSearchParams(request.query);
  // The old form of a watch on one object.
  if (name !== undefined) query.set("fieldSelector", `metadata.name=${name}`);
  const given = readResourceVersion(query);
  const from = given === 0 ? undefined : given;
  const initial = isTrue(query.get("sendInitialEvents"));
  if (context.isGoneAnHttpStatus() && from !== undefined && !context.store.log.reaches(from)) {
    throw tooOld(from, context.store.log.compactedAt);
  }
  const timeout = Number(query.get("timeoutSeconds") ?? "0");
  return {
    timeoutSeconds: Number.isFinite(timeout) && timeout > 0 ? timeout : undefined,
    watch: {
      resource,
      matches: createFilter({ resource, namespace, query }),
      from: initial ? undefined : from,
      bookmarks: isTrue(query.get("allowWatchBookmarks")),
      markInitialEnd: initial && isTrue(query.get("allowWatchBookmarks")),
      format: (object, isFirst) =>
        isTable(request)
          ? formatTable(resource, [object], {
              include: readInclude(query),
              metadata: { resourceVersion: object.metadata.resourceVersion },
              withColumns: isFirst,
              now: context.now(),
            })
          : serialise(object),
    },
  };
}

function formatObject(
  request: ResourceRequest,
  resource: ResourceKind,
  object: StoredObject,
  context: ResourceContext,
): string {
  if (!isTable(request)) return serialise(object);
  return formatTable(resource, [object], {
    include: readInclude(request.query),
    metadata: { resourceVersion: object.metadata.resourceVersion },
    withColumns: true,
    now: context.now(),
  });
}

function formatList(
  request: ResourceRequest,
  resource: ResourceKind,
  page: Page,
  context: ResourceContext,
): string {
  const metadata = {
    resourceVersion: String(page.resourceVersion),
    ...(page.continue === undefined ? {} : { continue: page.continue }),
    ...(page.remaining === undefined ? {} : { remainingItemCount: page.remaining }),
  };
  if (isTable(request)) {
    return formatTable(resource, page.items, {
      include: readInclude(request.query),
      metadata,
      withColumns: true,
      now: context.now(),
    });
  }
  const kind = `${resource.kind}List`;
  const items = page.items.map(serialise).join(",");
  return `{"kind":"${kind}","apiVersion":"${formatApiVersion(resource)}","metadata":${JSON.stringify(metadata)},"items":[${items}]}`;
}

/** Clients list what they take in order of preference; kubectl asks for a Table first. */
function isTable(request: ResourceRequest): boolean {
  for (const clause of request.accept.split(",")) {
    const parts = clause.split(";").map((part) => part.trim());
    if (parts[0] !== "application/json" && parts[0] !== "*/*") continue;
    const as = parts.find((part) => part.startsWith("as="));
    if (as === undefined) return false;
    if (as === "as=Table" && parts.includes("g=meta.k8s.io") && parts.includes("v=v1")) return true;
  }
  return false;
}

function readInclude(query: URLSearchParams): IncludeObject {
  const text = query.get("includeObject");
  return text === "None" || text === "Object" ? text : "Metadata";
}

function readWriteOptions(query: URLSearchParams): { readonly dryRun: boolean } {
  const dryRun = query.getAll("dryRun");
  if (dryRun.some((value) => value !== "All")) throw badRequest("dryRun: Unsupported value: supported: All");
  return { dryRun: dryRun.length > 0 };
}

function checkJson(request: ResourceRequest): void {
  const { contentType } = request;
  if (["", "application/json", PROTOBUF].includes(contentType)) return;
  throw unsupportedMediaType(contentType, ["application/json", PROTOBUF]);
}

function isTrue(text: string | null): boolean {
  return text === "true" || text === "1";
}

/** 500 for what nobody expected, in the form that clients can read. */
export function internalError(error: unknown): ApiError {
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(500, "InternalError", `Internal error occurred: ${message}`, {
    details: { causes: [{ message }] },
  });
}
