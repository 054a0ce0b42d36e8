import { createHash } from "node:crypto";
import { readAnalysisRun } from "../../shared/cluster/analysis-run-reader.ts";
import type { AnalysisRunSnapshot, RunIdentity } from "../../shared/domain/analysis-run.ts";
import { isTerminal, readRunPhase } from "../../shared/domain/phase.ts";
import type { ClusterPolicy } from "../../shared/domain/policy.ts";
import { buildMessage, observeRun } from "../../shared/messages/codec.ts";
import type { Origin, Outgoing } from "./outgoing.ts";
import { createTraces, type Traces } from "./traces.ts";

/** What is remembered of an AnalysisRun: enough to say that it is gone, and whether its phase changed. */
export interface RunTrace {
  readonly uid: string;
  readonly project: string;
  readonly name: string;
  readonly stage: string;
  readonly identity: RunIdentity | undefined;
  readonly phase: string;
  /** Of everything else in its snapshot, so that a change of mere bookkeeping fields is none. */
  readonly digest: string;
}

/** Traces of AnalysisRuns, from objects as the API server sends them. */
export function createRunTraces(): Traces<RunTrace, AnalysisRunSnapshot> {
  return createTraces((object) => {
    const run = readAnalysisRun(object);
    if (run === undefined)
      throw new Error("the AnalysisRun is of no Stage, although its label was asked for");
    return { trace: traceRun(run), snapshot: run };
  });
}

function traceRun(run: AnalysisRunSnapshot): RunTrace {
  const { resourceVersion: _, ...rest } = run;
  return {
    uid: run.uid,
    project: run.project,
    name: run.name,
    stage: run.stage,
    identity: run.identity,
    phase: run.phase,
    digest: createHash("sha1").update(JSON.stringify(rest)).digest("base64"),
  };
}

/**
 * The message that a sight of an AnalysisRun asks for. `isOpen` says whether the ledger has the verification
 * open; the first list shows every run that ever ended, and those that the ledger has closed are no news.
 */
export function planRunMessage(
  origin: Origin,
  run: AnalysisRunSnapshot,
  previous: RunTrace | undefined,
  initial: boolean,
  isOpen: (verificationId: string) => boolean,
  policy: ClusterPolicy,
): Outgoing | undefined {
  if (run.identity === undefined) return planForeignRun(origin, run, previous, initial, policy);
  // Its controller has not touched it: that is how it was made, and the ledger has it so.
  if (run.phase === "") return undefined;
  if (initial && isOver(run.phase) && !isOpen(run.identity.id)) return undefined;
  return toMessage(origin, run, previous === undefined || previous.phase !== run.phase);
}

/** Another verifier's run counts where that one verifies; only its phase is followed, as that verifier does. */
function planForeignRun(
  origin: Origin,
  run: AnalysisRunSnapshot,
  previous: RunTrace | undefined,
  initial: boolean,
  { mode }: ClusterPolicy,
): Outgoing | undefined {
  if (mode !== "companion" || initial || run.phase === "" || previous?.phase === run.phase) return undefined;
  return toMessage(origin, run, true);
}

/** The message that the deletion of a run asks for; none when its end was seen, since that was sent. */
export function planRunDeletion(
  origin: Origin,
  trace: RunTrace,
  resourceVersion: string,
): Outgoing | undefined {
  if (trace.identity === undefined || isOver(trace.phase)) return undefined;
  const { uid, project, name, stage, identity, phase } = trace;
  return toMessage(
    origin,
    {
      ...{ uid, project, name, stage, identity, phase, resourceVersion },
      terminating: false,
      deleted: true,
      metrics: [],
      omittedMetrics: 0,
    },
    true,
  );
}

function isOver(phase: string): boolean {
  const known = readRunPhase(phase);
  return known !== undefined && isTerminal(known);
}

function toMessage(origin: Origin, run: AnalysisRunSnapshot, phaseChanged: boolean): Outgoing {
  const id = `${run.uid}:${run.resourceVersion}${run.deleted ? ":deleted" : ""}`;
  return {
    kind: "verify",
    coalesce: `${run.project}/${run.name}`,
    phaseChanged,
    message: buildMessage(
      "verify",
      { id, source: origin.source, time: origin.now() },
      {
        cluster: origin.cluster,
        project: run.project,
        stage: run.stage,
        observed: observeRun(run, phaseChanged),
      },
    ),
  };
}
