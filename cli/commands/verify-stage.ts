import type { Command } from "commander";
import type { Context } from "../context.ts";
import type { ExitCode } from "../exit-codes.ts";
import { addCommonOptions, addRequestOptions, parseName } from "../options.ts";
import { type RequestOptions, runRequest } from "../request-command.ts";

/** `verify stage NAME`: what is due starts; where nothing is due, the latest verification is repeated. */
export function addVerifyStage(parent: Command, context: Context, finish: (code: ExitCode) => void): void {
  const command = parent
    .command("stage")
    .description("Start the verification that is due; where none is, repeat the Stage's latest.")
    .argument("<name>", "the Stage", parseName)
    .option("--abort", "abort the Stage's latest verification instead, as `abort stage` does");
  addRequestOptions(command, context);
  addCommonOptions(command, context, [
    "verify stage dev",
    "verify stage dev --wait --timeout 5m",
    'verify stage dev --abort --reason "wrong image"',
  ]);
  command.action(async (name: string, options: RequestOptions & { readonly abort?: true }) => {
    finish(await runRequest(context, options.abort ? "abort" : "verify", name, options));
  });
}
