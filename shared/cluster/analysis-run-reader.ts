import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import { Fault } from "../domain/fault.ts";
import { shortenLabel } from "../domain/identity.ts";
import { FREIGHT_COLLECTION_LABEL, STAGE_ANNOTATION, STAGE_LABEL } from "./annotations.ts";
import { readMetrics, summarizeMetrics } from "./metric-summary.ts";
import {
  cutHead,
  cutText,
  isDnsLabel,
  isDnsSubdomain,
  nameObject,
  readPath,
  readText,
} from "./plain-object.ts";
import { readNamedRunIdentity } from "./run-identity.ts";

/**
 * The largest snapshot, in bytes of JSON, whatever the run reports: an AnalysisRun has been seen to grow to
 * megabytes, and what it says goes into one SQS message and one ledger item.
 */
export const MAX_SNAPSHOT_BYTES = 60_000;

const MAX_MESSAGE = 1024;
const MAX_WORD = 64;

/** What the watch knows beside the object itself. */
interface AnalysisRunSight {
  /** The object is how it was last seen, and is no more. */
  readonly deleted?: boolean;
  /** resourceVersion of the deletion, which is newer than the object's own. */
  readonly resourceVersion?: string;
}

/**
 * Projects an AnalysisRun object onto what verification needs of it, in at most `MAX_SNAPSHOT_BYTES`.
 * `undefined` for a run that is no Stage's: it has no `kargo.akuity.io/stage` label that could name one.
 *
 * @throws Fault `Invalid` naming the object and each field that cannot be used.
 */
export function readAnalysisRun(
  object: unknown,
  sight: AnalysisRunSight = {},
): AnalysisRunSnapshot | undefined {
  const stage = readStageName(object);
  if (stage === undefined) return undefined;
  const subject = nameObject("AnalysisRun", object);
  const reasons: string[] = [];
  const check = (field: string, value: unknown, isValid: (text: string) => boolean): string => {
    const text = readText(value);
    if (text === undefined) reasons.push(`${subject}: ${field} is missing`);
    else if (!isValid(text)) reasons.push(`${subject}: ${field} is not valid`);
    else return text;
    return "";
  };
  const metadata = (key: string): unknown => readPath(object, "metadata", key);
  const uid = check("metadata.uid", metadata("uid"), (text) => text.length <= 128);
  const project = check("metadata.namespace", metadata("namespace"), isDnsLabel);
  const name = check("metadata.name", metadata("name"), isDnsSubdomain);
  const resourceVersion = check(
    "metadata.resourceVersion",
    sight.resourceVersion ?? metadata("resourceVersion"),
    (text) => /^[0-9]{1,20}$/.test(text),
  );
  if (reasons.length > 0) throw new Fault("Invalid", reasons);

  const status = (key: string): string | undefined => readText(readPath(object, "status", key));
  const collectionId = readText(readPath(object, "metadata", "labels", FREIGHT_COLLECTION_LABEL));
  const identity = readNamedRunIdentity(object, stage);
  const message = status("message");
  const startedAt = status("startedAt");
  const completedAt = status("completedAt");
  const head = {
    uid,
    project,
    name,
    resourceVersion,
    stage,
    ...(collectionId === undefined || collectionId.length > MAX_WORD ? {} : { collectionId }),
    ...(identity === undefined ? {} : { identity }),
    phase: cutHead(status("phase") ?? "", MAX_WORD),
    ...(message === undefined ? {} : { message: cutText(message, MAX_MESSAGE) }),
    ...(startedAt === undefined ? {} : { startedAt: cutHead(startedAt, MAX_WORD) }),
    ...(completedAt === undefined ? {} : { completedAt: cutHead(completedAt, MAX_WORD) }),
    terminating: readPath(object, "spec", "terminate") === true,
    deleted: sight.deleted === true,
  };
  const room = MAX_SNAPSHOT_BYTES - Buffer.byteLength(JSON.stringify(head));
  return { ...head, ...summarizeMetrics(readMetrics(readPath(object, "status", "metricResults")), room) };
}

/**
 * The full name of the run's Stage. The label has it unless it had to be shortened; then the annotation does. An
 * annotation that does not fit the label came from somebody's `analysisRunMetadata` and is not believed.
 */
function readStageName(object: unknown): string | undefined {
  const label = readText(readPath(object, "metadata", "labels", STAGE_LABEL));
  if (label === undefined) return undefined;
  const full = readText(readPath(object, "metadata", "annotations", STAGE_ANNOTATION));
  if (full !== undefined && isDnsSubdomain(full) && shortenLabel(full) === label) return full;
  return isDnsSubdomain(label) ? label : undefined;
}
