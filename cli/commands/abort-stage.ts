import type { Command } from "commander";
import type { Context } from "../context.ts";
import type { ExitCode } from "../exit-codes.ts";
import { addCommonOptions, addRequestOptions, parseName } from "../options.ts";
import { type RequestOptions, runRequest } from "../request-command.ts";

/** `abort stage NAME`: ends the running verification as Aborted. */
export function addAbortStage(parent: Command, context: Context, finish: (code: ExitCode) => void): void {
  const command = parent
    .command("stage")
    .description("Abort the Stage's running verification; one that has ended keeps its result.")
    .argument("<name>", "the Stage", parseName)
    .option("--verification <id>", "refuse if this is no longer the latest");
  addRequestOptions(command, context);
  addCommonOptions(command, context, [
    'abort stage dev --reason "wrong image"',
    "abort stage dev --verification 9f2c41d0 --wait",
  ]);
  command.action(async (name: string, options: RequestOptions) => {
    finish(await runRequest(context, "abort", name, options));
  });
}
