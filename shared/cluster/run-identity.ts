import type { RunIdentity } from "../domain/analysis-run.ts";
import type { FreightReference } from "../domain/freight.ts";
import { deriveAnalysisRunName, deriveVerificationId, type OwnCause } from "../domain/identity.ts";
import { VERIFICATION_ANNOTATION } from "./annotations.ts";
import { isPlainObject, readPath, readText } from "./plain-object.ts";

/** The largest identity that is written or believed, in bytes of JSON: it travels in each message of its run. */
export const MAX_IDENTITY_BYTES = 32_768;

const MAX_FREIGHT = 100;

/**
 * The identity that an AnalysisRun carries in its annotation, if it is well-formed and follows from itself: its
 * id must be the one that its cause leads to. Anybody who may write AnalysisRuns can write the annotation, so a text
 * that is off in any part is no identity at all.
 */
function readRunIdentity(object: unknown): RunIdentity | undefined {
  const text = readText(readPath(object, "metadata", "annotations", VERIFICATION_ANNOTATION));
  // A first look at the length saves parsing; UTF-16 units are never more than bytes.
  if (text === undefined || text.length > MAX_IDENTITY_BYTES) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const identity = readIdentityFields(value);
  if (identity === undefined || Buffer.byteLength(JSON.stringify(identity)) > MAX_IDENTITY_BYTES)
    return undefined;
  const derived = deriveVerificationId(identity.cause, identity.stageUid, identity.collection.id);
  return derived === identity.id ? identity : undefined;
}

/** As above, and the run has the name that the identity leads to for the Stage of that full name. */
export function readNamedRunIdentity(object: unknown, stage: string): RunIdentity | undefined {
  const identity = readRunIdentity(object);
  if (identity === undefined) return undefined;
  const name = deriveAnalysisRunName(stage, identity.id, identity.collection.id);
  return readPath(object, "metadata", "name") === name ? identity : undefined;
}

/**
 * True when an AnalysisRun that is there already is the one that `identity` stands for: create-or-adopt may adopt
 * it. What may differ between two attempts at one verification (actor, missing origins) is not compared.
 */
export function isSameRun(existing: unknown, identity: RunIdentity): boolean {
  const found = readRunIdentity(existing);
  return (
    found !== undefined &&
    found.id === identity.id &&
    found.stageUid === identity.stageUid &&
    found.collection.id === identity.collection.id
  );
}

function readIdentityFields(value: unknown): RunIdentity | undefined {
  const id = readBounded(readPath(value, "id"), 64);
  const stageUid = readBounded(readPath(value, "stageUid"), 128);
  const cause = readCause(readPath(value, "cause"));
  const promotion = readPath(value, "promotion");
  const collectionId = readBounded(readPath(value, "collection", "id"), 64);
  const freight = readAll(readPath(value, "collection", "freight"), readFreight);
  const missingOrigins = readAll(readPath(value, "missingOrigins"), (origin) => readBounded(origin, 320));
  const actor = readPath(value, "actor");
  if (id === undefined || stageUid === undefined || cause === undefined || collectionId === undefined)
    return undefined;
  if (freight === undefined || missingOrigins === undefined) return undefined;
  if (typeof promotion !== "string" || promotion.length > 253) return undefined;
  if (actor !== undefined && (typeof actor !== "string" || actor.length > 512)) return undefined;
  return {
    id,
    stageUid,
    cause,
    promotion,
    collection: { id: collectionId, freight },
    missingOrigins,
    ...(actor === undefined ? {} : { actor }),
  };
}

function readCause(value: unknown): OwnCause | undefined {
  switch (readPath(value, "kind")) {
    case "promotion": {
      const promotion = readPath(value, "promotion");
      return typeof promotion === "string" && promotion.length <= 253
        ? { kind: "promotion", promotion }
        : undefined;
    }
    case "reverify": {
      const of = readBounded(readPath(value, "of"), 64);
      return of !== undefined && /^[0-9a-zA-Z-]+$/.test(of) ? { kind: "reverify", of } : undefined;
    }
    case "request": {
      const requestId = readBounded(readPath(value, "requestId"), 128);
      return requestId === undefined ? undefined : { kind: "request", requestId };
    }
    default:
      return undefined;
  }
}

function readFreight(value: unknown): FreightReference | undefined {
  if (!isPlainObject(value)) return undefined;
  const name = readBounded(readPath(value, "name"), 253);
  const origin = readBounded(readPath(value, "origin"), 320);
  return name === undefined || origin === undefined ? undefined : { name, origin };
}

/** A text of one to `max` characters. */
function readBounded(value: unknown, max: number): string | undefined {
  const text = readText(value);
  return text === undefined || text.length > max ? undefined : text;
}

/** Each entry of a list read, or nothing if one of them cannot be. */
function readAll<T>(value: unknown, read: (entry: unknown) => T | undefined): T[] | undefined {
  if (!Array.isArray(value) || value.length > MAX_FREIGHT) return undefined;
  const entries: T[] = [];
  for (const entry of value) {
    const item = read(entry);
    if (item === undefined) return undefined;
    entries.push(item);
  }
  return entries;
}
