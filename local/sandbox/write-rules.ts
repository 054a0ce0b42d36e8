import { isDeepStrictEqual } from "node:util";
import { ApiError, badRequest, conflict, type FieldError, invalid, STALE_OBJECT } from "./api-status.ts";
import { formatTime, isRecord, type ObjectMeta, readPath, type StoredObject, serialise } from "./objects.ts";
import { formatApiVersion, NAMESPACE, type ResourceKind, SECRET } from "./resources.ts";
import { validate } from "./validation.ts";

/** What etcd takes in one request. */
const MAX_OBJECT_BYTES = 1_572_864;

/** Time and chance, passed in so that tests can hold them still. */
export interface WriteEnvironment {
  readonly now: Date;
  readonly createUid: () => string;
  readonly createSuffix: () => string;
}

/**
 * The object that a POST makes: identity and generation set, status dropped where it has its own
 * subresource. @throws ApiError 400, 422, 500 as a real API server answers.
 */
export function prepareCreate(
  resource: ResourceKind,
  namespace: string,
  body: unknown,
  environment: WriteEnvironment,
): StoredObject {
  const draft = checkShape(resource, body);
  const metadata = isRecord(draft.metadata) ? draft.metadata : {};
  checkNamespace(namespace, metadata);
  const given = metadata.resourceVersion;
  if (given !== undefined && given !== "" && given !== "0") {
    throw new ApiError(500, undefined, "resourceVersion should not be set on objects to be created");
  }
  const generateName = typeof metadata.generateName === "string" ? metadata.generateName : "";
  const asked = typeof metadata.name === "string" ? metadata.name : "";
  // Generated names have at most 63 characters, so the base is cut for five random ones.
  const name =
    asked === "" && generateName !== "" ? `${generateName.slice(0, 58)}${environment.createSuffix()}` : asked;
  const { status, ...rest } = draft;
  const object = normalise(resource, {
    ...rest,
    ...(resource.statusSubresource || status === undefined ? {} : { status }),
    apiVersion: formatApiVersion(resource),
    kind: resource.kind,
    metadata: {
      ...pickUserMetadata(metadata),
      name,
      ...(resource.namespaced ? { namespace } : {}),
      uid: environment.createUid(),
      resourceVersion: "",
      ...(resource.custom ? { generation: 1 } : {}),
      creationTimestamp: formatTime(environment.now),
    },
  });
  return accept(resource, object);
}

export interface UpdateRequest {
  readonly subresource: "status" | undefined;
  /** The object as it shall be; of it only what the subresource lets through counts. */
  readonly body: unknown;
  /** A PATCH always starts from the latest version and so may leave the resourceVersion out. */
  readonly unconditional: boolean;
}

/**
 * The object that a PUT or PATCH makes of `current`; `current` itself when nothing changes, in which case a
 * real API server writes nothing either. @throws ApiError 400, 409, 422.
 */
export function prepareUpdate(
  resource: ResourceKind,
  current: StoredObject,
  request: UpdateRequest,
): StoredObject {
  const draft = checkShape(resource, request.body);
  const metadata = isRecord(draft.metadata) ? draft.metadata : {};
  const { name } = current.metadata;
  checkNamespace(current.metadata.namespace ?? "", metadata);
  checkPreconditions(resource, current, metadata, request);

  const next =
    request.subresource === "status"
      ? replaceStatus(current, draft.status, current.metadata)
      : replaceMain(resource, current, draft, metadata);
  const object = bumpGeneration(resource, current, normalise(resource, next));
  const added = object.metadata.finalizers?.filter((f) => current.metadata.finalizers?.includes(f) !== true);
  if (current.metadata.deletionTimestamp !== undefined && added !== undefined && added.length > 0) {
    throw invalid(resource, name, [
      {
        field: "metadata.finalizers",
        reason: "FieldValueForbidden",
        message: `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`,
      },
    ]);
  }
  if (isDeepStrictEqual(object, current)) return current;
  return accept(resource, object);
}

function checkPreconditions(
  resource: ResourceKind,
  current: StoredObject,
  metadata: Readonly<Record<string, unknown>>,
  request: UpdateRequest,
): void {
  const { name, uid, resourceVersion } = current.metadata;
  if (metadata.name !== name) {
    throw badRequest(
      `the name of the object (${String(metadata.name ?? "")}) does not match the name on the URL (${name})`,
    );
  }
  const givenUid = metadata.uid;
  if (givenUid !== undefined && givenUid !== "" && givenUid !== uid) {
    if (request.unconditional) throw invalid(resource, name, [immutable("metadata.uid", givenUid)]);
    throw conflict(
      resource,
      name,
      `Precondition failed: UID in precondition: ${String(givenUid)}, UID in object meta: ${uid}`,
    );
  }
  const version = metadata.resourceVersion;
  if (version === undefined || version === "") {
    if (request.unconditional || !resource.custom) return;
    throw invalid(resource, name, [
      {
        field: "metadata.resourceVersion",
        reason: "FieldValueInvalid",
        message: "Invalid value: 0: must be specified for an update",
      },
    ]);
  }
  if (version !== resourceVersion) throw conflict(resource, name, STALE_OBJECT);
}

function immutable(field: string, value: unknown): FieldError {
  const message = `Invalid value: ${JSON.stringify(value)}: field is immutable`;
  return { field, reason: "FieldValueInvalid", message };
}

/** Custom resources keep everything but the status: metadata sent to `/status` is ignored. */
function replaceStatus(current: StoredObject, status: unknown, metadata: ObjectMeta): StoredObject {
  const { status: _, ...rest } = current;
  return { ...rest, apiVersion: current.apiVersion, kind: current.kind, metadata, ...optional(status) };
}

function replaceMain(
  resource: ResourceKind,
  current: StoredObject,
  draft: Readonly<Record<string, unknown>>,
  metadata: Readonly<Record<string, unknown>>,
): StoredObject {
  const { status, ...rest } = draft;
  const kept = current.metadata;
  return {
    ...rest,
    ...optional(resource.statusSubresource ? current.status : status),
    apiVersion: current.apiVersion,
    kind: current.kind,
    metadata: {
      ...pickUserMetadata(metadata),
      name: kept.name,
      uid: kept.uid,
      resourceVersion: kept.resourceVersion,
      creationTimestamp: kept.creationTimestamp,
      ...(kept.namespace === undefined ? {} : { namespace: kept.namespace }),
      ...(kept.generateName === undefined ? {} : { generateName: kept.generateName }),
      ...(kept.generation === undefined ? {} : { generation: kept.generation }),
      ...(kept.deletionTimestamp === undefined ? {} : { deletionTimestamp: kept.deletionTimestamp }),
      ...(kept.deletionGracePeriodSeconds === undefined
        ? {}
        : { deletionGracePeriodSeconds: kept.deletionGracePeriodSeconds }),
    },
  };
}

function optional(status: unknown): { status?: unknown } {
  return status === undefined || status === null ? {} : { status };
}

/**
 * A custom resource's generation counts changes of everything but metadata, and but status only where that
 * is a subresource: each status write to an AnalysisRun raises it.
 */
function bumpGeneration(resource: ResourceKind, current: StoredObject, next: StoredObject): StoredObject {
  const { generation } = current.metadata;
  if (!resource.custom || generation === undefined) return next;
  const relevant = (object: StoredObject): object => ({
    ...object,
    metadata: undefined,
    ...(resource.statusSubresource ? { status: undefined } : {}),
  });
  if (isDeepStrictEqual(relevant(current), relevant(next))) return next;
  return { ...next, metadata: { ...next.metadata, generation: generation + 1 } };
}

function checkShape(resource: ResourceKind, body: unknown): Record<string, unknown> {
  if (!isRecord(body)) throw badRequest("the body of the request is not a JSON object");
  const { apiVersion, kind } = body;
  const wanted = formatApiVersion(resource);
  const missing = (value: unknown): boolean => value === undefined || value === "";
  // Typed clients leave both out for core kinds; custom resources cannot be decoded without them.
  if (resource.custom && (missing(kind) || missing(apiVersion))) {
    throw badRequest(`Object '${missing(kind) ? "Kind" : "apiVersion"}' is missing in the request's body`);
  }
  if (!missing(apiVersion) && apiVersion !== wanted) {
    throw badRequest(
      `the API version in the data (${String(apiVersion)}) does not match the expected API version (${wanted})`,
    );
  }
  if (!missing(kind) && kind !== resource.kind) throw wrongKind(resource, body);
  if (body.metadata !== undefined && body.metadata !== null && !isRecord(body.metadata)) {
    throw badRequest("metadata is not a JSON object");
  }
  return body;
}

/** Custom resources are decoded whatever they say they are, and refused only by validation. */
function wrongKind(resource: ResourceKind, body: Readonly<Record<string, unknown>>): ApiError {
  const kind = String(body.kind);
  if (!resource.custom) {
    return badRequest(
      `${kind} in version "${formatApiVersion(resource)}" cannot be handled as a ${resource.kind}`,
    );
  }
  return invalid({ ...resource, kind }, String(readPath(body, ["metadata", "name"]) ?? ""), [
    {
      field: "kind",
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(kind)}: must be ${resource.kind}`,
    },
  ]);
}

function checkNamespace(namespace: string, metadata: Readonly<Record<string, unknown>>): void {
  const given = metadata.namespace;
  if (given === undefined || given === "" || given === namespace) return;
  throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
}

/** The part of metadata that a client decides on. Empty maps and lists are left out, as Go's omitempty does. */
function pickUserMetadata(metadata: Readonly<Record<string, unknown>>): Partial<ObjectMeta> {
  const picked: Record<string, unknown> = {};
  for (const field of ["generateName", "labels", "annotations", "finalizers", "ownerReferences"]) {
    const value = metadata[field];
    const size = Array.isArray(value) ? value.length : isRecord(value) ? Object.keys(value).length : 1;
    if (value !== undefined && value !== null && value !== "" && size > 0) picked[field] = value;
  }
  return picked;
}

/** The defaults of the few kinds that have any. */
function normalise(resource: ResourceKind, object: StoredObject): StoredObject {
  if (resource === SECRET) {
    const { stringData, ...rest } = object;
    const data = isRecord(rest.data) ? { ...rest.data } : {};
    for (const [key, value] of Object.entries(isRecord(stringData) ? stringData : {})) {
      data[key] = Buffer.from(String(value)).toString("base64");
    }
    const { apiVersion, kind, metadata } = object;
    const some = Object.keys(data).length > 0 ? { data } : {};
    return { type: "Opaque", ...rest, ...some, apiVersion, kind, metadata };
  }
  if (resource === NAMESPACE) {
    const { name, labels, ...metadata } = object.metadata;
    return {
      ...object,
      metadata: { ...metadata, name, labels: { ...labels, "kubernetes.io/metadata.name": name } },
      spec: object.spec ?? { finalizers: ["kubernetes"] },
      status: object.status ?? { phase: "Active" },
    };
  }
  return object;
}

function accept(resource: ResourceKind, object: StoredObject): StoredObject {
  const errors = validate(resource, object);
  if (errors.length > 0) {
    throw invalid(resource, String(readPath(object, ["metadata", "name"]) ?? ""), errors);
  }
  if (Buffer.byteLength(serialise(object)) > MAX_OBJECT_BYTES) {
    throw new ApiError(500, undefined, "etcdserver: request is too large");
  }
  return object;
}
