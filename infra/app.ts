import { buildApp } from "./build-app.ts";
import { ConfigurationError } from "./configuration.ts";

/** Process entry: what `cdk deploy` and the other commands of the CDK run. */
try {
  buildApp().synth();
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error;
  console.error(`tallyman: ${error.message}`);
  process.exitCode = 1;
}
