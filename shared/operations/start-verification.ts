import { readAnalysisRun } from "../cluster/analysis-run-reader.ts";
import type { RunIdentity } from "../domain/analysis-run.ts";
import { isFault } from "../domain/fault.ts";
import { deriveAnalysisRunName, deriveVerificationId, type StageKey } from "../domain/identity.ts";
import { applyObservation, endVerification } from "../domain/observation.ts";
import { isTerminal } from "../domain/phase.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import type { Start, Superseded } from "../domain/start.ts";
import type { Verification } from "../domain/verification.ts";
import { makeAnalysisRun } from "./analysis-run.ts";
import { tellWorld } from "./record.ts";
import { reportPhase } from "./report-phase.ts";
import type { World } from "./world.ts";

/**
 * Starts a verification: creates its AnalysisRun, then enters it into the ledger. A handler that dies in
 * between is followed by one that finds the run by its name and adopts it. Without a configured verification
 * it is `Successful` at once; what cannot be carried out is `Error` at once. Returns what the ledger holds.
 */
export async function startVerification(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  start: Start,
): Promise<Verification> {
  const draft = withWarnings(world, draftVerification(world, key, stage.uid, start), stage.warnings);
  const outcome =
    stage.verification === undefined
      ? skipRun(world, draft)
      : await attemptRun(world, key, stage, start, draft);
  return enter(world, outcome);
}

/** Settings of the Stage that could not be used are named in the record: nobody reads a log for them. */
function withWarnings(
  world: World,
  draft: Verification,
  warnings: readonly string[] | undefined,
): Verification {
  if (warnings === undefined) return draft;
  world.log.warn("a Stage's settings cannot be used", { ...draft.key, verificationId: draft.id, warnings });
  return { ...draft, message: [draft.message, ...warnings].filter((text) => text !== "").join("; ") };
}

/** Leaves the record of Freight that another Promotion replaced before its verification could start. */
export async function recordSuperseded(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  superseded: Superseded,
  by: string,
): Promise<void> {
  const cause = { kind: "promotion", promotion: superseded.promotion } as const;
  const draft = draftVerification(world, key, stage.uid, {
    id: deriveVerificationId(cause, stage.uid, superseded.collection.id),
    cause,
    promotion: superseded.promotion,
    collection: superseded.collection,
    missingOrigins: [],
  });
  const record = await enter(
    world,
    // Entered at the time when it was due, which is where it belongs in the history.
    endVerification(
      { ...draft, createdAt: superseded.since ?? draft.createdAt },
      {
        phase: "Aborted",
        reason: "Superseded",
        message: `Promotion ${by} replaced this Freight before its verification could start`,
        now: world.clock.now(),
      },
    ),
  );
  await tellWorld(world, record);
}

/** Enters a verification that ends before it could start, because it waited for longer than it may. */
export function recordNeverStarted(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  start: Start,
  { message, since }: { readonly message: string; readonly since: number | undefined },
): Promise<Verification> {
  const draft = draftVerification(world, key, stage.uid, start);
  return enter(
    world,
    endVerification(
      { ...draft, createdAt: since ?? draft.createdAt },
      { phase: "Error", reason: "StartDeadlineExceeded", message, now: world.clock.now() },
    ),
  );
}

function draftVerification(world: World, key: StageKey, stageUid: string, start: Start): Verification {
  return {
    key,
    id: start.id,
    stageUid,
    cause: start.cause,
    promotion: start.promotion,
    collection: start.collection,
    missingOrigins: start.missingOrigins,
    actor: start.actor,
    phase: "Pending",
    message: start.missingOrigins.length === 0 ? "" : `no Freight from ${start.missingOrigins.join(", ")}`,
    createdAt: world.clock.now(),
    observed: "0",
    awaited: false,
  };
}

function skipRun(world: World, draft: Verification): Verification {
  return endVerification(draft, {
    phase: "Successful",
    reason: "NoVerificationConfigured",
    message: draft.message,
    now: world.clock.now(),
  });
}

async function attemptRun(
  world: World,
  key: StageKey,
  stage: StageSnapshot,
  start: Start,
  draft: Verification,
): Promise<Verification> {
  const identity: RunIdentity = {
    id: start.id,
    stageUid: stage.uid,
    cause: start.cause,
    promotion: start.promotion,
    collection: start.collection,
    missingOrigins: start.missingOrigins,
    ...(start.actor === undefined ? {} : { actor: start.actor }),
  };
  try {
    const made = await makeAnalysisRun(
      world.findCluster(key.cluster),
      key,
      stage,
      identity,
      world.controllerInstanceId,
    );
    for (const warning of made.warnings)
      world.log.warn("verification warning", { ...key, verificationId: start.id, warning });
    const message = [draft.message, ...made.warnings].filter((text) => text !== "").join("; ");
    const name = deriveAnalysisRunName(key.stage, start.id, start.collection.id);
    const { templates } = made;
    const pending: Verification = {
      ...draft,
      message,
      run: { name, phase: "" },
      ...(templates.length === 0 ? {} : { templates }),
    };
    if (made.created) return pending;
    // Adopted: it may be well under way, or over, with all of its events gone by.
    const run = readAnalysisRun(made.object);
    const seen = run === undefined ? undefined : applyObservation(pending, run, world.clock.now());
    return seen === undefined || seen.kind === "stale" ? pending : seen.next;
  } catch (error) {
    if (!isFault(error, "Permanent")) throw error;
    return endVerification(draft, {
      phase: "Error",
      reason: "CannotBuild",
      message: error.message,
      now: world.clock.now(),
    });
  }
}

/** Enters a new verification; when it is there already, what is there stands. */
async function enter(world: World, verification: Verification): Promise<Verification> {
  if (await world.ledger.createVerification(verification)) {
    reportPhase(world, verification, undefined);
    if (isTerminal(verification.phase)) await world.ledger.recordTransition(verification, undefined);
    return verification;
  }
  const existing = (await world.ledger.readVerification(verification.key, verification.id))?.verification;
  // Whoever entered it may have died before the details were there.
  if (existing !== undefined && isTerminal(existing.phase))
    await world.ledger.recordTransition(existing, undefined);
  return existing ?? verification;
}

/** Enters a verification that only its AnalysisRun knows of, because its maker died before it could. */
export async function adoptVerification(world: World, key: StageKey, identity: RunIdentity): Promise<void> {
  const draft = draftVerification(world, key, identity.stageUid, identity);
  const name = deriveAnalysisRunName(key.stage, identity.id, identity.collection.id);
  await enter(world, { ...draft, run: { name, phase: "" } });
}
