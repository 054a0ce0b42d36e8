import { applyPatch, type Operation } from "rfc6902";
import { badRequest, patchRejected, unsupportedMediaType } from "./api-status.ts";
import { isRecord } from "./objects.ts";
import type { ResourceKind } from "./resources.ts";

const MERGE = "application/merge-patch+json";
const STRATEGIC = "application/strategic-merge-patch+json";
const JSON_PATCH = "application/json-patch+json";

const OPERATIONS: readonly unknown[] = ["add", "remove", "replace", "move", "copy", "test"];

/** RFC 7386. Nothing given is changed; the answer may share parts with both. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [field, value] of Object.entries(patch)) {
    if (value === null) delete result[field];
    else defineField(result, field, mergePatch(result[field], value));
  }
  return result;
}

/** A plain assignment to `__proto__` would set the prototype; a patch is data from outside. */
function defineField(target: Record<string, unknown>, field: string, value: unknown): void {
  Object.defineProperty(target, field, { value, writable: true, enumerable: true, configurable: true });
}

/** RFC 6902, all or nothing. @throws ApiError 400 for what is no patch, 422 for one that does not apply. */
export function applyJsonPatch(target: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw badRequest("error decoding patch: it is not an array of operations");
  for (const operation of patch) {
    if (!isRecord(operation)) throw badRequest("error decoding patch: it holds what is no operation");
    if (!OPERATIONS.includes(operation.op) || typeof operation.path !== "string") throw patchRejected();
  }
  // rfc6902 changes its argument in place.
  const draft = structuredClone(target);
  for (const operation of patch as Operation[]) {
    const [error] = applyPatch(draft, [operation]);
    if (error !== null && error !== undefined) {
      throw patchRejected();
    }
  }
  return draft;
}

/**
 * The patch that a content type stands for. A strategic merge is treated as a merge for core kinds (they
 * differ only in lists with merge keys) and refused for custom resources, as a real API server does.
 *
 * @throws ApiError 415 for another content type.
 */
export function choosePatch(
  resource: ResourceKind,
  contentType: string,
): (target: unknown, patch: unknown) => unknown {
  if (contentType === JSON_PATCH) return applyJsonPatch;
  if (contentType === MERGE) return applyMerge;
  if (contentType === STRATEGIC && !resource.custom) return applyMerge;
  throw unsupportedMediaType(contentType, [JSON_PATCH, MERGE, ...(resource.custom ? [] : [STRATEGIC])]);
}

function applyMerge(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) throw badRequest("error decoding patch: it is not an object");
  return mergePatch(target, patch);
}
