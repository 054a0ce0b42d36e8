import type { Command } from "commander";
import { toObject, toRequest } from "../../shared/presentation/document.ts";
import type { Context } from "../context.ts";
import { requireRequest, resolveKey } from "../lookup.ts";
import { addCommonOptions, type CommonOptions, createViewOptions, parseName } from "../options.ts";
import { writeResult } from "../output.ts";
import { formatRequest } from "../render/description.ts";

/** `get request ID --stage NAME`: a request and what became of it. */
export function addGetRequest(parent: Command, context: Context): void {
  const command = parent
    .command("request")
    .description("A request and what became of it.")
    .argument("<id>", "its id, or the start of it")
    .requiredOption("--stage <name>", "the Stage it was about", parseName);
  addCommonOptions(command, context, [
    "get request 6a0b8f0e --stage dev -p harbour-demo",
    "get request 6a0b8f0e --stage dev -o json",
  ]);
  command.action(async (id: string, options: CommonOptions & { readonly stage: string }) => {
    const connection = context.connect(options.data);
    try {
      const key = await resolveKey(connection, options, options.stage);
      const request = await requireRequest(connection.ledger, key, id);
      writeResult(context.terminal, options.output, {
        document: () => toObject(toRequest(request)),
        names: () => [`request/${request.requestId}`],
        text: (wide) => formatRequest(request, createViewOptions(context, wide)),
      });
    } finally {
      connection.close();
    }
  });
}
