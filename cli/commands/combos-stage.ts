import { type Command, InvalidArgumentError } from "commander";
import { type Combination, summarizeCombinations } from "../../shared/domain/combinations.ts";
import { computeCollectionId, type StageKey } from "../../shared/domain/identity.ts";
import { isTerminal } from "../../shared/domain/phase.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import type { Ledger } from "../../shared/ledger/ledger.ts";
import { toCombination, toList } from "../../shared/presentation/document.ts";
import { CommandError } from "../command-error.ts";
import type { Context } from "../context.ts";
import { type ExitCode, exitCodeOfPhase } from "../exit-codes.ts";
import { collect, requireStage } from "../lookup.ts";
import {
  addCommonOptions,
  type CommonOptions,
  createViewOptions,
  parseLimit,
  parseName,
} from "../options.ts";
import { isForPeople, writeResult } from "../output.ts";
import { formatCombinations } from "../render/views.ts";

interface Options extends CommonOptions {
  readonly freight: readonly string[];
  readonly limit: number;
}

/** `combos stage NAME`: which combinations of Freight were verified, and with what outcome. */
export function addCombosStage(parent: Command, context: Context, finish: (code: ExitCode) => void): void {
  const command = parent
    .command("stage")
    .description(
      "Which combinations of Freight were verified in a Stage, with what outcome. With --freight: whether this " +
        "combination ever was, and exit code 0 only if it ever was Successful.",
    )
    .argument("<name>", "the Stage", parseName)
    .option("--freight <name>", "a Freight's whole name; give all that belong together", addFreight, [])
    .option("--limit <n>", "verifications to look back at, without --freight", parseLimit, 500);
  addCommonOptions(command, context, [
    "combos stage uat",
    "combos stage uat -p harbour-demo -o json",
    "combos stage uat --freight 41cd4f0be2…  --freight 8a3e9d01c7…",
  ]);
  command.action((name: string, options: Options) => showCombinations(context, name, options, finish));
}

function addFreight(text: string, before: readonly string[]): readonly string[] {
  const name = text.trim();
  if (name === "" || name.length > 253) throw new InvalidArgumentError("It must be the name of a Freight.");
  return [...before, name];
}

async function showCombinations(
  context: Context,
  name: string,
  options: Options,
  finish: (code: ExitCode) => void,
): Promise<void> {
  const { terminal } = context;
  const { freight, limit, output } = options;
  const connection = context.connect(options.data);
  try {
    const { key } = await requireStage(connection, options, name);
    const verifications =
      freight.length > 0
        ? await findCombination(connection.ledger, key, freight)
        : await lookBack(connection.ledger, key, limit);
    const combinations = summarizeCombinations(verifications);
    if (freight.length > 0 && combinations.length === 0) {
      throw new CommandError("notFound", `Stage ${name} has never verified ${freight.join(" with ")}`, [
        "A combination is all the Freight that the Stage held at once; name each of them, whole.",
        `See all: tallyman combos stage ${name} -p ${key.project} -o wide`,
      ]);
    }
    if (combinations.length === 0 && isForPeople(output)) {
      terminal.err(`Stage ${name} has no verifications yet.`);
      return;
    }
    writeResult(terminal, output, {
      document: () => toList("CombinationList", combinations.map(toCombination)),
      names: () => combinations.map(({ collection }) => `combination/${collection.id}`),
      text: (wide) => formatCombinations(combinations, createViewOptions(context, wide)),
    });
    if (freight.length > 0) finish(exitCodeOf(combinations[0]));
  } finally {
    connection.close();
  }
}

/** What a pipeline wants to know: did it ever pass, and if not, how did it end? */
function exitCodeOf(combination: Combination | undefined): ExitCode {
  if (combination === undefined || combination.everSuccessful) return 0;
  const { phase } = combination.latest;
  return isTerminal(phase) ? exitCodeOfPhase(phase) : exitCodeOfPhase("Inconclusive");
}

/** One Query for a combination, however long the Stage's history is. */
async function findCombination(
  ledger: Ledger,
  key: StageKey,
  freight: readonly string[],
): Promise<readonly Verification[]> {
  const names = [...new Set(freight)];
  const collection = { id: computeCollectionId(names), freight: names };
  const { items } = await collect((cursor, limit) =>
    ledger.listByCollection(key.cluster, key.project, collection, {
      limit,
      ...(cursor === undefined ? {} : { cursor }),
    }),
  );
  return items.filter((each) => each.key.stage === key.stage);
}

async function lookBack(ledger: Ledger, key: StageKey, most: number): Promise<readonly Verification[]> {
  const { items } = await collect(
    (cursor, limit) => ledger.listHistory(key, { limit, ...(cursor === undefined ? {} : { cursor }) }),
    most,
  );
  return items.flatMap((entry) => (entry.kind === "verification" ? [entry.verification] : []));
}
