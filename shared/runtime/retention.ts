import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { createRetentionStore, type Retention } from "../ledger/retention.ts";
import type { Configuration } from "./configuration.ts";

/** What the sweeper, and nobody else, needs to expire history; undefined where everything is kept for ever. */
export function createRetention({ retentionDays, table }: Configuration): Retention | undefined {
  if (retentionDays === undefined) return undefined;
  return { days: retentionDays, store: createRetentionStore(new DynamoDBClient({}), table) };
}
