import { readStage } from "../../shared/cluster/stage-reader.ts";
import { digestHistory } from "../../shared/domain/foreign.ts";
import { deriveAnnotationRequestId } from "../../shared/domain/identity.ts";
import { type ClusterPolicy, findMode, findOtherShard } from "../../shared/domain/policy.ts";
import type { AnnotationRequest, StageSnapshot } from "../../shared/domain/stage.ts";
import { findClosedGate, findExclusion } from "../../shared/domain/start.ts";
import { formatTemplate } from "../../shared/domain/template-drift.ts";
import { buildMessage, fitMessage, observeStage } from "../../shared/messages/codec.ts";
import type { Message, MessageKind } from "../../shared/messages/schema.ts";
import type { Origin, Outgoing } from "./outgoing.ts";
import { createTraces, type Traces } from "./traces.ts";

/**
 * What is remembered of a Stage: just enough to tell whether a change asks for anything. Health counts only as part of
 * the gate, so that an Application that flaps while a verification runs does not become a stream of messages.
 */
export interface StageTrace {
  readonly uid: string;
  readonly exclusion: string | undefined;
  /** Whether verifications can ever take place here: a Stage of ours that is more than control flow. */
  readonly isRegular: boolean;
  /** The templates that it names, as `AnalysisTemplate/smoke`. */
  readonly templates: readonly string[];
  /** Why nothing may start; `""` while the gate is open. */
  readonly gate: string;
  readonly promotion: string;
  readonly collectionId: string;
  readonly verified: boolean;
  readonly reverify: string;
  readonly abort: string;
  /** Of the verifications that its status shows, where another verifier enters them; `""` where Tallyman does. */
  readonly shown: string;
}

/** Traces of Stages, from objects as the API server sends them. */
export function createStageTraces(policy: ClusterPolicy): Traces<StageTrace, StageSnapshot> {
  return createTraces((object) => {
    const stage = readStage(object);
    return { trace: traceStage(stage, policy), snapshot: stage };
  });
}

function traceStage(stage: StageSnapshot, policy: ClusterPolicy): StageTrace {
  return {
    uid: stage.uid,
    exclusion: findExclusion(stage, policy),
    templates: (stage.verification?.analysisTemplates ?? []).map(formatTemplate),
    isRegular: !stage.controlFlow && findOtherShard(stage, policy) === undefined,
    gate: findClosedGate(stage) ?? "",
    promotion: stage.lastPromotion?.name ?? "",
    collectionId: stage.current?.id ?? "",
    verified: (stage.history[0]?.verifications.length ?? 0) > 0,
    reverify: stage.reverify?.id ?? "",
    abort: stage.abort?.id ?? "",
    shown: findMode(stage, policy) === "companion" ? digestHistory(stage.history) : "",
  };
}

/**
 * The messages that a sight of a Stage asks for. `initial` is true for what the first list shows: there, a Stage
 * whose Freight has its verification already asks for nothing.
 */
export function planStageMessages(
  origin: Origin,
  stage: StageSnapshot,
  previous: StageTrace | undefined,
  current: StageTrace,
  initial: boolean,
  policy: ClusterPolicy,
): Outgoing[] {
  if (findOtherShard(stage, policy) !== undefined) return [];
  if (current.shown !== "") return planRecording(origin, stage, previous, current, initial);
  const outgoing: Outgoing[] = [];
  // An abort first: it must not wait for what a new verification costs.
  if (stage.abort !== undefined && stage.abort.id !== previous?.abort) {
    outgoing.push(toRequestMessage(origin, "abort", stage, stage.abort));
  }
  if (stage.reverify !== undefined && stage.reverify.id !== previous?.reverify) {
    outgoing.push(toRequestMessage(origin, "reverify", stage, stage.reverify));
  }
  if (asksForVerification(previous, current, initial)) {
    outgoing.push({
      kind: "verify",
      // Each Promotion has its own verification: a later one must not swallow an earlier one's message.
      coalesce: `${stage.project}/${stage.name}/${current.promotion}/${current.collectionId}`,
      message: build(origin, "verify", `${stage.uid}:${stage.resourceVersion}`, stage, {}),
    });
  }
  return outgoing;
}

/**
 * The message for a Stage of another verifier: record what it shows. Its annotations are for that verifier; what the
 * first list shows is recorded by the sweeper, which knows what is recorded already.
 */
function planRecording(
  origin: Origin,
  stage: StageSnapshot,
  previous: StageTrace | undefined,
  current: StageTrace,
  initial: boolean,
): Outgoing[] {
  if (initial || previous?.shown === current.shown) return [];
  return [
    {
      kind: "verify",
      coalesce: `shown/${stage.project}/${stage.name}`,
      message: build(origin, "verify", `${stage.uid}:${stage.resourceVersion}`, stage, {}),
    },
  ];
}

function asksForVerification(
  previous: StageTrace | undefined,
  current: StageTrace,
  initial: boolean,
): boolean {
  if (current.exclusion !== undefined) return false;
  if (initial) return !current.verified;
  const isNewFreight =
    previous === undefined ||
    previous.uid !== current.uid ||
    previous.promotion !== current.promotion ||
    previous.collectionId !== current.collectionId;
  if (isNewFreight) return true;
  const hasOpened = current.gate === "" && (previous.gate !== "" || previous.exclusion !== undefined);
  // Freight that waits shall say for what; Freight that has its verification only cares for an open gate.
  return hasOpened || (!current.verified && current.gate !== previous.gate);
}

function toRequestMessage(
  origin: Origin,
  kind: "reverify" | "abort",
  stage: StageSnapshot,
  request: AnnotationRequest,
): Outgoing {
  const id = deriveAnnotationRequestId(kind, request.id);
  const data = {
    verificationId: request.id,
    ...(request.actor === undefined || request.actor === "" ? {} : { actor: request.actor }),
  };
  return { kind, message: build(origin, kind, id, stage, data) };
}

function build(
  origin: Origin,
  kind: MessageKind,
  id: string,
  stage: StageSnapshot,
  data: { readonly verificationId?: string; readonly actor?: string },
): Message {
  const envelope = { id, source: origin.source, time: origin.now() };
  const observed = observeStage(stage);
  const { project, name } = stage;
  // The bounds of a Stage's many fields, taken together, are above what one message may hold.
  return fitMessage(
    buildMessage(kind, envelope, { cluster: origin.cluster, project, stage: name, ...data, observed }),
  );
}
