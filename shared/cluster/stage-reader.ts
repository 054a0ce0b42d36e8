import { Fault } from "../domain/fault.ts";
import type { FreightCollection, FreightReference } from "../domain/freight.ts";
import type {
  AnnotationRequest,
  OriginArtifacts,
  StageSnapshot,
  TemplateReference,
  VerificationConfig,
} from "../domain/stage.ts";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION, readAnnotationRequest, SHARD_LABEL } from "./annotations.ts";
import { readArtifacts } from "./artifact-reader.ts";
import { hasExpression } from "./expressions.ts";
import { readHealthDoubts } from "./health-doubts.ts";
import {
  cutHead,
  isDnsLabel,
  isDnsSubdomain,
  isPlainObject,
  nameObject,
  readList,
  readPath,
  readText,
} from "./plain-object.ts";
import { readStageSettings } from "./stage-settings.ts";

/**
 * The bounds of a Stage in a message (`shared/messages/schema.ts`). Evidence beyond them (history) is cut.
 * What a run is built from (templates, arguments, variables, metadata, origins) is refused instead: a verification
 * with some of its arguments left out would give an answer to another question.
 */
const MAX_COLLECTIONS = 10;
const MAX_VERIFICATIONS = 10;
const MAX_TEMPLATES = 100;
const MAX_ARGUMENTS = 200;
const MAX_FREIGHT = 100;
const MAX_NAME = 253;
const MAX_VALUE = 16_384;
const MAX_METADATA_VALUE = 4096;
const MAX_METADATA_KEY = 317;
const MAX_ORIGIN = 320;
const MAX_COLLECTION_ID = 64;
const MAX_WORD = 64;
/**
 * Artifacts as JSON, of one Freight and of all, in characters. What does not fit is left out whole, and whoever needs
 * it reads the Freight: a Stage must not become unreadable for the annotations of an image that nobody asked for.
 */
const MAX_ARTIFACTS = 16_384;
const MAX_ALL_ARTIFACTS = 65_536;

/** Collects what is wrong with the Stage: all of it in one go, each with its field. */
type Complain = (field: string, what: string) => void;

/**
 * Projects a Stage object onto what verification needs of it. Unknown fields are tolerated.
 *
 * @throws Fault `Invalid` naming the object and each field that cannot be used.
 */
export function readStage(object: unknown): StageSnapshot {
  const subject = nameObject("Stage", object);
  const reasons: string[] = [];
  const complain: Complain = (field, what) => reasons.push(`${subject}: ${field} ${what}`);
  const text = (field: string, max: number, isValid: (text: string) => boolean = () => true): string => {
    const value = readText(readPath(object, ...field.split(".")));
    if (value === undefined) complain(field, "is missing");
    else if (value.length > max || !isValid(value)) complain(field, "is not valid");
    else return value;
    return "";
  };

  const lastPromotion = readPromotion(object, "lastPromotion", complain);
  const shard =
    readText(readPath(object, "spec", "shard")) ??
    readText(readPath(object, "metadata", "labels", SHARD_LABEL));
  const health = readText(readPath(object, "status", "health", "status"));
  const healthDoubts = readHealthDoubts(object);
  const verification = readVerification(object, complain);
  const current = readCurrent(object, complain);
  const artifacts = current === undefined ? undefined : readHeldArtifacts(object, current, verification);
  const reverify = readRequest(object, REVERIFY_ANNOTATION);
  const abort = readRequest(object, ABORT_ANNOTATION);
  const currentPromotion = readPromotion(object, "currentPromotion", complain)?.name;
  const snapshot: StageSnapshot = {
    uid: text("metadata.uid", 128),
    project: text("metadata.namespace", 63, isDnsLabel),
    name: text("metadata.name", MAX_NAME, isDnsSubdomain),
    resourceVersion: text("metadata.resourceVersion", 20, (value) => /^[0-9]+$/.test(value)),
    ...(shard === undefined ? {} : { shard: cutHead(shard, MAX_NAME) }),
    deleting: readText(readPath(object, "metadata", "deletionTimestamp")) !== undefined,
    controlFlow: readList(readPath(object, "spec", "promotionTemplate", "spec", "steps")).length === 0,
    ...(verification === undefined ? {} : { verification }),
    vars: readPairs(object, "spec.vars", complain).map(({ name, value }) => ({ name, value: value ?? "" })),
    requestedOrigins: readOrigins(object, complain),
    ...(health === undefined ? {} : { health: cutHead(health, MAX_WORD) }),
    ...(healthDoubts.length === 0 ? {} : { healthDoubts }),
    ...(currentPromotion === undefined ? {} : { currentPromotion }),
    ...(lastPromotion === undefined ? {} : { lastPromotion }),
    ...(current === undefined ? {} : { current }),
    ...(artifacts === undefined ? {} : { artifacts }),
    history: readHistory(object, complain),
    ...(reverify === undefined ? {} : { reverify }),
    ...(abort === undefined ? {} : { abort }),
    ...readStageSettings(object),
  };
  if (reasons.length > 0) throw new Fault("Invalid", reasons);
  return snapshot;
}

function readRequest(object: unknown, key: string): AnnotationRequest | undefined {
  const reading = readAnnotationRequest(readText(readPath(object, "metadata", "annotations", key)));
  return reading.kind === "request" ? reading.request : undefined;
}

function readPromotion(
  object: unknown,
  field: "currentPromotion" | "lastPromotion",
  complain: Complain,
): StageSnapshot["lastPromotion"] {
  const value = readPath(object, "status", field);
  if (value === undefined || value === null) return undefined;
  const name = readText(readPath(value, "name"));
  // Without its name there is no telling one Promotion from the next, and each is a verification of its own.
  if (name === undefined || name.length > MAX_NAME) {
    complain(`status.${field}.name`, name === undefined ? "is missing" : "is not valid");
    return undefined;
  }
  const phase = readText(readPath(value, "status", "phase"));
  const finishedAt =
    readText(readPath(value, "finishedAt")) ?? readText(readPath(value, "status", "finishedAt"));
  return {
    name,
    ...(phase === undefined ? {} : { phase: cutHead(phase, MAX_WORD) }),
    ...(finishedAt === undefined ? {} : { finishedAt: cutHead(finishedAt, MAX_WORD) }),
  };
}

/** `spec.verification: {}` is configured, with nothing in it; absent or `null` is not. */
function readVerification(object: unknown, complain: Complain): VerificationConfig | undefined {
  const value = readPath(object, "spec", "verification");
  if (!isPlainObject(value)) return undefined;
  const field = "spec.verification.analysisTemplates";
  const templates = readList(readPath(value, "analysisTemplates"));
  if (templates.length > MAX_TEMPLATES) complain(field, `has more than ${MAX_TEMPLATES} entries`);
  return {
    analysisTemplates: templates
      .slice(0, MAX_TEMPLATES)
      .flatMap((template, index) => readTemplate(template, `${field}[${index}]`, complain)),
    args: readPairs(object, "spec.verification.args", complain),
    labels: readMetadata(object, "labels", complain),
    annotations: readMetadata(object, "annotations", complain),
  };
}

function readTemplate(value: unknown, field: string, complain: Complain): TemplateReference[] {
  const name = readText(readPath(value, "name"));
  const kind = readText(readPath(value, "kind")) ?? "AnalysisTemplate";
  if (name === undefined || name.length > MAX_NAME) {
    complain(`${field}.name`, name === undefined ? "is missing" : "is not valid");
    return [];
  }
  if (kind !== "AnalysisTemplate" && kind !== "ClusterAnalysisTemplate") {
    complain(`${field}.kind`, "is neither AnalysisTemplate nor ClusterAnalysisTemplate");
    return [];
  }
  return [{ name, kind }];
}

/** A list of `{name, value}`: arguments and variables. */
function readPairs(
  object: unknown,
  field: string,
  complain: Complain,
): { readonly name: string; readonly value?: string }[] {
  const list = readList(readPath(object, ...field.split(".")));
  if (list.length > MAX_ARGUMENTS) complain(field, `has more than ${MAX_ARGUMENTS} entries`);
  return list.slice(0, MAX_ARGUMENTS).flatMap((entry, index) => {
    const name = readText(readPath(entry, "name"));
    const value = readPath(entry, "value");
    if (name === undefined || name.length > MAX_NAME) {
      complain(`${field}[${index}].name`, name === undefined ? "is missing" : "is not valid");
      return [];
    }
    if (value === undefined || value === null) return [{ name }];
    if (typeof value !== "string" || value.length > MAX_VALUE) {
      const what = typeof value === "string" ? `has more than ${MAX_VALUE} characters` : "is not a text";
      complain(`${field}[${index}].value (${name})`, what);
      return [];
    }
    return [{ name, value }];
  });
}

function readMetadata(object: unknown, part: "labels" | "annotations", complain: Complain) {
  const field = `spec.verification.analysisRunMetadata.${part}`;
  const map = readPath(object, ...field.split("."));
  const entries: [string, string][] = [];
  for (const [key, value] of isPlainObject(map) ? Object.entries(map) : []) {
    // No key of Kubernetes' may start with `_`; this one would vanish on the way or do harm.
    if (key === "__proto__") continue;
    if (typeof value !== "string") complain(`${field}["${cutHead(key, 80)}"]`, "is not a text");
    else if (key.length > MAX_METADATA_KEY || value.length > MAX_METADATA_VALUE) {
      complain(`${field}["${cutHead(key, 80)}"]`, `is longer than ${MAX_METADATA_VALUE} characters`);
    } else entries.push([key, value]);
  }
  return Object.fromEntries(entries);
}

function readOrigins(object: unknown, complain: Complain): string[] {
  const field = "spec.requestedFreight";
  const list = readList(readPath(object, "spec", "requestedFreight"));
  if (list.length > MAX_FREIGHT) complain(field, `has more than ${MAX_FREIGHT} entries`);
  return list.slice(0, MAX_FREIGHT).flatMap((entry, index) => {
    const name = readText(readPath(entry, "origin", "name"));
    const origin = `${readText(readPath(entry, "origin", "kind")) ?? "Warehouse"}/${name ?? ""}`;
    if (name === undefined || origin.length > MAX_ORIGIN) {
      complain(`${field}[${index}].origin.name`, name === undefined ? "is missing" : "is not valid");
      return [];
    }
    return [origin];
  });
}

/** `status.freightHistory[0]`: the map's key is the origin. Sorted by origin, so that equal Stages read equal. */
function readCurrent(object: unknown, complain: Complain): FreightCollection | undefined {
  const [newest] = readList(readPath(object, "status", "freightHistory"));
  if (newest === undefined) return undefined;
  const field = "status.freightHistory[0].items";
  const items = readPath(newest, "items");
  const entries = isPlainObject(items) ? Object.entries(items) : [];
  if (entries.length > MAX_FREIGHT) complain(field, `has more than ${MAX_FREIGHT} entries`);
  const freight = entries.slice(0, MAX_FREIGHT).flatMap(([origin, item]): FreightReference[] => {
    const name = readText(readPath(item, "name"));
    if (origin === "" || origin.length > MAX_ORIGIN || name === undefined || name.length > MAX_NAME) {
      complain(`${field}["${cutHead(origin, 80)}"].name`, name === undefined ? "is missing" : "is not valid");
      return [];
    }
    return [{ name, origin }];
  });
  freight.sort((a, b) => (a.origin < b.origin ? -1 : 1));
  // `readHistory` complains of an id that is missing.
  return { id: readText(readPath(newest, "id")) ?? "", freight };
}

/** The artifacts of the current collection; `undefined` where no argument can ask for them. */
function readHeldArtifacts(
  object: unknown,
  current: FreightCollection,
  verification: VerificationConfig | undefined,
): OriginArtifacts[] | undefined {
  if (!verification?.args.some(({ value }) => value !== undefined && hasExpression(value))) return undefined;
  const [newest] = readList(readPath(object, "status", "freightHistory"));
  let left = MAX_ALL_ARTIFACTS;
  return current.freight.flatMap(({ origin }) => {
    const artifacts = { origin, ...readArtifacts(readPath(newest, "items", origin)) };
    const size = JSON.stringify(artifacts).length;
    if (size > MAX_ARTIFACTS || size > left) return [];
    left -= size;
    return [artifacts];
  });
}

function readHistory(object: unknown, complain: Complain): StageSnapshot["history"] {
  return readList(readPath(object, "status", "freightHistory"))
    .slice(0, MAX_COLLECTIONS)
    .map((collection, index) => {
      const id = readText(readPath(collection, "id"));
      if (id === undefined || id.length > MAX_COLLECTION_ID) {
        complain(`status.freightHistory[${index}].id`, id === undefined ? "is missing" : "is not valid");
      }
      return {
        collectionId: id ?? "",
        verifications: readList(readPath(collection, "verificationHistory"))
          .slice(0, MAX_VERIFICATIONS)
          .filter(isPlainObject)
          .map((entry) => ({
            // Kargo requires neither; implicit verifications of old versions have an empty id.
            id: cutHead(readText(readPath(entry, "id")) ?? "", 256),
            phase: cutHead(readText(readPath(entry, "phase")) ?? "", MAX_WORD),
          })),
      };
    });
}
