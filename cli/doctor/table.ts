import {
  DescribeContinuousBackupsCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  type KeySchemaElement,
  type TableDescription,
  type TimeToLiveDescription,
} from "@aws-sdk/client-dynamodb";
import { LEDGER_TABLE } from "../../shared/ledger/table.ts";
import { type Finding, fail, inspect, isUnknownOperation, ok, warn } from "./finding.ts";

const DEPLOY = "Deploy the stack again (npm run synth, cdk deploy); here: npm start makes its own table.";

/** An engine that knows no backups is one on a desk, and what it says of a time to live means nothing. */
const DESK = "this engine has neither backups nor a time to live; DynamoDB on AWS has";

/** The ledger's table: whether it is there, is shaped as the code needs it, and is safe against accidents. */
export async function checkTable(client: DynamoDBClient, name: string): Promise<readonly Finding[]> {
  const subject = `table ${name}`;
  const shape = await inspect(subject, "dynamodb:DescribeTable", () => checkShape(client, subject, name));
  const backups = await inspect(subject, "dynamodb:DescribeContinuousBackups", () =>
    checkBackups(client, subject, name),
  );
  const timeToLive = backups.some(({ message }) => message === DESK)
    ? []
    : await inspect(subject, "dynamodb:DescribeTimeToLive", () => checkTimeToLive(client, subject, name));
  return [...shape, ...backups, ...timeToLive];
}

async function checkShape(
  client: DynamoDBClient,
  subject: string,
  name: string,
): Promise<readonly Finding[]> {
  let table: TableDescription | undefined;
  try {
    ({ Table: table } = await client.send(new DescribeTableCommand({ TableName: name })));
  } catch (error) {
    if (!isMissing(error)) throw error;
    return [fail(subject, "does not exist", `Check TALLYMAN_TABLE and the region. ${DEPLOY}`)];
  }
  const problems = findProblems(table ?? {});
  if (problems.length > 0) return problems.map((problem) => fail(subject, problem, DEPLOY));
  const { ItemCount: items, DeletionProtectionEnabled: isProtected } = table ?? {};
  return [
    ok(
      subject,
      `is as it has to be, with ${Object.keys(LEDGER_TABLE.indexes).length} indexes, ${items ?? "?"} items`,
    ),
    ...(isProtected === false
      ? [warn(subject, "can be deleted by accident", "Switch deletion protection on.")]
      : []),
  ];
}

function findProblems(table: TableDescription): string[] {
  const problems: string[] = [];
  const { partitionKey, sortKey, indexes, projectedAttributes } = LEDGER_TABLE;
  if (table.TableStatus !== "ACTIVE" && table.TableStatus !== "UPDATING") {
    problems.push(`is ${table.TableStatus}`);
  }
  if (!hasKeys(table.KeySchema, partitionKey, sortKey)) {
    problems.push(`its key is not ${partitionKey}, ${sortKey}`);
  }
  for (const index of Object.values(indexes)) {
    const found = table.GlobalSecondaryIndexes?.find((each) => each.IndexName === index.name);
    const { Projection: projection } = found ?? {};
    const missing = projectedAttributes.filter(
      (attribute) =>
        attribute !== index.partitionKey &&
        attribute !== index.sortKey &&
        !projection?.NonKeyAttributes?.includes(attribute),
    );
    if (found === undefined) problems.push(`has no index ${index.name}`);
    else if (!hasKeys(found.KeySchema, index.partitionKey, index.sortKey)) {
      problems.push(`the key of index ${index.name} is not ${index.partitionKey}, ${index.sortKey}`);
    } else if (projection?.ProjectionType !== "ALL" && missing.length > 0) {
      problems.push(`index ${index.name} does not copy ${missing.join(", ")}`);
    } else if (found.IndexStatus !== "ACTIVE") problems.push(`index ${index.name} is ${found.IndexStatus}`);
  }
  return problems;
}

function hasKeys(schema: readonly KeySchemaElement[] = [], partitionKey: string, sortKey: string): boolean {
  const of = (type: "HASH" | "RANGE") => schema.find(({ KeyType }) => KeyType === type)?.AttributeName;
  return of("HASH") === partitionKey && of("RANGE") === sortKey;
}

async function checkTimeToLive(
  client: DynamoDBClient,
  subject: string,
  name: string,
): Promise<readonly Finding[]> {
  let ttl: TimeToLiveDescription | undefined;
  try {
    ({ TimeToLiveDescription: ttl } = await client.send(new DescribeTimeToLiveCommand({ TableName: name })));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  const attribute = LEDGER_TABLE.timeToLiveAttribute;
  if (ttl?.TimeToLiveStatus === "ENABLED" && ttl.AttributeName === attribute) {
    return [ok(subject, `items past their retention go (time to live by ${attribute})`)];
  }
  return [
    warn(
      subject,
      `no time to live by ${attribute}: items past their retention stay`,
      `Enable time to live on the attribute ${attribute}, or deploy again.`,
    ),
  ];
}

async function checkBackups(
  client: DynamoDBClient,
  subject: string,
  name: string,
): Promise<readonly Finding[]> {
  try {
    const { ContinuousBackupsDescription: backups } = await client.send(
      new DescribeContinuousBackupsCommand({ TableName: name }),
    );
    const status = backups?.PointInTimeRecoveryDescription?.PointInTimeRecoveryStatus;
    return [
      status === "ENABLED"
        ? ok(subject, "can be restored to any second of its recovery window")
        : warn(subject, "has no point-in-time recovery", "Enable point-in-time recovery, or deploy again."),
    ];
  } catch (error) {
    // A table that is missing has been reported already.
    if (isMissing(error)) return [];
    if (!isUnknownOperation(error)) throw error;
    return [ok(subject, DESK)];
  }
}

const isMissing = (error: unknown): boolean =>
  error instanceof Error && /^(ResourceNotFound|TableNotFound)Exception$/.test(error.name);
