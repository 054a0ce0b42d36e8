import { Duration, RemovalPolicy } from "aws-cdk-lib";
import { Rule, Schedule } from "aws-cdk-lib/aws-events";
import { LambdaFunction } from "aws-cdk-lib/aws-events-targets";
import { type PolicyStatement, Role, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { Architecture, Function as LambdaFunctionConstruct, Runtime } from "aws-cdk-lib/aws-lambda";
import { LogGroup, RetentionDays } from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";
import { BUNDLE_HANDLER, createFunctionCode } from "./function-bundle.ts";

export interface LambdaProps {
  /** The handler's path in the repository. */
  readonly entry: string;
  readonly description: string;
  readonly timeout: Duration;
  /** Megabytes; processor time comes in proportion. */
  readonly memory: number;
  readonly environment: Readonly<Record<string, string>>;
  readonly statements: readonly PolicyStatement[];
}

/** What all functions have in common. Its role holds what it is given and writing its own log, nothing else. */
export class Lambda extends Construct {
  readonly function: LambdaFunctionConstruct;
  readonly role: Role;

  constructor(scope: Construct, id: string, props: LambdaProps) {
    super(scope, id);
    const logGroup = new LogGroup(this, "Log", {
      retention: RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    // Its own role: the managed policy that CDK would attach may write every log of the account.
    this.role = new Role(this, "Role", { assumedBy: new ServicePrincipal("lambda.amazonaws.com") });
    logGroup.grantWrite(this.role);
    for (const statement of props.statements) this.role.addToPolicy(statement);
    this.function = new LambdaFunctionConstruct(this, "Function", {
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      handler: BUNDLE_HANDLER,
      code: createFunctionCode(props.entry),
      description: props.description,
      timeout: props.timeout,
      memorySize: props.memory,
      role: this.role,
      logGroup,
      environment: { ...props.environment, NODE_OPTIONS: "--enable-source-maps" },
    });
  }

  /** Invokes the function each minute. A run that fails is not repeated: the next is a minute away. */
  runEachMinute(): void {
    const rule = new Rule(this, "EachMinute", { schedule: Schedule.rate(Duration.minutes(1)) });
    rule.addTarget(new LambdaFunction(this.function, { retryAttempts: 0, maxEventAge: Duration.minutes(1) }));
  }
}
