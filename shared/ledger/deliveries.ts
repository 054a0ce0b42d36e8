import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
} from "@aws-sdk/client-dynamodb";
import { Fault } from "../domain/fault.ts";
import { callDynamoDb } from "./call.ts";
import type { Item } from "./items.ts";
import { LEDGER_TABLE } from "./table.ts";

/** What a delivery of a webhook came to, when it came first. */
export interface DeliveryRecord<T> {
  readonly receiver: string;
  /** Tells the delivery from every other of its receiver. */
  readonly identity: string;
  /** What was decided; plain JSON. */
  readonly content: T;
}

/** The ledger's memory of deliveries: one item each, for a time. */
export interface DeliveryStore {
  /**
   * Enters a delivery unless it is there already; one conditional write. `now` in milliseconds since the epoch.
   *
   * @returns what holds: the content of whoever was first.
   * @throws Fault `Transient` when DynamoDB does not take part.
   */
  enter<T>(record: DeliveryRecord<T>, now: number): Promise<{ readonly content: T; readonly isNew: boolean }>;
}

/**
 * How long a delivery is remembered, in seconds: as long as a message may be on its way (14 days in its queue and 14 in
 * the dead-letter queue), and longer than any sender repeats one by itself. Later the request's own record still tells
 * a repeat.
 */
const MEMORY_SECONDS = 30 * 86_400;

const SORT_KEY = "DELIVERY";

/** The store on DynamoDB. Keys are apart from those of Stages, whose clusters' names have no colon. */
export function createDeliveryStore(client: DynamoDBClient, table: string): DeliveryStore {
  const ttl = LEDGER_TABLE.timeToLiveAttribute;

  async function put(item: Item, seconds: number): Promise<Item | "entered" | undefined> {
    try {
      await callDynamoDb(() =>
        client.send(
          new PutItemCommand({
            TableName: table,
            Item: item,
            // DynamoDB removes what is expired when it comes to it, days later perhaps.
            ConditionExpression: "attribute_not_exists(pk) OR #ttl <= :now",
            ExpressionAttributeNames: { "#ttl": ttl },
            ExpressionAttributeValues: { ":now": { N: String(seconds) } },
            ReturnValuesOnConditionCheckFailure: "ALL_OLD",
          }),
        ),
      );
      return "entered";
    } catch (error) {
      if (error instanceof ConditionalCheckFailedException) return error.Item;
      throw error;
    }
  }

  async function read({ pk, sk }: Item): Promise<Item | undefined> {
    const Key = { pk, sk } as Item;
    const output = await callDynamoDb(() =>
      client.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true })),
    );
    return output.Item;
  }

  return {
    async enter({ receiver, identity, content }, now) {
      const seconds = Math.floor(now / 1000);
      const item: Item = {
        pk: { S: `webhook:${receiver}:${identity}` },
        sk: { S: SORT_KEY },
        ty: { S: "d" },
        t0: { N: String(now) },
        co: { S: JSON.stringify(content) },
        [ttl]: { N: String(seconds + MEMORY_SECONDS) },
      };
      const result = await put(item, seconds);
      if (result === "entered") return { content, isNew: true };
      // DynamoDB hands back the item that failed the condition; dynalite does not, and is asked again.
      const existing = (result ?? (await read(item)))?.co?.S;
      if (existing === undefined)
        throw new Fault("Transient", "a delivery was forgotten while it was entered");
      return { content: JSON.parse(existing) as typeof content, isNew: false };
    },
  };
}
