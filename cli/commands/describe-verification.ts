import type { Command } from "commander";
import { toDescription, toObject } from "../../shared/presentation/document.ts";
import type { Context } from "../context.ts";
import { requireStage, requireVerification } from "../lookup.ts";
import { addCommonOptions, type CommonOptions, createViewOptions, parseName } from "../options.ts";
import { writeResult } from "../output.ts";
import { formatDescription } from "../render/description.ts";

/** `describe verification ID --stage NAME`: how it went and what was measured. */
export function addDescribeVerification(parent: Command, context: Context): void {
  const command = parent
    .command("verification")
    .description("A verification with its changes of phase and what was measured.")
    .argument("<id>", "its id, or the start of it")
    .requiredOption("--stage <name>", "its Stage", parseName);
  addCommonOptions(command, context, [
    "describe verification 9f2c41d0 --stage dev",
    "describe verification 9f2c41d0 --stage dev -p harbour-demo -o yaml",
  ]);
  command.action(async (id: string, options: CommonOptions & { readonly stage: string }) => {
    const connection = context.connect(options.data);
    try {
      const { key } = await requireStage(connection, options, options.stage);
      const described = await requireVerification(connection.ledger, key, id);
      writeResult(context.terminal, options.output, {
        document: () => toObject(toDescription(described)),
        names: () => [`verification/${described.verification.id}`],
        text: (wide) => formatDescription(described, createViewOptions(context, wide)),
      });
    } finally {
      connection.close();
    }
  });
}
