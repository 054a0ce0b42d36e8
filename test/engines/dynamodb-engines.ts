import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { startDynamoDb } from "../../local/dynamodb.ts";
import { createLedgerTable } from "../../local/ledger-table.ts";
import { findObstacle } from "./dynamodb-local/install.ts";
import { startDynamoDbLocal } from "./dynamodb-local/server.ts";

/** An engine at work, with the ledger's table in it. */
export interface RunningEngine {
  readonly client: DynamoDBClient;
  readonly table: string;
  /** A client that tries again by itself, as those in production do. */
  readonly retrying: DynamoDBClient;
  /** A client of an address at which nothing answers. */
  readonly unreachable: DynamoDBClient;
  stop(): Promise<void>;
}

export interface DynamoDbEngine {
  readonly name: string;
  /** Whether a failed condition brings back the item (`ReturnValuesOnConditionCheckFailure`). */
  readonly returnsFailedItem: boolean;
  /** Why it cannot run here. */
  readonly obstacle: string | undefined;
  start(): Promise<RunningEngine>;
}

const TABLE = "tallyman-test";

async function prepare(endpoint: string, stop: () => Promise<void>): Promise<RunningEngine> {
  const client = createClient(endpoint);
  const retrying = createClient(endpoint, 3);
  await createLedgerTable(client, TABLE);
  return {
    client,
    table: TABLE,
    retrying,
    unreachable: createClient("http://127.0.0.1:1"),
    async stop() {
      client.destroy();
      retrying.destroy();
      await stop();
    },
  };
}

function createClient(endpoint: string, maxAttempts = 1): DynamoDBClient {
  const credentials = { accessKeyId: "local", secretAccessKey: "local" };
  return new DynamoDBClient({ endpoint, region: "local", credentials, maxAttempts });
}

/** dynalite, the embedded one, and Amazon's own DynamoDB Local. */
export const DYNAMODB_ENGINES: readonly DynamoDbEngine[] = [
  {
    name: "dynalite",
    returnsFailedItem: false,
    obstacle: undefined,
    async start() {
      const engine = await startDynamoDb({});
      return prepare(engine.endpoint, () => engine.stop());
    },
  },
  {
    name: "DynamoDB Local",
    returnsFailedItem: true,
    obstacle: await findObstacle(),
    async start() {
      const engine = await startDynamoDbLocal();
      return prepare(engine.endpoint, () => engine.stop());
    },
  },
];
