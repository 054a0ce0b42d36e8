import { type DynamoDBClient, QueryCommand, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { formatStageKey, type StageKey } from "../domain/identity.ts";
import { callDynamoDb } from "./call.ts";
import { formatHistoryTime, type Item, requestSortKey, verificationSortKey } from "./items.ts";
import { decodeEntry, type HistoryEntry } from "./ledger.ts";
import { LEDGER_TABLE } from "./table.ts";

/**
 * Takes entries out of the ledger that are older than an installation keeps them. An entry that is expired is gone from
 * every read at once; DynamoDB removes its items some time within the next days, which costs nothing.
 */
export interface RetentionStore {
  /** A Stage's oldest entries, oldest first, from before `before` (ms); `isAll` is false when there are more. One Query. */
  listOldest(key: StageKey, before: number): Promise<{ entries: readonly HistoryEntry[]; isAll: boolean }>;
  /** Expires a verification with all that belongs to it, or a request. `at` in ms. Harmless to repeat. */
  expire(entry: HistoryEntry, at: number): Promise<void>;
}

/** How long an installation keeps closed verifications and settled requests. Without one it keeps them for ever. */
export interface Retention {
  readonly days: number;
  readonly store: RetentionStore;
}

const PAGE = 500;

/** The store on DynamoDB. All methods throw `Transient` when DynamoDB does not take part. */
export function createRetentionStore(client: DynamoDBClient, table: string): RetentionStore {
  const ttl = LEDGER_TABLE.timeToLiveAttribute;

  async function mark(pk: string, sk: string, at: number): Promise<void> {
    await callDynamoDb(() =>
      client.send(
        new UpdateItemCommand({
          TableName: table,
          Key: { pk: { S: pk }, sk: { S: sk } },
          UpdateExpression: "SET #ttl = :at",
          ExpressionAttributeNames: { "#ttl": ttl },
          ExpressionAttributeValues: { ":at": { N: String(Math.floor(at / 1000)) } },
        }),
      ),
    );
  }

  /** Sort keys of what belongs to a verification: a few, its head aside. */
  async function listParts(pk: string, head: string): Promise<string[]> {
    const output = await callDynamoDb(() =>
      client.send(
        new QueryCommand({
          TableName: table,
          KeyConditionExpression: "pk = :pk AND begins_with(sk, :sk)",
          ExpressionAttributeValues: { ":pk": { S: pk }, ":sk": { S: `${head}#` } },
          ProjectionExpression: "sk",
        }),
      ),
    );
    return (output.Items ?? []).flatMap(({ sk }: Item) => (sk?.S === undefined ? [] : [sk.S]));
  }

  return {
    async listOldest(key, before) {
      const { name, partitionKey, sortKey } = LEDGER_TABLE.indexes.history;
      const output = await callDynamoDb(() =>
        client.send(
          new QueryCommand({
            TableName: table,
            IndexName: name,
            KeyConditionExpression: "#k = :k AND #h < :h",
            ExpressionAttributeNames: { "#k": partitionKey, "#h": sortKey },
            ExpressionAttributeValues: {
              ":k": { S: formatStageKey(key) },
              ":h": { S: formatHistoryTime(before) },
            },
            Limit: PAGE,
          }),
        ),
      );
      const entries = (output.Items ?? []).flatMap((item: Item) => {
        const entry = item[ttl] === undefined ? decodeEntry(item) : undefined;
        return entry === undefined ? [] : [entry];
      });
      return { entries, isAll: output.LastEvaluatedKey === undefined };
    },

    async expire(entry, at) {
      if (entry.kind === "request") {
        const { key, requestId } = entry.request;
        await mark(formatStageKey(key), requestSortKey(requestId), at);
        return;
      }
      const { key, id } = entry.verification;
      const pk = formatStageKey(key);
      const head = verificationSortKey(id);
      // The head last: while it is there, the rest is found again.
      for (const part of await listParts(pk, head)) await mark(pk, part, at);
      await mark(pk, head, at);
    },
  };
}
