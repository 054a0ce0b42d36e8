import type { AnnotationRequest } from "../domain/stage.ts";
import { isPlainObject, type PlainObject } from "./plain-object.ts";

// Annotation and label keys, in one place. The `kargo.akuity.io/` ones are Kargo's own.

/** On a Stage: repeat this verification. */
export const REVERIFY_ANNOTATION = "kargo.akuity.io/reverify";
/** On a Stage: stop this verification. */
export const ABORT_ANNOTATION = "kargo.akuity.io/abort";
/** On a Stage: `hold` or `verify-partial` while origins are missing. */
export const MISSING_FREIGHT_ANNOTATION = "tallyman.dev/missing-freight";
/** On a Stage: `follow` (default) or `abort` a verification whose Freight is replaced while it runs. */
export const ON_SUPERSEDE_ANNOTATION = "tallyman.dev/on-supersede";
/** On a Stage: `managed` or `companion`, where it differs from its cluster. */
export const MODE_ANNOTATION = "tallyman.dev/mode";
/** On a Stage: how long a verification may take, for example `30m`. */
export const DEADLINE_ANNOTATION = "tallyman.dev/deadline";
/** On a Stage: how long Freight may wait for its verification to start. */
export const START_DEADLINE_ANNOTATION = "tallyman.dev/start-deadline";
/** On a Stage: `reverify` when a template that its latest verification used has changed. */
export const ON_TEMPLATE_CHANGE_ANNOTATION = "tallyman.dev/on-template-change";
/** On an AnalysisRun: the templates that it was made of, as JSON. */
export const TEMPLATES_ANNOTATION = "tallyman.dev/templates";
/** On an Argo CD Application: the Stages that may change it. We route events by it and grant nothing. */
export const AUTHORIZED_STAGE_ANNOTATION = "kargo.akuity.io/authorized-stage";
/** On a Stage: its shard. */
export const SHARD_LABEL = "kargo.akuity.io/shard";
/** On an AnalysisRun: the Stage's name, shortened to what a label can hold. */
export const STAGE_LABEL = "kargo.akuity.io/stage";
/** On an AnalysisRun: the Stage's full name, where the label had to be shortened. */
export const STAGE_ANNOTATION = "kargo.akuity.io/stage";
/** On an AnalysisRun: the FreightCollection's id. */
export const FREIGHT_COLLECTION_LABEL = "kargo.akuity.io/freight-collection";
/** On an AnalysisRun: the Promotion behind it. */
export const PROMOTION_ANNOTATION = "kargo.akuity.io/promotion";
/** On an AnalysisRun: the Argo Rollouts controller that is to take it. */
export const CONTROLLER_INSTANCE_ID_LABEL = "argo-rollouts.argoproj.io/controller-instance-id";
/** On an AnalysisRun: `RunIdentity` as JSON. */
export const VERIFICATION_ANNOTATION = "tallyman.dev/verification";

const MAX_VALUE = 4096;
const MAX_ID = 256;
const MAX_ACTOR = 512;

/**
 * What a `reverify` or `abort` annotation says.
 *
 * - `none`: nothing is asked for.
 * - `request`: it is.
 * - `rejected`: something was meant that cannot be taken; `reason` says why, for an Event and the log.
 */
type AnnotationReading =
  | { readonly kind: "none" }
  | { readonly kind: "request"; readonly request: AnnotationRequest }
  | { readonly kind: "rejected"; readonly reason: string };

const NONE: AnnotationReading = { kind: "none" };

/**
 * Reads the value of a `reverify` or `abort` annotation: a JSON object with an id, or else the raw value is the
 * id, untrimmed.
 *
 * - absent, empty, `null`, `{}`, `{"actor":"x"}`, `{"id":5}`: none. An object or `null` without a usable id asks
 *   for nothing, as with Kargo.
 * - `{"ID":"x"}`: keys match in any case and unknown keys are ignored, as Go decodes; a known key of the wrong type
 *   spoils the object.
 * - `123`, `true`, `"x"` with its quotes: the raw text is the id. Kargo drops these, so that an id of digits cannot be
 *   asked for there. It is harmless: an id that no verification has is refused with a reason in the history.
 * - a list, a value above 4,096 characters, an id above 256: rejected.
 */
export function readAnnotationRequest(value: string | undefined): AnnotationReading {
  if (value === undefined || value === "") return NONE;
  if (value.length > MAX_VALUE)
    return reject(`the value has ${value.length} characters, at most ${MAX_VALUE}`);
  const parsed = parseJson(value);
  if (parsed === null) return NONE;
  if (Array.isArray(parsed)) return reject("the value is a JSON list, not a verification id");
  if (isPlainObject(parsed)) return readRequestObject(parsed, value);
  return accept({ id: value, value });
}

function readRequestObject(object: PlainObject, value: string): AnnotationReading {
  const fields = new Map<string, unknown>();
  for (const [key, field] of Object.entries(object)) {
    // Go leaves a field as it is when its value is null.
    if (field !== null) fields.set(key.toLowerCase(), field);
  }
  const id = fields.get("id");
  const actor = fields.get("actor");
  const controlPlane = fields.get("controlplane");
  if (typeof id !== "string" || id === "") return NONE;
  if (actor !== undefined && typeof actor !== "string") return reject("its actor is not a text");
  if (controlPlane !== undefined && typeof controlPlane !== "boolean") {
    return reject("its controlPlane is neither true nor false");
  }
  return accept({
    id,
    ...(actor === undefined || actor === "" ? {} : { actor: actor.slice(0, MAX_ACTOR) }),
    ...(controlPlane === undefined ? {} : { controlPlane }),
    value,
  });
}

function accept(request: AnnotationRequest): AnnotationReading {
  return request.id.length > MAX_ID
    ? reject(`the verification id has ${request.id.length} characters, at most ${MAX_ID}`)
    : { kind: "request", request };
}

function reject(reason: string): AnnotationReading {
  return { kind: "rejected", reason };
}

/** `undefined` for what is not JSON, which JSON itself cannot say. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
