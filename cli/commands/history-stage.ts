import type { Command } from "commander";
import { toEntry, toList } from "../../shared/presentation/document.ts";
import type { Context } from "../context.ts";
import { collect, requireStage } from "../lookup.ts";
import {
  addCommonOptions,
  type CommonOptions,
  createViewOptions,
  parseLimit,
  parseName,
} from "../options.ts";
import { isForPeople, writeResult } from "../output.ts";
import { formatHistory } from "../render/views.ts";

/** `history stage NAME`: verifications and requests, newest first. */
export function addHistoryStage(parent: Command, context: Context): void {
  const command = parent
    .command("stage")
    .description("A Stage's verifications, newest first, with the requests and refusals among them.")
    .argument("<name>", "the Stage", parseName)
    .option("--limit <n>", "entries at most", parseLimit, 20);
  addCommonOptions(command, context, [
    "history stage dev",
    "history stage dev -p harbour-demo --limit 100 -o wide",
    "history stage dev -o json | jq '.items[] | select(.phase == \"Failed\")'",
  ]);
  command.action((name: string, options: CommonOptions & { readonly limit: number }) =>
    showHistory(context, name, options),
  );
}

async function showHistory(
  context: Context,
  name: string,
  options: CommonOptions & { readonly limit: number },
): Promise<void> {
  const { terminal } = context;
  const { limit, output } = options;
  const connection = context.connect(options.data);
  try {
    const { ledger } = connection;
    const { key } = await requireStage(connection, options, name);
    const { items, more } = await collect(
      (cursor, count) =>
        ledger.listHistory(key, { limit: count, ...(cursor === undefined ? {} : { cursor }) }),
      limit,
    );
    if (items.length === 0 && isForPeople(output)) {
      terminal.err(`Stage ${name} has no verifications yet.`);
      return;
    }
    writeResult(terminal, output, {
      document: () => toList("HistoryList", items.map(toEntry), more),
      names: () =>
        items.map((entry) =>
          entry.kind === "verification"
            ? `verification/${entry.verification.id}`
            : `request/${entry.request.requestId}`,
        ),
      text: (wide) => formatHistory(items, createViewOptions(context, wide)),
    });
    if (more && isForPeople(output)) terminal.err(`There is more: --limit ${limit * 5}`);
  } finally {
    connection.close();
  }
}
