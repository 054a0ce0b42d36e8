import { Duration } from "aws-cdk-lib";
import { Construct } from "constructs";
import { Lambda, type LambdaSetting } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";

export interface SweeperProps {
  readonly ledger: Ledger;
  /** Its environment is that of {@link buildEnvironment}. */
  readonly setting: LambdaSetting;
}

/** The function that reconciles every open verification with the clusters, each minute. */
export class Sweeper extends Construct {
  readonly lambda: Lambda;

  constructor(scope: Construct, id: string, { ledger, setting }: SweeperProps) {
    super(scope, id);
    this.lambda = new Lambda(this, "Lambda", {
      entry: "functions/sweeper/handler.ts",
      description: "Tallyman: reconciles every open verification with its cluster",
      timeout: Duration.minutes(5),
      // It holds every Stage and AnalysisRun of a cluster at once.
      memory: 1024,
      setting,
      statements: ledger.allow({
        actions: ["GetItem", "PutItem", "UpdateItem", "BatchGetItem", "Query"],
        indexes: ["open", "activity", "history"],
      }),
    });
    this.lambda.runEachMinute();
  }
}
