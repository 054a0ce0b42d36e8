import type { StageKey } from "../domain/identity.ts";
import { formatStageKey } from "../domain/identity.ts";
import type { Phase } from "../domain/phase.ts";

/** The CloudEvents `type` of a change of phase. */
export const PHASE_EVENT_TYPE = "dev.tallyman.verification.phase";

/** A verification has come into a phase: a CloudEvents 1.0 event for whoever subscribes. */
export interface PhaseEvent {
  readonly specversion: "1.0";
  /** Verification and phase: the same change told twice has the same id. */
  readonly id: string;
  /** `tallyman/<installation>`. */
  readonly source: string;
  readonly type: typeof PHASE_EVENT_TYPE;
  /** `cluster/project/stage`. */
  readonly subject: string;
  readonly time: string;
  readonly datacontenttype: "application/json";
  readonly data: {
    readonly cluster: string;
    readonly project: string;
    readonly stage: string;
    readonly verificationId: string;
    readonly phase: Phase;
    /** Where the phase alone does not say why. */
    readonly reason?: string;
    readonly message?: string;
    /** As it was when the phase was recorded; missing where no run had been seen. */
    readonly analysisRun?: { readonly name: string; readonly phase: string };
  };
}

/** What is told of a change of phase. */
export interface PhaseChange {
  readonly key: StageKey;
  readonly verificationId: string;
  readonly phase: Phase;
  readonly reason?: string | undefined;
  readonly message: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly run?: { readonly name: string; readonly phase: string } | undefined;
}

/** Builds the event of a change of phase in an installation. */
export function buildPhaseEvent(installation: string, change: PhaseChange): PhaseEvent {
  const { key, verificationId, phase, reason, message, at, run } = change;
  return {
    specversion: "1.0",
    id: `${verificationId}/${phase}`,
    source: `tallyman/${installation}`,
    type: PHASE_EVENT_TYPE,
    subject: formatStageKey(key),
    time: new Date(at).toISOString(),
    datacontenttype: "application/json",
    data: {
      ...key,
      verificationId,
      phase,
      ...(reason === undefined ? {} : { reason }),
      ...(message === "" ? {} : { message }),
      ...(run === undefined ? {} : { analysisRun: { name: run.name, phase: run.phase } }),
    },
  };
}
