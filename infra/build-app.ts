import { App, type AppProps, Validations } from "aws-cdk-lib";
import { AwsSolutionsChecks } from "cdk-nag";
import { CONTEXT_KEY, parseConfiguration } from "./configuration.ts";
import { TallymanStack } from "./stack.ts";

/**
 * The CDK app with its one stack and the rules that it is held to. What is configured comes from the context, which
 * the CDK command line passes on its own.
 *
 * @throws ConfigurationError
 */
export function buildApp(props: AppProps = {}): App {
  const app = new App(props);
  new TallymanStack(app, parseConfiguration(app.node.tryGetContext(CONTEXT_KEY)));
  // Not an aspect: this version of cdk-nag would find nothing as one.
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  return app;
}
