import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
} from "@aws-sdk/client-dynamodb";
import { marshall, unmarshall } from "@aws-sdk/util-dynamodb";
import { Fault } from "../domain/fault.ts";

/** Where the forwarder of a cluster is. Times in milliseconds since the epoch. */
export interface Checkpoint {
  /** By watched resource: everything up to this resourceVersion has been accepted by SQS. */
  readonly resourceVersions: Readonly<Record<string, string>>;
  /** When the forwarder last gave a sign of life. */
  readonly heartbeatAt: number;
}

/** The forwarder's place in the ledger table: one item a cluster, with the lease of whoever works on it. */
export interface CheckpointStore {
  read(cluster: string): Promise<Checkpoint | undefined>;
  /**
   * Takes or renews the lease and advances the checkpoint in the same write. False when another owner's lease has not
   * run out by `now`. One that reaches ten times as far as a lease may was written by a clock that is wrong, and counts for
   * nothing: two at work cost duplicates, and nobody at work for hours would cost the truth.
   */
  hold(
    cluster: string,
    lease: { readonly owner: string; readonly now: number; readonly until: number },
    resourceVersions: Readonly<Record<string, string>>,
  ): Promise<boolean>;
}

const SORT_KEY = "FORWARDER";

/** The store on DynamoDB. All methods throw `Transient` when DynamoDB does not take part. */
export function createCheckpointStore(client: DynamoDBClient, table: string): CheckpointStore {
  const partition = (cluster: string): string => `${cluster}/`;
  const transient = (error: unknown): Fault =>
    new Fault(
      "Transient",
      `the checkpoint cannot be reached: ${error instanceof Error ? error.message : error}`,
      {
        cause: error,
      },
    );

  return {
    async read(cluster) {
      try {
        const output = await client.send(
          new GetItemCommand({
            TableName: table,
            Key: marshall({ pk: partition(cluster), sk: SORT_KEY }),
            ConsistentRead: true,
          }),
        );
        if (output.Item === undefined) return undefined;
        const item = unmarshall(output.Item) as { rv: Record<string, string>; hb: number };
        return { resourceVersions: item.rv, heartbeatAt: item.hb };
      } catch (error) {
        throw transient(error);
      }
    },

    async hold(cluster, lease, resourceVersions) {
      try {
        await client.send(
          new PutItemCommand({
            TableName: table,
            Item: marshall({
              pk: partition(cluster),
              sk: SORT_KEY,
              ty: "c",
              ow: lease.owner,
              un: lease.until,
              hb: lease.now,
              rv: resourceVersions,
            }),
            // Expiry is judged by what stands in the item: a lease that ran out may be there for ever.
            ConditionExpression: "attribute_not_exists(pk) OR ow = :owner OR un < :now OR un > :far",
            ExpressionAttributeValues: marshall({
              ":owner": lease.owner,
              ":now": lease.now,
              ":far": lease.now + 10 * (lease.until - lease.now),
            }),
          }),
        );
        return true;
      } catch (error) {
        if (error instanceof ConditionalCheckFailedException) return false;
        throw transient(error);
      }
    },
  };
}
