import { type Command, InvalidArgumentError, Option } from "commander";
import type { Context } from "./context.ts";
import { describeExitCodes } from "./exit-codes.ts";
import { OUTPUT_FORMATS, type OutputFormat } from "./output.ts";
import { createPaint } from "./render/text.ts";
import { parseDuration } from "./render/time.ts";
import type { ViewOptions } from "./render/views.ts";

/** How a result is shown, and of which installation. */
export interface OutputOptions {
  readonly data?: string;
  readonly output: OutputFormat;
}

export interface CommonOptions extends OutputOptions {
  readonly project?: string;
  readonly cluster?: string;
}

export interface WaitOptions {
  readonly wait?: true;
  readonly timeout: number;
  readonly reason?: string;
  readonly actor?: string;
}

/** Adds what every command about Stages takes, and its examples. */
export function addCommonOptions(command: Command, context: Context, examples: readonly string[]): Command {
  return addOutputOptions(
    command
      .addOption(
        new Option(
          "-p, --project <name>",
          "the Stage's Project; may be left out where there is only one",
        ).env("TALLYMAN_PROJECT"),
      )
      .addOption(new Option("--cluster <name>", "default: the installation's first")),
    context,
    examples,
  );
}

/** Adds what every command takes, and its examples; each begins after what the person typed. */
export function addOutputOptions(command: Command, context: Context, examples: readonly string[]): Command {
  return command
    .addOption(
      new Option("-o, --output <format>", "how to show the result").choices(OUTPUT_FORMATS).default("table"),
    )
    .addOption(new Option("--data <folder>", "the data folder of an `npm start` that runs on this machine"))
    .addHelpText("after", formatExamples(context, examples));
}

function formatExamples(context: Context, examples: readonly string[]): string {
  const lines = examples.map((example) => `  ${context.invokedAs} ${example}`);
  return `\nExamples:\n${lines.join("\n")}\n\n${describeExitCodes()}`;
}

/** Adds what every command takes that asks for something. */
export function addRequestOptions(command: Command, context: Context): Command {
  return command
    .addOption(
      new Option("--actor <name>", "who asks, for the history")
        .argParser(parseText("--actor", 512))
        .default(`cli:${context.user}`),
    )
    .addOption(new Option("--reason <text>", "why, for the history").argParser(parseText("--reason", 1024)))
    .addOption(new Option("--wait", "follow the request and its verification to the end"))
    .addOption(
      new Option("--timeout <duration>", "of --wait, for example 90s, 10m or 1h30m")
        .argParser(parseTimeout)
        .default(600_000, "10m"),
    );
}

function parseTimeout(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError("It must be like 90s, 10m or 1h30m.");
  return ms;
}

function parseText(_name: string, limit: number) {
  return (text: string): string => {
    if (text === "" || text.length > limit)
      throw new InvalidArgumentError(`It must have 1 to ${limit} characters.`);
    return text;
  };
}

/** A positive whole number. */
export function parseLimit(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 100_000) {
    throw new InvalidArgumentError("It must be a whole number from 1 to 100000.");
  }
  return value;
}

/** Names of Kubernetes objects are lower case; what is pasted may not be. */
export function parseName(text: string): string {
  const name = text.trim().toLowerCase();
  if (name === "" || name.includes("/")) throw new InvalidArgumentError("It must be the name of a Stage.");
  return name;
}

export function createViewOptions({ terminal, clock }: Context, wide: boolean): ViewOptions {
  return { now: clock.now(), columns: terminal.columns, wide, paint: createPaint(terminal.color) };
}
