import { type AnalysisRunSnapshot, addCounts, type MeasurementCounts } from "./analysis-run.ts";
import { isTerminal, type Phase, readRunPhase } from "./phase.ts";
import { compareResourceVersions } from "./resource-version.ts";
import { type AbortRecord, isForeign, type Reason, type Verification } from "./verification.ts";

/**
 * What an observation of an AnalysisRun means for its verification.
 *
 * - `stale`: older than, or the same as, what was applied; nothing to do.
 * - `progress`: same phase, newer facts.
 * - `transition`: the phase changes.
 * - `evidence`: the verification is terminal already; only the run's own phase beside it is news.
 */
export type Observation =
  | { readonly kind: "stale" }
  | { readonly kind: "progress"; readonly next: Verification }
  | { readonly kind: "transition"; readonly next: Verification }
  | { readonly kind: "evidence"; readonly next: Verification };

/** Argo Rollouts' message for a run that ended because of `spec.terminate`, with nothing bad measured. */
const RUN_TERMINATED = "Run Terminated";

/** What one sight of an AnalysisRun stands for, before the verification's own history is looked at. */
type RunEvent =
  | "pending"
  | "running"
  | "successful"
  | "failed"
  | "error"
  | "inconclusive"
  | "terminated"
  | "gone";

/**
 * The state machine, without a gap: the phase that follows each event in each phase. A run that falls
 * back from Running to Pending is still running (Argo Rollouts starts anew after its controller restarts);
 * a terminal phase is final.
 */
const NEXT: Readonly<Record<Phase, Readonly<Record<RunEvent, Phase>>>> = {
  Pending: {
    pending: "Pending",
    running: "Running",
    successful: "Successful",
    failed: "Failed",
    error: "Error",
    inconclusive: "Inconclusive",
    terminated: "Aborted",
    gone: "Error",
  },
  Running: {
    pending: "Running",
    running: "Running",
    successful: "Successful",
    failed: "Failed",
    error: "Error",
    inconclusive: "Inconclusive",
    terminated: "Aborted",
    gone: "Error",
  },
  Successful: final("Successful"),
  Failed: final("Failed"),
  Error: final("Error"),
  Aborted: final("Aborted"),
  Inconclusive: final("Inconclusive"),
};

function final(phase: Phase): Readonly<Record<RunEvent, Phase>> {
  return {
    pending: phase,
    running: phase,
    successful: phase,
    failed: phase,
    error: phase,
    inconclusive: phase,
    terminated: phase,
    gone: phase,
  };
}

const EVENT_OF_PHASE: Readonly<Record<Phase, RunEvent>> = {
  Pending: "pending",
  Running: "running",
  Successful: "successful",
  Failed: "failed",
  Error: "error",
  Inconclusive: "inconclusive",
  Aborted: "terminated",
};

function readEvent(run: AnalysisRunSnapshot): RunEvent {
  const phase = readRunPhase(run.phase);
  // A run that was terminated reports Successful: an abort must not become a pass.
  if (run.terminating && phase === "Successful" && run.message === RUN_TERMINATED) return "terminated";
  if (phase !== undefined && isTerminal(phase)) return EVENT_OF_PHASE[phase];
  if (run.deleted) return "gone";
  // A phase that a newer Argo Rollouts may invent is not terminal to us; the run is followed on.
  return phase === undefined ? "running" : EVENT_OF_PHASE[phase];
}

/** The verification phase that a run stands for by itself; used where there is no history yet. */
export function readRunOutcome(run: AnalysisRunSnapshot): Phase {
  return NEXT.Pending[readEvent(run)];
}

/** All measurements of a run, by outcome: those of the metrics that its summary leaves out, and dry runs, count too. */
export function sumMeasurements(run: AnalysisRunSnapshot): MeasurementCounts {
  return addCounts([...run.metrics, ...(run.omittedCounts === undefined ? [] : [run.omittedCounts])]);
}

/**
 * Applies one sight of the AnalysisRun to its verification. Pure; `now` in milliseconds since the epoch.
 *
 * @throws Fault `Invalid` when the run's resourceVersion is not a number.
 */
export function applyObservation(
  verification: Verification,
  run: AnalysisRunSnapshot,
  now: number,
): Observation {
  if (compareResourceVersions(run.resourceVersion, verification.observed) <= 0) return { kind: "stale" };
  const seen = {
    ...verification,
    observed: run.resourceVersion,
    run: { name: run.name, phase: run.phase },
    counts: sumMeasurements(run),
  };
  if (isTerminal(verification.phase)) {
    // Only the run's own end is worth a write once ours is final.
    return run.phase === verification.run?.phase ? { kind: "stale" } : { kind: "evidence", next: seen };
  }

  const event = readEvent(run);
  const natural = NEXT[verification.phase][event];
  if (natural === verification.phase) return { kind: "progress", next: seen };
  const startedAt = verification.startedAt ?? now;
  if (!isTerminal(natural)) {
    return { kind: "transition", next: { ...seen, phase: natural, startedAt, message: run.message ?? "" } };
  }
  // An abort that was recorded first wins over whatever the run reports, its deletion included.
  const phase = verification.abort === undefined ? natural : phaseOfAbort(verification.abort);
  const reason = explainEnd(event, verification, run);
  return {
    kind: "transition",
    next: {
      ...seen,
      phase,
      ...(reason === undefined ? {} : { reason }),
      message: describeEnd(run, verification, reason),
      startedAt,
      finishedAt: now,
    },
  };
}

function explainEnd(
  event: RunEvent,
  verification: Verification,
  run: AnalysisRunSnapshot,
): Reason | undefined {
  if (verification.abort !== undefined) return verification.abort.because ?? "AbortRequested";
  if (event === "gone") return "AnalysisRunDeleted";
  if (event === "terminated") return "TerminatedOutside";
  return event === "successful" && isUnsupported(run) ? "Unsupported" : undefined;
}

/**
 * True for a run that calls itself Successful although it measured and not one measurement says so. Its verdict stands,
 * since it is Argo Rollouts' to give, but it must not look clean. Dry runs may fail as they like.
 */
function isUnsupported({ metrics, omittedMetrics }: AnalysisRunSnapshot): boolean {
  if (omittedMetrics > 0) return false;
  const counted = addCounts(metrics.filter(({ dryRun }) => !dryRun));
  return counted.count > 0 && counted.successful === 0;
}

function describeEnd(
  run: AnalysisRunSnapshot,
  verification: Verification,
  reason: Reason | undefined,
): string {
  switch (reason) {
    case "AbortRequested":
    case "Superseded":
    case "DeadlineExceeded":
      return describeAbort(verification);
    case "AnalysisRunDeleted":
      return isForeign(verification)
        ? `AnalysisRun ${run.name} is no more, and nobody saw how it ended`
        : `AnalysisRun ${run.name} was deleted before it ended`;
    case "TerminatedOutside":
      return `AnalysisRun ${run.name} was terminated by somebody other than Tallyman`;
    case "Unsupported":
      return `AnalysisRun ${run.name} calls itself Successful, although none of its measurements was`;
    default:
      return run.message ?? "";
  }
}

/** The phase that a recorded abort leads to. */
function phaseOfAbort({ because }: AbortRecord): "Aborted" | "Error" {
  return because === "DeadlineExceeded" ? "Error" : "Aborted";
}

/** `Aborted by ACTOR: REASON`, with what of it is known; a deadline's own sentence. */
export function describeAbort(verification: Verification): string {
  const { actor, reason, because } = verification.abort ?? {};
  if (because === "DeadlineExceeded") return reason ?? "the deadline has passed";
  const by = actor === undefined ? "Aborted on request" : `Aborted by ${actor}`;
  return reason === undefined ? by : `${by}: ${reason}`;
}

/** Ends an open verification without a sight of its run. A terminal one comes back as it is. */
export function endVerification(
  verification: Verification,
  end: {
    readonly phase: "Error" | "Aborted" | "Successful";
    readonly reason: Reason;
    readonly message: string;
    readonly now: number;
  },
): Verification {
  if (isTerminal(verification.phase)) return verification;
  return {
    ...verification,
    phase: verification.abort === undefined ? end.phase : phaseOfAbort(verification.abort),
    reason: verification.abort === undefined ? end.reason : (verification.abort.because ?? "AbortRequested"),
    message: verification.abort === undefined ? end.message : describeAbort(verification),
    startedAt: verification.startedAt ?? end.now,
    finishedAt: end.now,
  };
}
