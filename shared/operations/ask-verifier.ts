import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../cluster/annotations.ts";
import type { KubernetesObject } from "../cluster/cluster.ts";
import { readStage } from "../cluster/stage-reader.ts";
import { setAnnotationPatch } from "../cluster/stage-status.ts";
import { Fault } from "../domain/fault.ts";
import type { StageKey } from "../domain/identity.ts";
import { isTerminal } from "../domain/phase.ts";
import { decideAbort, describeTooLate, type Request, settleRequest } from "../domain/request.ts";
import type { RequestRecord, StageRecord, Verification } from "../domain/verification.ts";
import type { Versioned } from "../ledger/ledger.ts";
import { announceRefusal } from "./announce.ts";
import { recordStage } from "./record-stage.ts";
import type { World } from "./world.ts";

/**
 * Passes a request to repeat on to the Stage's own verifier, as the annotation that it understands. The request is
 * recorded before the annotation is set, and stays `waiting` until the successor is seen. Set again it would change
 * nothing: the other verifier only heeds it while the verification that it names is its latest.
 */
export async function askToRepeat(
  world: World,
  key: StageKey,
  base: RequestRecord,
  object: KubernetesObject,
): Promise<RequestRecord> {
  await recordStage(world, key, object);
  const record = await world.ledger.readStage(key);
  const id = base.target ?? record.latest?.id;
  const target = id === undefined ? undefined : await world.ledger.readVerification(key, id);
  const refusal = findRefusal(base, record, target?.verification);
  if (refusal !== undefined || target === undefined) return refuse(world, base, refusal ?? "");
  const { waiting } = record;
  const after = target.verification.id;
  if (waiting !== undefined && waiting.after === after && waiting.requestId !== base.requestId) {
    return refuse(world, base, `request ${waiting.requestId} already waits to repeat verification ${after}`);
  }
  const written = settleRequest(base, {
    outcome: "waiting",
    target: after,
    message: `the Stage's own verifier was asked to repeat verification ${after}`,
  });
  await world.ledger.writeRequest(written);
  if (waiting?.requestId !== base.requestId) {
    await world.ledger.writeStage({
      ...record,
      waiting: {
        requestId: base.requestId,
        cause: { kind: "reverify", of: after },
        after,
        at: base.createdAt,
        ...(base.actor === undefined ? {} : { actor: base.actor }),
        ...(base.reason === undefined ? {} : { reason: base.reason }),
      },
    });
  }
  await annotate(world, key, object, "reverify", after, base.actor);
  return written;
}

function findRefusal(
  base: RequestRecord,
  record: StageRecord,
  target: Verification | undefined,
): string | undefined {
  if (target === undefined) {
    return base.target === undefined
      ? `Stage ${record.key.stage} has no verification to repeat`
      : `verification ${base.target} is not in the ledger of Stage ${record.key.stage}`;
  }
  if (record.latest?.id === target.id) return undefined;
  return `verification ${target.id} is no longer the Stage's latest; that is ${record.latest?.id ?? "none"}`;
}

/**
 * Passes an abort on to the verifier whose verification it is. It is recorded first, and from then on what that verifier
 * enters as a failure counts as aborted.
 *
 * @throws Fault `Conflict` when somebody was faster; the caller decides again.
 */
export async function askToAbort(
  world: World,
  base: RequestRecord,
  request: Request,
  record: StageRecord,
  target: Versioned,
): Promise<RequestRecord> {
  const { verification, revision } = target;
  const { key } = record;
  const decision = decideAbort(request, record, verification);
  if (decision.kind === "refuse") return refuse(world, base, decision.message);
  if (decision.kind === "too-late" || isTerminal(verification.phase)) {
    return refuse(world, base, describeTooLate(verification), "too-late");
  }
  const written = settleRequest(base, {
    outcome: "waiting",
    target: verification.id,
    message: `the Stage's own verifier was asked to abort verification ${verification.id}`,
  });
  await world.ledger.writeRequest(written);
  if (verification.abort === undefined) {
    const abort = {
      requestId: base.requestId,
      at: world.clock.now(),
      ...(request.actor === undefined ? {} : { actor: request.actor }),
      ...(request.reason === undefined ? {} : { reason: request.reason }),
    };
    await world.ledger.updateVerification({ ...verification, abort }, revision);
  }
  const object = await world.findCluster(key.cluster).getStage(key.project, key.stage);
  if (object !== undefined) await annotate(world, key, object, "abort", verification.id, base.actor);
  return written;
}

/** Sets the annotation, unless the Stage has one for this very verification already. */
async function annotate(
  world: World,
  key: StageKey,
  object: KubernetesObject,
  kind: "reverify" | "abort",
  id: string,
  actor: string | undefined,
): Promise<void> {
  if (readStage(object)[kind]?.id === id) return;
  const value = JSON.stringify({ id, ...(actor === undefined ? {} : { actor }) });
  const patch = setAnnotationPatch(object, kind === "abort" ? ABORT_ANNOTATION : REVERIFY_ANNOTATION, value);
  if ((await world.findCluster(key.cluster).patchStage(key.project, key.stage, patch)) === "conflict") {
    throw new Fault("Conflict", `Stage ${key.project}/${key.stage} changed while a request was passed on`);
  }
}

async function refuse(
  world: World,
  base: RequestRecord,
  message: string,
  outcome: "refused" | "too-late" = "refused",
): Promise<RequestRecord> {
  world.meter.count("RequestsRefused");
  const record = settleRequest(base, { outcome, message });
  await world.ledger.writeRequest(record);
  await announceRefusal(world, record, undefined);
  return record;
}
