import { Duration } from "aws-cdk-lib";
import { Construct } from "constructs";
import { Lambda } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";

export interface SweeperProps {
  readonly ledger: Ledger;
  readonly environment: Readonly<Record<string, string>>;
}

/** The function that reconciles every open verification with the clusters, each minute. */
export class Sweeper extends Construct {
  readonly lambda: Lambda;

  constructor(scope: Construct, id: string, { ledger, environment }: SweeperProps) {
    super(scope, id);
    this.lambda = new Lambda(this, "Lambda", {
      entry: "functions/sweeper/handler.ts",
      description: "Tallyman: reconciles every open verification with its cluster",
      timeout: Duration.minutes(5),
      // It holds every Stage and AnalysisRun of a cluster at once.
      memory: 1024,
      environment,
      statements: ledger.allow({
        actions: ["GetItem", "PutItem", "UpdateItem", "BatchGetItem"],
        indexes: ["open", "activity"],
      }),
    });
    this.lambda.runEachMinute();
  }
}
