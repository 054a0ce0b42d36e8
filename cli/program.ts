import { Command, CommanderError } from "commander";
import { CommandError } from "./command-error.ts";
import { addAbortStage } from "./commands/abort-stage.ts";
import { addCombosStage } from "./commands/combos-stage.ts";
import { addDlqList, addDlqRedrive } from "./commands/dead-letters.ts";
import { addDescribeVerification } from "./commands/describe-verification.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addGetRequest } from "./commands/get-request.ts";
import { addGetStages } from "./commands/get-stages.ts";
import { addHistoryStage } from "./commands/history-stage.ts";
import { addReverifyStage } from "./commands/reverify-stage.ts";
import { addVerifyStage } from "./commands/verify-stage.ts";
import type { Context } from "./context.ts";
import { describeExitCodes, EXIT_CODES, type ExitCode, exitCodeOfError } from "./exit-codes.ts";
import { createPaint, toLine } from "./render/text.ts";
import type { Terminal } from "./terminal.ts";

const VERBS = {
  get: "Show Stages or a request.",
  history: "Show what happened.",
  describe: "Show everything about one verification.",
  combos: "Show what was verified together, and with what outcome.",
  verify: "Ask for a verification.",
  reverify: "Ask for a verification to be repeated.",
  abort: "Ask for a verification to be aborted.",
  dlq: "Look at messages that were given up, and put them back.",
} as const;

/** Runs the command line `args` (without node and script) and returns its exit code. Nothing is thrown. */
export async function runCli(args: readonly string[], outside: Context): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT_CODES.done;
  let isPlain = false;
  const terminal: Terminal = {
    ...outside.terminal,
    get color() {
      return outside.terminal.color && !isPlain;
    },
  };
  const context = { ...outside, terminal };
  const program = buildProgram(context, (code) => {
    exitCode = code;
  });
  program.option("--no-color", "no colours, as with NO_COLOR").on("option:no-color", () => {
    isPlain = true;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_CODES.done : EXIT_CODES.usage;
    writeError(context, error);
    return exitCodeOfError(error);
  }
}

function buildProgram(context: Context, finish: (code: ExitCode) => void): Command {
  const { terminal, invokedAs } = context;
  const program = new Command(invokedAs);
  // Set before commands are added, which inherit them.
  program.exitOverride().configureOutput({
    writeOut: (text) => terminal.out(text.trimEnd()),
    writeErr: (text) => terminal.err(text.trimEnd()),
    getOutHelpWidth: () => terminal.columns,
    getErrHelpWidth: () => terminal.columns,
  });
  program
    .description("The verification ledger for Kargo Stages: look at what happened, ask for more.")
    .showSuggestionAfterError()
    .showHelpAfterError(`(${invokedAs} --help shows what there is)`);
  const verbs = Object.fromEntries(
    Object.entries(VERBS).map(([name, summary]) => [name, program.command(name).description(summary)]),
  ) as Record<keyof typeof VERBS, Command>;
  addGetStages(verbs.get, context);
  addGetRequest(verbs.get, context);
  addHistoryStage(verbs.history, context);
  addDescribeVerification(verbs.describe, context);
  addCombosStage(verbs.combos, context, finish);
  addVerifyStage(verbs.verify, context, finish);
  addReverifyStage(verbs.reverify, context, finish);
  addAbortStage(verbs.abort, context, finish);
  addDlqList(verbs.dlq, context);
  addDlqRedrive(verbs.dlq, context, finish);
  addDoctor(program, context, finish);
  const examples = [
    "get stages -A",
    "history stage dev -p harbour-demo",
    "describe verification 9f2c41d0 --stage dev",
    "combos stage uat",
    "reverify stage dev --wait",
    'abort stage dev --reason "wrong image"',
    "dlq list",
    "dlq redrive --stage dev",
    "doctor",
  ].map((example) => `  ${invokedAs} ${example}`);
  program.addHelpText("after", `\nExamples:\n${examples.join("\n")}\n\n${describeExitCodes()}`);
  for (const [name, verb] of Object.entries(verbs)) {
    const own = examples.filter((example) => example.includes(` ${name} `));
    if (own.length > 0) verb.addHelpText("after", `\nExamples:\n${own.join("\n")}`);
  }
  return program;
}

function writeError({ terminal }: Context, error: unknown): void {
  // Colours follow standard output, which goes to the same terminal where there is one.
  const paint = createPaint(terminal.color);
  const message = toLine(error instanceof Error ? error.message : String(error));
  terminal.err(`${paint("red", "tallyman:")} ${message}`);
  if (error instanceof CommandError) for (const hint of error.hints) terminal.err(`  ${toLine(hint)}`);
}
