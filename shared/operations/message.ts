import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../cluster/annotations.ts";
import { Fault } from "../domain/fault.ts";
import { deriveAnnotationRequestId, type StageKey } from "../domain/identity.ts";
import type { Request } from "../domain/request.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import type { Message } from "../messages/schema.ts";
import type { Delivery } from "../runtime/batch.ts";
import { abortVerification } from "./abort-verification.ts";
import { observeRun } from "./observe-run.ts";
import { reverifyStage } from "./reverify-stage.ts";
import { fetchStage } from "./stage-record.ts";
import { noteTemplates } from "./template-drift.ts";
import { continueAfter, verifyStage } from "./verify-stage.ts";
import type { World } from "./world.ts";
import { clearAnnotation } from "./write-back.ts";

/**
 * A `verify` message: a sight of a Stage or of an AnalysisRun, or none ("look for yourself"). With an actor and
 * without a sight it is somebody's request: what is due starts, and where nothing is due the latest
 * verification is done again.
 */
export async function handleVerify(
  world: World,
  key: StageKey,
  message: Message,
  delivery: Delivery,
): Promise<void> {
  const { observed, actor } = message.data;
  const request = (snapshot: StageSnapshot | undefined) =>
    reverifyStage(world, key, toRequest(message), { kind: "verify", snapshot, ...delivery });
  if (observed?.kind === "AnalysisRun") {
    const { phaseChanged = true } = observed;
    const ended = await observeRun(world, key, observed, { phaseChanged, redelivered: delivery.redelivered });
    if (ended !== undefined) await continueAfter(world, ended);
    return;
  }
  if (observed?.kind === "Template") {
    const { template: kind, name, generation, hash } = observed;
    await noteTemplates(world, key, [{ kind, name, generation, hash }], delivery.redelivered);
    return;
  }
  const stage = observed ?? (await fetchStage(world, key));
  if (stage === undefined) {
    if (actor !== undefined) await request(undefined);
    return;
  }
  if (observed !== undefined || actor === undefined) {
    await verifyStage(world, key, stage, delivery);
    return;
  }
  const visit = await verifyStage(world, key, stage, { ...delivery, requestId: requestIdOf(message) });
  if (visit.started === undefined) {
    await request(stage);
    return;
  }
  await world.ledger.writeRequest({
    key,
    requestId: requestIdOf(message),
    kind: "verify",
    actor,
    reason: message.data.reason,
    outcome: "started",
    verificationId: visit.started.id,
    message: `verification ${visit.started.id} started`,
    createdAt: world.clock.now(),
  });
}

/** A `reverify` message, from an annotation (then it brings the Stage) or from anybody else. */
export async function handleReverify(
  world: World,
  key: StageKey,
  message: Message,
  delivery: Delivery,
): Promise<void> {
  const stage = await findStage(world, key, message, "reverify");
  await reverifyStage(world, key, toRequest(message), { kind: "reverify", snapshot: stage, ...delivery });
  const { reverify } = stage ?? {};
  if (reverify?.id === message.data.verificationId) {
    await clearAnnotation(world, key, REVERIFY_ANNOTATION, reverify?.value);
  }
}

/** An `abort` message. */
export async function handleAbort(
  world: World,
  key: StageKey,
  message: Message,
  delivery: Delivery,
): Promise<void> {
  const { abort } = (await findStage(world, key, message, "abort")) ?? {};
  const { ended } = await abortVerification(world, key, toRequest(message), delivery.redelivered);
  if (abort?.id === message.data.verificationId)
    await clearAnnotation(world, key, ABORT_ANNOTATION, abort?.value);
  if (ended !== undefined) await continueAfter(world, ended);
}

/** The Stage that the message brought; of an annotation whose Stage was too large to be brought, the live one. */
async function findStage(
  world: World,
  key: StageKey,
  message: Message,
  kind: "reverify" | "abort",
): Promise<StageSnapshot | undefined> {
  const { observed, verificationId } = message.data;
  if (observed !== undefined && observed.kind !== "Stage") {
    throw new Fault(
      "Invalid",
      `data.observed: a ${message.type} message takes a Stage, not ${observed.kind}`,
    );
  }
  const isAnnotation =
    verificationId !== undefined && message.id === deriveAnnotationRequestId(kind, verificationId);
  return observed ?? (isAnnotation ? await fetchStage(world, key) : undefined);
}

/** A request's identity is its message's: the same one sent again is the same request. */
function requestIdOf(message: Message): string {
  return message.id;
}

function toRequest(message: Message): Request {
  const { verificationId, actor, reason } = message.data;
  return {
    requestId: requestIdOf(message),
    ...(verificationId === undefined ? {} : { target: verificationId }),
    ...(actor === undefined ? {} : { actor }),
    ...(reason === undefined ? {} : { reason }),
  };
}
