import { Duration, RemovalPolicy, Validations } from "aws-cdk-lib";
import { Rule, Schedule } from "aws-cdk-lib/aws-events";
import { LambdaFunction } from "aws-cdk-lib/aws-events-targets";
import { Policy, PolicyStatement, Role, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import {
  Architecture,
  type CfnFunction,
  Function as LambdaFunctionConstruct,
  Runtime,
} from "aws-cdk-lib/aws-lambda";
import { LogGroup } from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";
import { BUNDLE_HANDLER, createFunctionCode } from "./function-bundle.ts";

/** What a stack decides for all its functions. */
export interface LambdaSetting {
  readonly environment: Readonly<Record<string, string>>;
  /** Days that logs are kept; one of those that CloudWatch Logs knows. */
  readonly logRetentionDays: number;
  /** Where the functions run; default: outside of any VPC. */
  readonly vpc?:
    | { readonly subnetIds: readonly string[]; readonly securityGroupIds: readonly string[] }
    | undefined;
}

export interface LambdaProps {
  /** The handler's path in the repository. */
  readonly entry: string;
  readonly description: string;
  readonly timeout: Duration;
  /** Megabytes; processor time comes in proportion. */
  readonly memory: number;
  readonly setting: LambdaSetting;
  /** Beside the setting's. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly statements: readonly PolicyStatement[];
  /** Laid beside the code: names and texts. */
  readonly files?: Readonly<Record<string, string>>;
}

/** What all functions have in common. Its role holds what it is given and writing its own log, nothing else. */
export class Lambda extends Construct {
  readonly function: LambdaFunctionConstruct;
  readonly role: Role;

  constructor(scope: Construct, id: string, props: LambdaProps) {
    super(scope, id);
    const logGroup = new LogGroup(this, "Log", {
      retention: props.setting.logRetentionDays,
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
      code: createFunctionCode(props.entry, props.files),
      description: props.description,
      timeout: props.timeout,
      memorySize: props.memory,
      role: this.role,
      logGroup,
      environment: {
        ...props.setting.environment,
        ...props.environment,
        NODE_OPTIONS: "--enable-source-maps",
      },
    });
    if (props.setting.vpc !== undefined) this.#enter(props.setting.vpc);
  }

  /** Puts the function into subnets that are known by their ids alone, which CDK's own construct would look up. */
  #enter({ subnetIds, securityGroupIds }: NonNullable<LambdaSetting["vpc"]>): void {
    const resource = this.function.node.defaultChild as CfnFunction;
    resource.vpcConfig = { subnetIds: [...subnetIds], securityGroupIds: [...securityGroupIds] };
    const policy = new Policy(this, "Network", {
      statements: [
        new PolicyStatement({
          actions: [
            "ec2:CreateNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:DeleteNetworkInterface",
            "ec2:AssignPrivateIpAddresses",
            "ec2:UnassignPrivateIpAddresses",
          ],
          // Lambda makes the interfaces under names that nobody knows before.
          resources: ["*"],
        }),
      ],
    });
    policy.attachToRole(this.role);
    resource.node.addDependency(policy);
    Validations.of(policy).acknowledge({
      id: "AwsSolutions-IAM5[Resource::*]",
      reason:
        "Network interfaces have no names before Lambda makes them; these are the rights of AWS's own policy",
    });
  }

  /** Invokes the function each minute. A run that fails is not repeated: the next is a minute away. */
  runEachMinute(): void {
    const rule = new Rule(this, "EachMinute", { schedule: Schedule.rate(Duration.minutes(1)) });
    rule.addTarget(new LambdaFunction(this.function, { retryAttempts: 0, maxEventAge: Duration.minutes(1) }));
  }
}
