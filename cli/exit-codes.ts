import { Fault } from "../shared/domain/fault.ts";
import type { TerminalPhase } from "../shared/domain/phase.ts";
import { CommandError } from "./command-error.ts";

/** Every exit code there is; `docs/cli.md` and `--help` show this table. */
export const EXIT_CODES = {
  done: 0,
  other: 1,
  usage: 2,
  notFound: 4,
  unreachable: 5,
  failed: 10,
  error: 11,
  aborted: 12,
  inconclusive: 13,
  refused: 14,
  tooLate: 15,
  timedOut: 16,
  kept: 17,
  unwell: 18,
} as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

const MEANINGS: Readonly<Record<keyof typeof EXIT_CODES, string>> = {
  done: "done; with --wait: Successful, or the abort was carried out",
  other: "something unforeseen",
  usage: "wrong arguments or settings",
  notFound: "no such Stage, verification, request, Project or cluster",
  unreachable: "the installation does not answer, or there is none",
  failed: "with --wait: the verification ended Failed",
  error: "with --wait: the verification ended Error",
  aborted: "with --wait: the verification ended Aborted",
  inconclusive: "with --wait: the verification ended Inconclusive",
  refused: "with --wait: the request was refused",
  tooLate: "with --wait: the abort came after the end",
  timedOut: "with --wait: --timeout passed first",
  kept: "dlq redrive: something was kept, or could not be moved",
  unwell: "doctor: something does not work",
};

/** Lines of code and meaning, for `--help`. */
export function describeExitCodes(): string {
  const lines = Object.entries(MEANINGS).map(
    ([name, meaning]) => `  ${String(EXIT_CODES[name as keyof typeof EXIT_CODES]).padStart(2)}  ${meaning}`,
  );
  return ["Exit codes:", ...lines].join("\n");
}

const OF_PHASE: Readonly<Record<TerminalPhase, ExitCode>> = {
  Successful: EXIT_CODES.done,
  Failed: EXIT_CODES.failed,
  Error: EXIT_CODES.error,
  Aborted: EXIT_CODES.aborted,
  Inconclusive: EXIT_CODES.inconclusive,
};

export const exitCodeOfPhase = (phase: TerminalPhase): ExitCode => OF_PHASE[phase];

/** The exit code of anything that was thrown. */
export function exitCodeOfError(error: unknown): ExitCode {
  if (error instanceof CommandError) return EXIT_CODES[error.exit];
  if (!(error instanceof Fault)) return EXIT_CODES.other;
  switch (error.kind) {
    case "Invalid":
      return EXIT_CODES.usage;
    case "Transient":
    case "Conflict":
      return EXIT_CODES.unreachable;
    case "Permanent":
      return EXIT_CODES.other;
  }
}
