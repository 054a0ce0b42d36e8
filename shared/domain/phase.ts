/** The phases of a verification. The last five are terminal; they never overlap (Error: could not be carried out; Failed: ran and the answer is no; Aborted: somebody or something stopped it). */
export const PHASES = [
  "Pending",
  "Running",
  "Successful",
  "Failed",
  "Error",
  "Aborted",
  "Inconclusive",
] as const;

export type Phase = (typeof PHASES)[number];
export type TerminalPhase = Exclude<Phase, "Pending" | "Running">;

/** True for the five phases that are final. */
export function isTerminal(phase: Phase): phase is TerminalPhase {
  return phase !== "Pending" && phase !== "Running";
}

/**
 * The phase that an AnalysisRun's own `status.phase` stands for. A run that its controller has not
 * touched yet reports `""`, which is Pending. `undefined` for a text that Argo Rollouts does not know.
 */
export function readRunPhase(text: string | undefined): Phase | undefined {
  if (text === undefined || text === "") return "Pending";
  return text !== "Aborted" && (PHASES as readonly string[]).includes(text) ? (text as Phase) : undefined;
}
