import type { ResourceKind } from "./resources.ts";

interface StatusCause {
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
}

export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
}

/** `meta/v1` Status, the body of every answer of an API server that is not an object or a list. */
export interface Status {
  readonly kind: "Status";
  readonly apiVersion: "v1";
  readonly metadata: { readonly continue?: string };
  readonly status: "Success" | "Failure";
  readonly message?: string;
  readonly reason?: string;
  readonly details?: StatusDetails;
  /** Left out of a deletion's Success. */
  readonly code?: number;
}

/** A refusal with the Status that says so; the HTTP status is `status.code`. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: Status;

  constructor(
    code: number,
    reason: string | undefined,
    message: string,
    more: { details?: StatusDetails; continue?: string } = {},
  ) {
    super(message);
    this.status = {
      kind: "Status",
      apiVersion: "v1",
      metadata: more.continue === undefined ? {} : { continue: more.continue },
      status: "Failure",
      message,
      ...(reason === undefined ? {} : { reason }),
      ...(more.details === undefined ? {} : { details: more.details }),
      code,
    };
  }
}

/** `stages.kargo.akuity.io`, or just `secrets` for the core group: how Status messages name a resource. */
function nameResource(kind: ResourceKind): string {
  return kind.group === "" ? kind.plural : `${kind.plural}.${kind.group}`;
}

function detailsOf(kind: ResourceKind, name: string): StatusDetails {
  return {
    ...(name === "" ? {} : { name }),
    ...(kind.group === "" ? {} : { group: kind.group }),
    kind: kind.plural,
  };
}

export function notFound(kind: ResourceKind, name: string): ApiError {
  return new ApiError(404, "NotFound", `${nameResource(kind)} "${name}" not found`, {
    details: detailsOf(kind, name),
  });
}

/** No such path: a kind or version that is not served. Its answer is the plain text that Go's server has. */
export class NoSuchPath extends Error {
  override readonly name = "NoSuchPath";
}

export function alreadyExists(kind: ResourceKind, name: string): ApiError {
  return new ApiError(409, "AlreadyExists", `${nameResource(kind)} "${name}" already exists`, {
    details: detailsOf(kind, name),
  });
}

export function conflict(kind: ResourceKind, name: string, why: string): ApiError {
  return new ApiError(
    409,
    "Conflict",
    `Operation cannot be fulfilled on ${nameResource(kind)} "${name}": ${why}`,
    { details: detailsOf(kind, name) },
  );
}

export const STALE_OBJECT =
  "the object has been modified; please apply your changes to the latest version and try again";

export function forbidden(kind: ResourceKind, name: string, why: string): ApiError {
  return new ApiError(403, "Forbidden", `${nameResource(kind)} "${name}" is forbidden: ${why}`, {
    details: detailsOf(kind, name),
  });
}

export function badRequest(message: string): ApiError {
  return new ApiError(400, "BadRequest", message);
}

/** One field that is wrong. `message` without the field's name, as in `Required value: name is needed`. */
export interface FieldError {
  readonly field: string;
  readonly reason:
    | "FieldValueRequired"
    | "FieldValueInvalid"
    | "FieldValueForbidden"
    | "FieldValueTooLong"
    | "FieldValueNotSupported"
    | "FieldValueTypeInvalid";
  readonly message: string;
}

/** 422 Invalid. @param errors at least one. */
export function invalid(kind: ResourceKind, name: string, errors: readonly FieldError[]): ApiError {
  const texts = errors.map((error) => `${error.field}: ${error.message}`);
  const list = texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`;
  const qualified = kind.group === "" ? kind.kind : `${kind.kind}.${kind.group}`;
  return new ApiError(422, "Invalid", `${qualified} "${name}" is invalid: ${list}`, {
    details: { ...detailsOf(kind, name), kind: kind.kind, causes: errors },
  });
}

/** A JSON patch that cannot be applied, a failing `test` included. A real API server does not say why either. */
export function patchRejected(): ApiError {
  return new ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {
    details: {},
  });
}

/** 410 for a resourceVersion that the event window no longer holds. */
export function tooOld(wanted: number, oldest: number): ApiError {
  return new ApiError(410, "Expired", `too old resource version: ${wanted} (${oldest})`);
}

/** 410 for a continue token whose snapshot is gone; `next` goes on without consistency, as the real one offers. */
export function continueExpired(next: string): ApiError {
  return new ApiError(
    410,
    "Expired",
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    { continue: next },
  );
}

/** 504 for a read at a resourceVersion that lies in the future. */
export function tooLarge(wanted: number, current: number): ApiError {
  return new ApiError(504, "Timeout", `Timeout: Too large resource version: ${wanted}, current: ${current}`, {
    details: {
      causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
      retryAfterSeconds: 1,
    },
  });
}

export function methodNotAllowed(): ApiError {
  return new ApiError(
    405,
    "MethodNotAllowed",
    "the server does not allow this method on the requested resource",
  );
}

export function unsupportedMediaType(given: string, supported: readonly string[]): ApiError {
  return new ApiError(
    415,
    "UnsupportedMediaType",
    `the body of the request was in an unknown format - accepted media types include: ${supported.join(", ")} (got ${JSON.stringify(given)})`,
  );
}

/** The answer to a deletion that is complete. */
export function deleted(kind: ResourceKind, name: string, uid: string): Status {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    details: { ...detailsOf(kind, name), uid },
  };
}
