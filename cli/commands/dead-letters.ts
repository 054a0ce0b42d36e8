import { type Command, Option } from "commander";
import { MESSAGE_KINDS, type MessageKind } from "../../shared/messages/schema.ts";
import { toList } from "../../shared/presentation/document.ts";
import type { ReceivedLetter } from "../../shared/queue/dead-letter.ts";
import { listLetters, type RedriveReport, redriveLetters } from "../../shared/queue/redrive.ts";
import { CommandError } from "../command-error.ts";
import type { Context } from "../context.ts";
import { EXIT_CODES, type ExitCode } from "../exit-codes.ts";
import {
  addCommonOptions,
  type CommonOptions,
  createViewOptions,
  parseLimit,
  parseName,
} from "../options.ts";
import { isForPeople, writeResult } from "../output.ts";
import { formatLetters, formatRedrive, toLetter, toRedriven } from "../render/dead-letters.ts";
import { toLine } from "../render/text.ts";

interface Options extends CommonOptions {
  readonly kind?: MessageKind;
  readonly stage?: string;
}

const kindOption = () => new Option("--kind <kind>", "only this queue's dead letters").choices(MESSAGE_KINDS);
const stageOption = () => new Option("--stage <name>", "only those of this Stage").argParser(parseName);

/** `dlq list`: what the three dead-letter queues hold, and why. It takes nothing out of them. */
export function addDlqList(parent: Command, context: Context): void {
  const command = parent
    .command("list")
    .description(
      "Messages that were given up, oldest first, each with its reason. They stay where they are; while this " +
        "command looks at them, at most five minutes, nobody else sees them.",
    )
    .addOption(kindOption())
    .addOption(stageOption())
    .option("--limit <n>", "show so many", parseLimit, 1000);
  addCommonOptions(command, context, ["dlq list", "dlq list --kind abort", "dlq list --stage dev -o json"]);
  command.action((options: Options & { readonly limit: number }) =>
    showLetters(context, options, selectorOf(command, options, [])),
  );
}

/** `dlq redrive [ID...]`: dead letters back to their queues. */
export function addDlqRedrive(parent: Command, context: Context, finish: (code: ExitCode) => void): void {
  const command = parent
    .command("redrive")
    .description(
      "Puts dead letters back into their queues: all, or those of a kind, of a Stage or with an id. Invalid ones " +
        "would come back as they went and are kept, unless --force. A message that is worked on twice does no harm.",
    )
    .argument("[id...]", "ids as `dlq list` shows them, or their first eight characters or more")
    .addOption(kindOption())
    .addOption(stageOption())
    .option("--force", "invalid ones too, for example after an upgrade or a new cluster in the settings");
  addCommonOptions(command, context, [
    "dlq redrive",
    "dlq redrive --kind verify",
    "dlq redrive --stage dev -p harbour-demo",
    "dlq redrive 6a0b8f0e",
    "dlq redrive --force -o json",
  ]);
  command.action((ids: readonly string[], options: Options & { readonly force?: true }) =>
    redrive(context, ids, options, selectorOf(command, options, ids), finish),
  );
}

interface Selector {
  readonly kinds: readonly MessageKind[];
  readonly wanted: (letter: ReceivedLetter) => boolean;
}

const SHORTEST_ID = 8;

function matchesId(letter: ReceivedLetter, id: string): boolean {
  return [letter.id, letter.letterId].some(
    (each) => each === id || (id.length >= SHORTEST_ID && each.startsWith(id)),
  );
}

function selectorOf(command: Command, options: Options, ids: readonly string[]): Selector {
  const { cluster, stage } = options;
  // A Project from the environment is for commands about Stages: it must not hide letters that name no Project.
  const isMeant = stage !== undefined || command.getOptionValueSource("project") === "cli";
  const project = isMeant ? options.project : undefined;
  return {
    kinds: options.kind === undefined ? MESSAGE_KINDS : [options.kind],
    wanted: (letter) =>
      (stage === undefined || letter.target?.stage === stage) &&
      (project === undefined || letter.target?.project === project) &&
      (cluster === undefined || letter.target?.cluster === cluster) &&
      (ids.length === 0 || ids.some((id) => matchesId(letter, id))),
  };
}

async function showLetters(
  context: Context,
  options: Options & { readonly limit: number },
  { kinds, wanted }: Selector,
): Promise<void> {
  const { terminal, invokedAs } = context;
  const connection = context.connect(options.data);
  try {
    const { letters, unseen } = await listLetters(connection.deadLetters, kinds, wanted, options.limit);
    const people = isForPeople(options.output);
    if (letters.length === 0 && people) terminal.err("No dead letters.");
    else {
      writeResult(terminal, options.output, {
        document: () => toList("DeadLetterList", letters.map(toLetter), unseen > 0),
        names: () => letters.map(({ id }) => `deadletter/${id}`),
        text: (wide) => formatLetters(letters, createViewOptions(context, wide)),
      });
    }
    if (!people) return;
    if (unseen > 0) {
      terminal.err(
        `About ${unseen} more are not shown: beyond --limit, taken by somebody else for now, or behind one of the ` +
          "same Stage.",
      );
    }
    if (letters.length > 0) terminal.err(`Back to their queues: ${invokedAs} dlq redrive --help`);
  } finally {
    connection.close();
  }
}

async function redrive(
  context: Context,
  ids: readonly string[],
  options: Options & { readonly force?: true },
  { kinds, wanted }: Selector,
  finish: (code: ExitCode) => void,
): Promise<void> {
  const { terminal } = context;
  const connection = context.connect(options.data);
  try {
    let moved = 0;
    const report = await redriveLetters(connection.deadLetters, {
      kinds,
      wanted,
      force: options.force === true,
      report({ letter, outcome, message }) {
        if (outcome === "moved") moved++;
        else terminal.err(toLine(`${outcome} ${letter.kind} ${letter.id}: ${message}`));
        if (terminal.live) terminal.rawErr(`\r${moved} moved`);
      },
    });
    if (terminal.live && report.done.length > 0) terminal.rawErr("\n");
    requireFound(ids, report);
    writeResult(terminal, options.output, {
      document: () => toList("RedriveList", report.done.map(toRedriven)),
      names: () => report.done.map(({ letter }) => `deadletter/${letter.id}`),
      text: () => formatRedrive(report.done),
    });
    if (isForPeople(options.output)) writeAdvice(context, report);
    if (report.done.some(({ outcome }) => outcome !== "moved")) finish(EXIT_CODES.kept);
  } finally {
    connection.close();
  }
}

/** @throws CommandError when an id that was named is no dead letter's, after the others have been moved. */
function requireFound(ids: readonly string[], { done, mayHideOthers }: RedriveReport): void {
  const missing = ids.filter((id) => !done.some(({ letter }) => matchesId(letter, id)));
  if (missing.length === 0) return;
  throw new CommandError("notFound", `no dead letter ${missing.join(", ")}`, [
    ...(done.length > 0 ? [formatRedrive(done)] : []),
    ...(mayHideOthers ? ["It may stand behind another of its Stage, which has to go first."] : []),
    "See all: tallyman dlq list",
  ]);
}

function writeAdvice({ terminal }: Context, { done, mayHideOthers }: RedriveReport): void {
  if (done.some(({ outcome }) => outcome === "kept")) {
    terminal.err("Invalid ones stay: mend what their reasons name, then --force.");
  }
  if (done.some(({ outcome }) => outcome === "failed"))
    terminal.err("What could not be moved is still there.");
  if (mayHideOthers) terminal.err("Behind some that stay there may be others of the same Stage.");
}
