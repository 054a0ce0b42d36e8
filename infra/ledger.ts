import { CfnOutput, type Duration, RemovalPolicy } from "aws-cdk-lib";
import { type IMetric, Stats } from "aws-cdk-lib/aws-cloudwatch";
import {
  type Attribute,
  AttributeType,
  BillingMode,
  Operation,
  ProjectionType,
  StreamViewType,
  Table,
  TableEncryption,
} from "aws-cdk-lib/aws-dynamodb";
import { PolicyStatement } from "aws-cdk-lib/aws-iam";
import { Construct } from "constructs";
import { LEDGER_TABLE } from "../shared/ledger/table.ts";

/** What a function may do to the ledger; an action is granted when its code performs it. */
const OPERATIONS = {
  GetItem: Operation.GET_ITEM,
  PutItem: Operation.PUT_ITEM,
  UpdateItem: Operation.UPDATE_ITEM,
  Query: Operation.QUERY,
  BatchGetItem: Operation.BATCH_GET_ITEM,
} as const;
export type LedgerAction = keyof typeof OPERATIONS;
export type IndexName = keyof typeof LEDGER_TABLE.indexes;

export interface LedgerAccess {
  readonly actions: readonly LedgerAction[];
  /** Indexes that are queried. */
  readonly indexes?: readonly IndexName[];
}

export interface LedgerProps {
  /** False only for installations that may lose their history: no deletion protection then. Default: true. */
  readonly outlivesStack?: boolean;
  /** Whether changes can be followed, which an {@link EventFeed} needs. Default: false. */
  readonly hasStream?: boolean;
}

/** The ledger: it outlives its stack, because what it holds cannot be made again, unless somebody says otherwise. */
export class Ledger extends Construct {
  readonly table: Table;

  constructor(scope: Construct, id: string, { outlivesStack = true, hasStream = false }: LedgerProps = {}) {
    super(scope, id);
    this.table = new Table(this, "Table", {
      partitionKey: text(LEDGER_TABLE.partitionKey),
      sortKey: text(LEDGER_TABLE.sortKey),
      billingMode: BillingMode.PAY_PER_REQUEST,
      encryption: TableEncryption.AWS_MANAGED,
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      deletionProtection: outlivesStack,
      removalPolicy: outlivesStack ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
      ...(hasStream ? { stream: StreamViewType.NEW_IMAGE } : {}),
      timeToLiveAttribute: LEDGER_TABLE.timeToLiveAttribute,
    });
    for (const { name, partitionKey, sortKey } of Object.values(LEDGER_TABLE.indexes)) {
      this.table.addGlobalSecondaryIndex({
        indexName: name,
        partitionKey: text(partitionKey),
        sortKey: text(sortKey),
        projectionType: ProjectionType.INCLUDE,
        // DynamoDB refuses an index's own key among the attributes that it is to copy.
        nonKeyAttributes: LEDGER_TABLE.projectedAttributes.filter(
          (attribute) => attribute !== partitionKey && attribute !== sortKey,
        ),
      });
    }
    new CfnOutput(this, "TableName", { value: this.table.tableName });
  }

  /** Requests of every kind that DynamoDB refused for their rate. */
  metricThrottled(period: Duration): IMetric {
    return this.table.metricThrottledRequestsForOperations({
      operations: Object.values(OPERATIONS),
      period,
      statistic: Stats.SUM,
    });
  }

  /** The statements that let somebody do exactly this; CDK's own grants give scans and deletions as well. */
  allow({ actions, indexes = [] }: LedgerAccess): PolicyStatement[] {
    const statements = [
      new PolicyStatement({
        actions: actions.map((action) => `dynamodb:${action}`),
        resources: [this.table.tableArn],
      }),
    ];
    if (indexes.length > 0) {
      statements.push(
        new PolicyStatement({
          actions: ["dynamodb:Query"],
          resources: indexes.map(
            (index) => `${this.table.tableArn}/index/${LEDGER_TABLE.indexes[index].name}`,
          ),
        }),
      );
    }
    return statements;
  }
}

function text(name: string): Attribute {
  return { name, type: AttributeType.STRING };
}
