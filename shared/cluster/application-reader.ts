import { AUTHORIZED_STAGE_ANNOTATION } from "./annotations.ts";
import { isPlainObject, readList, readPath, readText } from "./plain-object.ts";

/** What of an Argo CD Application can concern a Stage's verification. */
export interface ApplicationSnapshot {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The annotation as it stands; undefined where there is none. */
  readonly authorizedStages: string | undefined;
  readonly health: string;
  /** `status.operationState.phase`. */
  readonly operation: string;
  /** `status.sync.revision` and `revisions`. */
  readonly revisions: readonly string[];
  /**
   * Whether Argo CD has looked at the Application since its last operation ended: only then does its health say
   * anything about what was synced.
   */
  readonly isFresh: boolean;
}

/** Projects an Application object. Unknown and missing fields are tolerated: Argo CD's, not ours, to insist on. */
export function readApplication(object: unknown): ApplicationSnapshot {
  const text = (...path: string[]): string => readText(readPath(object, ...path)) ?? "";
  const annotations = readPath(object, "metadata", "annotations");
  return {
    namespace: text("metadata", "namespace"),
    name: text("metadata", "name"),
    uid: text("metadata", "uid"),
    resourceVersion: text("metadata", "resourceVersion"),
    authorizedStages: isPlainObject(annotations)
      ? readText(annotations[AUTHORIZED_STAGE_ANNOTATION])
      : undefined,
    health: text("status", "health", "status"),
    operation: text("status", "operationState", "phase"),
    revisions: [
      text("status", "sync", "revision"),
      ...readList(readPath(object, "status", "sync", "revisions")).map((each) => readText(each) ?? ""),
    ],
    isFresh: isFresh(text("status", "reconciledAt"), text("status", "operationState", "finishedAt")),
  };
}

function isFresh(reconciledAt: string, finishedAt: string): boolean {
  if (finishedAt === "") return true;
  const [reconciled, finished] = [Date.parse(reconciledAt), Date.parse(finishedAt)];
  return !Number.isNaN(reconciled) && !Number.isNaN(finished) && reconciled >= finished;
}
