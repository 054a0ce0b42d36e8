import { readFileSync } from "node:fs";
import { join } from "node:path";
import { buildApp } from "./build-app.ts";
import { ConfigurationError } from "./configuration.ts";

/**
 * Process entry of `npm run synth`: writes the templates and the functions' code into cdk.out/, with the
 * configuration of cdk.json. Needs neither an AWS account nor the network nor Docker.
 */
const ROOT = join(import.meta.dirname, "..");

try {
  const { context } = JSON.parse(readFileSync(join(ROOT, "cdk.json"), "utf8"));
  const outdir = join(ROOT, "cdk.out");
  const { stacks } = buildApp({ context, outdir }).synth();
  for (const stack of stacks) {
    console.log(`cdk.out/${stack.templateFile}: ${Object.keys(stack.template.Resources).length} resources`);
  }
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error;
  console.error(`tallyman: ${error.message}`);
  process.exitCode = 1;
}
