import { styleText } from "node:util";
import { Command } from "commander";
import { connectCluster } from "../shared/runtime/cluster-connection.ts";
import { createClusterWriter } from "./demo/cluster-writer.ts";
import { createPromoter } from "./demo/promotions.ts";
import { FREIGHT, PROJECT } from "./demo/shop.ts";
import { SANDBOX_NAME } from "./stack.ts";
import { DEFAULT_DATA_FOLDER, readStackFile } from "./stack-file.ts";

/** Process entry: promotes a piece of the demo's Freight in the sandbox, as Kargo would. */
async function main(): Promise<number> {
  const command = new Command("npm run promote --")
    .description("Promotes Freight of the demo to a Stage of the sandbox, so that its verification starts.")
    .argument("<stage>", "dev, qa, prod or checkout")
    .argument(
      "<freight>",
      Object.values(FREIGHT)
        .map((freight) => freight.alias)
        .join(", "),
    )
    .option("--data <folder>", "of the running stack", DEFAULT_DATA_FOLDER)
    .addHelpText("after", "\nExample:\n  npm run promote -- qa calm-heron\n")
    .parse();
  const [stage = "", alias = ""] = command.args;
  const freight = Object.values(FREIGHT).find((each) => each.alias === alias);
  if (freight === undefined) return complain(`there is no Freight ${alias} in the demo; see --help`);
  const file = readStackFile(command.opts<{ data: string }>().data);
  const [settings] = file?.clusters ?? [];
  if (settings === undefined) return complain("no stack runs here; start one with: npm start");
  if (settings.name !== SANDBOX_NAME) {
    return complain(`the stack works on cluster ${settings.name}; there, Kargo promotes`);
  }
  const transport = connectCluster(settings);
  try {
    const promoter = createPromoter({
      writer: createClusterWriter(transport),
      project: PROJECT,
      now: Date.now,
      random: Math.random,
    });
    const { promotion } = await promoter.promote(stage, freight);
    process.stdout.write(`${alias} was promoted to ${stage} by ${promotion}\n`);
    return 0;
  } catch (error) {
    return complain(error instanceof Error ? error.message : String(error));
  } finally {
    transport.close();
  }
}

function complain(sentence: string): number {
  process.stderr.write(`${styleText("red", "tallyman:", { stream: process.stderr })} ${sentence}\n`);
  return 1;
}

process.exit(await main());
