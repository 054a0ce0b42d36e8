import { createHash } from "node:crypto";
import type { StageKey } from "../domain/identity.ts";
import type { Phase } from "../domain/phase.ts";
import type { RequestRecord, Verification } from "../domain/verification.ts";
import { AUTHORIZED_STAGE_ANNOTATION, MODE_ANNOTATION } from "./annotations.ts";
import type { ApplicationSnapshot } from "./application-reader.ts";
import type { KubernetesObject } from "./cluster.ts";

/** Kargo's own reasons, and one for the start, of which Kargo says nothing. Running is no event. */
const REASON: Readonly<Partial<Record<Phase, string>>> = {
  Pending: "FreightVerificationStarted",
  Successful: "FreightVerificationSucceeded",
  Failed: "FreightVerificationFailed",
  Error: "FreightVerificationErrored",
  Aborted: "FreightVerificationAborted",
  Inconclusive: "FreightVerificationInconclusive",
};

const NORMAL: ReadonlySet<Phase> = new Set(["Pending", "Successful"]);
const ANNOTATION = "event.kargo.akuity.io/";
const COMPONENT = "tallyman";
/** What Kubernetes takes for an Event's message, characters. */
const MAX_MESSAGE = 1024;

/**
 * The Kubernetes Events of one phase: one for each Freight. Their names follow from verification, phase and Freight,
 * so that a repeat is refused as existing and nobody is told twice. `freightUids` are those that are known.
 */
export function buildPhaseEvents(
  v: Verification,
  freightUids: ReadonlyMap<string, string> = new Map(),
): KubernetesObject[] {
  const reason = REASON[v.phase];
  if (reason === undefined) return [];
  const at = new Date(v.finishedAt ?? v.createdAt);
  return v.collection.freight.map(({ name, origin }) => {
    const uid = freightUids.get(name);
    return buildEvent({
      project: v.key.project,
      identity: ["phase", v.id, v.phase, name],
      involved: { kind: "Freight", name, ...(uid === undefined ? {} : { uid }) },
      type: NORMAL.has(v.phase) ? "Normal" : "Warning",
      reason,
      message: describe(v),
      at,
      annotations: {
        [`${ANNOTATION}actor`]: v.actor ?? `controller:${COMPONENT}`,
        [`${ANNOTATION}project`]: v.key.project,
        [`${ANNOTATION}freight-name`]: name,
        [`${ANNOTATION}freight-warehouse-name`]: origin.replace(/^Warehouse\//, ""),
        [`${ANNOTATION}stage-name`]: v.key.stage,
        [`${ANNOTATION}verification-start-time`]: new Date(v.createdAt).toISOString(),
        ...(v.finishedAt === undefined
          ? {}
          : { [`${ANNOTATION}verification-finish-time`]: new Date(v.finishedAt).toISOString() }),
        ...(v.run === undefined ? {} : { [`${ANNOTATION}analysis-run-name`]: v.run.name }),
        ...(v.promotion === "" ? {} : { [`${ANNOTATION}promotion-name`]: v.promotion }),
        "tallyman.dev/verification-id": v.id,
      },
    });
  });
}

/** The Event on a Stage for a request that was not carried out; `undefined` for one that was. */
export function buildRefusalEvent(
  request: RequestRecord,
  stageUid: string | undefined,
): KubernetesObject | undefined {
  if (request.outcome !== "refused" && request.outcome !== "too-late") return undefined;
  const { project, stage } = request.key;
  return buildEvent({
    project,
    identity: ["request", request.requestId, stage],
    involved: {
      kind: "Stage",
      name: stage,
      ...(stageUid === undefined || stageUid === "" ? {} : { uid: stageUid }),
    },
    type: "Warning",
    reason: "VerificationRequestRefused",
    message: `${request.kind} refused: ${request.message}`,
    at: new Date(request.createdAt),
    annotations: {
      ...(request.actor === undefined ? {} : { [`${ANNOTATION}actor`]: request.actor }),
      [`${ANNOTATION}project`]: project,
      [`${ANNOTATION}stage-name`]: stage,
      "tallyman.dev/request-id": request.requestId,
    },
  });
}

function describe(v: Verification): string {
  if (v.phase === "Pending") return "Freight verification started";
  if (v.phase === "Successful") return "Freight verification succeeded";
  return v.message === "" ? `Freight verification ended ${v.phase}` : v.message;
}

/** The Event on Freight that counts as verified in a Stage of control flow, as Kargo words it. */
export function buildPassedEvent(key: StageKey, freight: string, at: Date): KubernetesObject {
  return buildEvent({
    project: key.project,
    identity: ["control-flow", key.stage, freight],
    involved: { kind: "Freight", name: freight },
    type: "Normal",
    reason: "FreightVerificationSucceeded",
    message: "Freight verification succeeded",
    at,
    annotations: {
      [`${ANNOTATION}actor`]: `controller:${COMPONENT}`,
      [`${ANNOTATION}project`]: key.project,
      [`${ANNOTATION}freight-name`]: freight,
      [`${ANNOTATION}stage-name`]: key.stage,
    },
  });
}

/** The Event on a Stage whose status does not show a Promotion that has succeeded. */
export function buildStaleEvent(key: StageKey, promotion: string, at: Date): KubernetesObject {
  return buildEvent({
    project: key.project,
    identity: ["stale", key.stage, promotion],
    involved: { kind: "Stage", name: key.stage },
    type: "Warning",
    reason: "StaleStage",
    message:
      `Promotion ${promotion} has succeeded, but the Stage's status does not show it: ` +
      "look at the controller that promotes. Nothing is verified for it until then",
    at,
    annotations: { [`${ANNOTATION}project`]: key.project, [`${ANNOTATION}stage-name`]: key.stage },
  });
}

/** The Event on a Stage of ours on which another verifier acts. */
export function buildSecondVerifierEvent(key: StageKey, verificationId: string, at: Date): KubernetesObject {
  return buildEvent({
    project: key.project,
    identity: ["second-verifier", key.stage, verificationId],
    involved: { kind: "Stage", name: key.stage },
    type: "Warning",
    reason: "SecondVerifier",
    message:
      `Verification ${verificationId} was not made by Tallyman, which stands back for this Freight. ` +
      `If another verifier serves this Stage, set ${MODE_ANNOTATION}: companion`,
    at,
    annotations: { [`${ANNOTATION}project`]: key.project, [`${ANNOTATION}stage-name`]: key.stage },
  });
}

/** The Event on an Application whose `authorized-stage` annotation has entries that cannot be used. */
export function buildMalformedEvent(
  application: Pick<ApplicationSnapshot, "namespace" | "name" | "uid" | "authorizedStages">,
  malformed: readonly string[],
  at: Date,
): KubernetesObject {
  const { namespace, name, uid, authorizedStages } = application;
  return buildEvent({
    project: namespace,
    identity: ["authorized-stage", uid, authorizedStages ?? ""],
    involved: { apiVersion: "argoproj.io/v1alpha1", kind: "Application", name, uid },
    type: "Warning",
    reason: "AuthorizedStageMalformed",
    message: `${AUTHORIZED_STAGE_ANNOTATION}: ${malformed.join("; ")}. The other entries count`,
    at,
    annotations: {},
  });
}

interface EventParts {
  readonly project: string;
  readonly identity: readonly string[];
  readonly involved: {
    readonly apiVersion?: string;
    readonly kind: "Freight" | "Stage" | "Application";
    readonly name: string;
    readonly uid?: string;
  };
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly at: Date;
  readonly annotations: Readonly<Record<string, string>>;
}

function buildEvent({
  project,
  identity,
  involved,
  type,
  reason,
  message,
  at,
  annotations,
}: EventParts): KubernetesObject {
  const digest = createHash("sha1").update(JSON.stringify(identity)).digest("hex");
  // Event timestamps are in seconds.
  const timestamp = `${at.toISOString().slice(0, 19)}Z`;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: `tallyman.${digest}`, namespace: project, annotations },
    involvedObject: { apiVersion: "kargo.akuity.io/v1alpha1", namespace: project, ...involved },
    type,
    reason,
    message: message.length <= MAX_MESSAGE ? message : `${message.slice(0, MAX_MESSAGE - 1)}…`,
    source: { component: COMPONENT },
    reportingComponent: COMPONENT,
    reportingInstance: COMPONENT,
    firstTimestamp: timestamp,
    lastTimestamp: timestamp,
    count: 1,
  };
}
