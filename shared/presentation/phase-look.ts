import type { Phase } from "../domain/phase.ts";

/** A style by the name that Node's `styleText` and the CLI's painter know it by. */
export type PhaseStyle = "dim" | "cyan" | "green" | "red" | "magenta" | "yellow";

/** How a phase is shown wherever people see one. An icon beside each word, so that nothing hangs on colour alone. */
export const PHASE_LOOKS: Readonly<Record<Phase, { readonly icon: string; readonly style: PhaseStyle }>> = {
  Pending: { icon: "○", style: "dim" },
  Running: { icon: "●", style: "cyan" },
  Successful: { icon: "✔", style: "green" },
  Failed: { icon: "✖", style: "red" },
  Error: { icon: "▲", style: "magenta" },
  Aborted: { icon: "■", style: "yellow" },
  Inconclusive: { icon: "?", style: "yellow" },
};
