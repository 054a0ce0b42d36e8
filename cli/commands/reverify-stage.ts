import type { Command } from "commander";
import type { Context } from "../context.ts";
import type { ExitCode } from "../exit-codes.ts";
import { addCommonOptions, addRequestOptions, parseName } from "../options.ts";
import { type RequestOptions, runRequest } from "../request-command.ts";

/** `reverify stage NAME`: repeats a verification once it has ended. */
export function addReverifyStage(parent: Command, context: Context, finish: (code: ExitCode) => void): void {
  const command = parent
    .command("stage")
    .description(
      "Repeat the Stage's latest verification; while that still runs, the request waits for its end.",
    )
    .argument("<name>", "the Stage", parseName)
    .option(
      "--verification <id>",
      "refuse if this is no longer the latest; repeated once, however often asked",
    );
  addRequestOptions(command, context);
  addCommonOptions(command, context, [
    "reverify stage dev --wait",
    'reverify stage dev --verification 9f2c41d0 --reason "new test data"',
  ]);
  command.action(async (name: string, options: RequestOptions) => {
    finish(await runRequest(context, "reverify", name, options));
  });
}
