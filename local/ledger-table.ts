import {
  type AttributeDefinition,
  CreateTableCommand,
  type DynamoDBClient,
  ResourceInUseException,
  waitUntilTableExists,
} from "@aws-sdk/client-dynamodb";
import { LEDGER_TABLE } from "../shared/ledger/table.ts";

/** Creates the ledger's table through the DynamoDB API, whichever engine answers; one that exists is left as it is. */
export async function createLedgerTable(client: DynamoDBClient, table: string): Promise<void> {
  const indexes = Object.values(LEDGER_TABLE.indexes);
  const keys = new Set([
    LEDGER_TABLE.partitionKey,
    LEDGER_TABLE.sortKey,
    ...indexes.flatMap((index) => [index.partitionKey, index.sortKey]),
  ]);
  try {
    await client.send(
      new CreateTableCommand({
        TableName: table,
        BillingMode: "PAY_PER_REQUEST",
        AttributeDefinitions: [...keys].map(
          (name): AttributeDefinition => ({ AttributeName: name, AttributeType: "S" }),
        ),
        KeySchema: [
          { AttributeName: LEDGER_TABLE.partitionKey, KeyType: "HASH" },
          { AttributeName: LEDGER_TABLE.sortKey, KeyType: "RANGE" },
        ],
        GlobalSecondaryIndexes: indexes.map((index) => ({
          IndexName: index.name,
          KeySchema: [
            { AttributeName: index.partitionKey, KeyType: "HASH" },
            { AttributeName: index.sortKey, KeyType: "RANGE" },
          ],
          Projection: {
            ProjectionType: "INCLUDE",
            NonKeyAttributes: LEDGER_TABLE.projectedAttributes.filter(
              (name) => name !== index.partitionKey && name !== index.sortKey,
            ),
          },
        })),
      }),
    );
  } catch (error) {
    if (!(error instanceof ResourceInUseException)) throw error;
  }
  await waitUntilTableExists({ client, maxWaitTime: 30, minDelay: 1, maxDelay: 1 }, { TableName: table });
}
