import { isDeepStrictEqual } from "node:util";
import {
  BatchGetItemCommand,
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  type QueryCommandInput,
  UpdateItemCommand,
} from "@aws-sdk/client-dynamodb";
import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import { Fault } from "../domain/fault.ts";
import { formatStageKey, type StageKey } from "../domain/identity.ts";
import { sumMeasurements } from "../domain/observation.ts";
import { isTerminal, readRunPhase } from "../domain/phase.ts";
import type { RequestRecord, StageRecord, Verification } from "../domain/verification.ts";
import { callDynamoDb } from "./call.ts";
import {
  decodeRequest,
  decodeStage,
  decodeTransition,
  decodeVerification,
  encodeMemberships,
  encodeRequest,
  encodeStage,
  encodeTransition,
  encodeVerification,
  freightKey,
  type Item,
  projectKey,
  requestSortKey,
  STAGE_SORT_KEY,
  type Transition,
  verificationSortKey,
} from "./items.ts";
import { LEDGER_TABLE } from "./table.ts";

/** A verification with the revision that a later write must find. */
export interface Versioned {
  readonly verification: Verification;
  readonly revision: number;
}

/** One entry of a Stage's history, newest first: requests stand among the verifications they were about. */
export type HistoryEntry =
  | { readonly kind: "verification"; readonly verification: Verification }
  | { readonly kind: "request"; readonly request: RequestRecord };

export interface Page<T> {
  readonly items: readonly T[];
  /** Give it back to go on; absent on the last page. */
  readonly cursor?: string | undefined;
}

export interface PageOptions {
  /** Items at most; default 100. */
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

/**
 * The ledger: single-item conditional writes only. Every method throws a `Transient` fault when DynamoDB did
 * not answer or refused for a reason that may pass, and `Conflict` where it says so.
 */
export interface Ledger {
  /** One strongly consistent read; revision 0 when the Stage is not known yet. */
  readStage(key: StageKey): Promise<StageRecord>;
  /** One write. @throws Fault `Conflict` when the record changed since it was read. */
  writeStage(record: StageRecord): Promise<StageRecord>;
  /** One strongly consistent read. */
  readVerification(key: StageKey, id: string): Promise<Versioned | undefined>;
  /** One write, and one for each member of a collection that has several. False when it was there already. */
  createVerification(verification: Verification): Promise<boolean>;
  /** One write. @throws Fault `Conflict` when the verification changed since it was read. */
  updateVerification(next: Verification, revision: number): Promise<Versioned>;
  /**
   * The cheap path: one conditional write and no read for an observation that changes no phase. Anything but
   * `applied` says why not; `existing` is what is there.
   */
  recordProgress(
    key: StageKey,
    id: string,
    run: AnalysisRunSnapshot,
  ): Promise<{ applied: true } | { applied: false; existing: Versioned | undefined }>;
  /** One write; writing the same transition again changes nothing. */
  recordTransition(verification: Verification, run: AnalysisRunSnapshot | undefined): Promise<void>;
  readRequest(key: StageKey, requestId: string): Promise<RequestRecord | undefined>;
  /** One write; false when the request was settled already, which nothing changes. */
  writeRequest(request: RequestRecord): Promise<boolean>;
  /** A Stage's history, newest first. One Query a page. */
  listHistory(key: StageKey, options?: PageOptions): Promise<Page<HistoryEntry>>;
  /** A verification with its changes of phase, oldest first. One Query. */
  describeVerification(
    key: StageKey,
    id: string,
  ): Promise<{ verification: Verification; transitions: readonly Transition[] } | undefined>;
  /** Every open verification of a cluster, oldest first. One Query a page. */
  listOpen(cluster: string, options?: PageOptions): Promise<Page<Verification>>;
  /** What happened in a Project, newest first. One Query a page. */
  listActivity(cluster: string, project: string, options?: PageOptions): Promise<Page<HistoryEntry>>;
  /** Known Stages of a cluster, or of one of its Projects, by name. One Query a page. */
  listStages(cluster: string, project?: string, options?: PageOptions): Promise<Page<StageRecord>>;
  /** Ids of the verifications whose collection holds the Freight, newest first. One Query a page. */
  listByFreight(
    cluster: string,
    project: string,
    freight: string,
    options?: PageOptions,
  ): Promise<Page<{ key: StageKey; id: string; collectionId: string }>>;
  /** Verifications of exactly this FreightCollection, newest first. One Query a page. */
  listByCollection(
    cluster: string,
    project: string,
    collection: { readonly id: string; readonly freight: readonly string[] },
    options?: PageOptions,
  ): Promise<Page<Verification>>;
  /** Heads by id, in no order; one request for each hundred. */
  readVerifications(
    ids: readonly { readonly key: StageKey; readonly id: string }[],
  ): Promise<readonly Verification[]>;
}

/** The ledger on DynamoDB. `table` is the table's name. */
export function createLedger(client: DynamoDBClient, table: string): Ledger {
  const itemKey = (key: StageKey, sk: string): Item => ({ pk: { S: formatStageKey(key) }, sk: { S: sk } });

  async function getItem(key: Item): Promise<Item | undefined> {
    const output = await callDynamoDb(() =>
      client.send(new GetItemCommand({ TableName: table, Key: key, ConsistentRead: true })),
    );
    return isExpired(output.Item) ? undefined : output.Item;
  }

  const get = (key: StageKey, sk: string): Promise<Item | undefined> => getItem(itemKey(key, sk));

  /** Puts an item; false when the condition does not hold. */
  async function put(
    item: Item,
    condition?: string,
    values?: Item,
    names?: Record<string, string>,
  ): Promise<boolean> {
    const result = await attempt(() =>
      client.send(
        new PutItemCommand({
          TableName: table,
          Item: item,
          ...(condition === undefined
            ? {}
            : { ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: "ALL_OLD" }),
          ...(values === undefined ? {} : { ExpressionAttributeValues: values }),
          ...(names === undefined ? {} : { ExpressionAttributeNames: names }),
        }),
      ),
    );
    if (result.held || !result.retried) return result.held;
    // An answer was lost and the SDK wrote again: what fails the condition then may be this very write.
    const existing = result.item ?? (await getItem(keyOf(item)));
    return isDeepStrictEqual(existing, item);
  }

  async function query<T>(
    input: Omit<QueryCommandInput, "TableName">,
    options: PageOptions | undefined,
    decode: (item: Item) => T,
  ): Promise<Page<T>> {
    const start = decodeCursor(options?.cursor);
    const output = await callDynamoDb(() =>
      client.send(
        new QueryCommand({
          TableName: table,
          Limit: options?.limit ?? 100,
          ...(start === undefined ? {} : { ExclusiveStartKey: start }),
          ...input,
        }),
      ),
    );
    const items = (output.Items ?? []).filter((item) => !isExpired(item)).map(decode);
    return output.LastEvaluatedKey === undefined
      ? { items }
      : { items, cursor: encodeCursor(output.LastEvaluatedKey) };
  }

  const byIndex = (
    index: { readonly name: string; readonly partitionKey: string },
    value: string,
    newestFirst: boolean,
  ): Omit<QueryCommandInput, "TableName"> => ({
    IndexName: index.name,
    KeyConditionExpression: "#k = :k",
    ExpressionAttributeNames: { "#k": index.partitionKey },
    ExpressionAttributeValues: { ":k": { S: value } },
    ScanIndexForward: !newestFirst,
  });

  const { indexes } = LEDGER_TABLE;

  return {
    async readStage(key) {
      const item = await get(key, STAGE_SORT_KEY);
      return item === undefined ? { key, revision: 0, uid: "", observed: "0" } : decodeStage(item);
    },

    async writeStage(record) {
      const next = { ...record, revision: record.revision + 1 };
      const item = encodeStage(record, next.revision);
      const held =
        record.revision === 0
          ? await put(item, "attribute_not_exists(pk)")
          : await put(item, "n = :n", { ":n": { N: String(record.revision) } });
      if (!held)
        throw new Fault("Conflict", `Stage ${formatStageKey(record.key)} changed in the ledger meanwhile`);
      return next;
    },

    async readVerification(key, id) {
      const item = await get(key, verificationSortKey(id));
      return item === undefined ? undefined : decodeVerification(item);
    },

    async createVerification(verification) {
      // Memberships first: the head is what makes the verification exist, so nothing may be missing behind it.
      for (const membership of encodeMemberships(verification)) await put(membership);
      return put(encodeVerification(verification, 1), "attribute_not_exists(pk)");
    },

    async updateVerification(next, revision) {
      const held = await put(encodeVerification(next, revision + 1), "n = :n", {
        ":n": { N: String(revision) },
      });
      if (!held) throw new Fault("Conflict", `verification ${next.id} changed in the ledger meanwhile`);
      return { verification: next, revision: revision + 1 };
    },

    async recordProgress(key, id, run) {
      const phase = readRunPhase(run.phase) ?? "Running";
      const counts = sumMeasurements(run);
      const result = await attempt(() =>
        client.send(
          new UpdateItemCommand({
            TableName: table,
            Key: itemKey(key, verificationSortKey(id)),
            UpdateExpression: "SET ob = :ob, rp = :rp, ct = :ct ADD n :one",
            ConditionExpression: "ph = :ph AND ob < :ob",
            ExpressionAttributeValues: {
              ":ob": { N: run.resourceVersion },
              ":rp": { S: run.phase },
              ":ph": { S: phase },
              ":one": { N: "1" },
              ":ct": {
                L: [counts.count, counts.successful, counts.failed, counts.inconclusive, counts.error].map(
                  (n) => ({
                    N: String(n),
                  }),
                ),
              },
            },
            ReturnValuesOnConditionCheckFailure: "ALL_OLD",
          }),
        ),
      );
      if (result.held) return { applied: true };
      // DynamoDB hands back the item that failed the condition; dynalite does not, and is asked again.
      const item = result.item ?? (await get(key, verificationSortKey(id)));
      return { applied: false, existing: item === undefined ? undefined : decodeVerification(item) };
    },

    async recordTransition(verification, run) {
      // Without a sight of the run there is nothing to say that is not there already.
      await put(
        encodeTransition(verification, run),
        run === undefined ? "attribute_not_exists(pk)" : undefined,
      );
    },

    async readRequest(key, requestId) {
      const item = await get(key, requestSortKey(requestId));
      return item === undefined ? undefined : decodeRequest(item);
    },

    async writeRequest(request) {
      return put(encodeRequest(request), "attribute_not_exists(pk) OR ph IN (:accepted, :waiting)", {
        ":accepted": { S: "accepted" },
        ":waiting": { S: "waiting" },
      });
    },

    listHistory: (key, options) =>
      query(
        {
          ...byIndex(indexes.history, formatStageKey(key), true),
          // Times only: the Stage's own record sorts behind them by its name.
          KeyConditionExpression: "#k = :k AND h < :end",
          ExpressionAttributeValues: { ":k": { S: formatStageKey(key) }, ":end": { S: ":" } },
        },
        options,
        decodeEntry,
      ).then(onlyEntries),

    async describeVerification(key, id) {
      // A head and at most one item a phase and a Freight: far below the megabyte of one Query.
      const page = await query(
        {
          KeyConditionExpression: "pk = :pk AND begins_with(sk, :sk)",
          ExpressionAttributeValues: {
            ":pk": { S: formatStageKey(key) },
            ":sk": { S: verificationSortKey(id) },
          },
          ConsistentRead: true,
        },
        { limit: 1000 },
        (item) => item,
      );
      const head = page.items.find((item) => item.ty?.S === "v" && item.sk?.S === verificationSortKey(id));
      if (head === undefined) return undefined;
      const { verification } = decodeVerification(head);
      const transitions = page.items.filter((item) => item.ty?.S === "p").map(decodeTransition);
      // Whoever wrote the head may have died before its details; the head alone says the most of it.
      if (isTerminal(verification.phase) && !transitions.some(({ phase }) => phase === verification.phase))
        transitions.push(decodeTransition(encodeTransition(verification, undefined)));
      return { verification, transitions: transitions.sort((a, b) => a.at - b.at) };
    },

    listOpen: (cluster, options) =>
      query(byIndex(indexes.open, cluster, false), options, (item) => decodeVerification(item).verification),

    listActivity: (cluster, project, options) =>
      query(byIndex(indexes.activity, projectKey(cluster, project), true), options, decodeEntry).then(
        onlyEntries,
      ),

    listStages(cluster, project, options) {
      const base = byIndex(indexes.activity, cluster, false);
      if (project === undefined) return query(base, options, decodeStage);
      return query(
        {
          ...base,
          KeyConditionExpression: "#k = :k AND begins_with(h, :h)",
          ExpressionAttributeValues: { ":k": { S: cluster }, ":h": { S: `${project}/` } },
        },
        options,
        decodeStage,
      );
    },

    listByFreight: (cluster, project, freight, options) =>
      query(byIndex(indexes.freight, freightKey(cluster, project, freight), true), options, (item) => {
        const [stage = "", id = ""] = [item.pk?.S, item.sk?.S?.split("#")[1]];
        const [c = "", p = "", s = ""] = stage.split("/");
        return { key: { cluster: c, project: p, stage: s }, id, collectionId: item.co?.S ?? "" };
      }),

    listByCollection(cluster, project, collection, options) {
      const [only, ...others] = collection.freight;
      const value = only !== undefined && others.length === 0 ? only : collection.id;
      return query(
        byIndex(indexes.freight, freightKey(cluster, project, value), true),
        options,
        (item) => item,
      ).then((page) => ({
        ...page,
        items: page.items
          .filter((item) => item.ty?.S === "v" && item.co?.S === collection.id)
          .map((item) => decodeVerification(item).verification),
      }));
    },

    async readVerifications(ids) {
      const found: Verification[] = [];
      for (let start = 0; start < ids.length; start += 100) {
        let keys: Item[] | undefined = ids
          .slice(start, start + 100)
          .map(({ key, id }) => itemKey(key, verificationSortKey(id)));
        while (keys !== undefined && keys.length > 0) {
          const wanted: Item[] = keys;
          const output = await callDynamoDb(() =>
            client.send(new BatchGetItemCommand({ RequestItems: { [table]: { Keys: wanted } } })),
          );
          for (const item of output.Responses?.[table] ?? [])
            if (!isExpired(item)) found.push(decodeVerification(item).verification);
          keys = output.UnprocessedKeys?.[table]?.Keys as Item[] | undefined;
        }
      }
      return found;
    },
  };
}

/** DynamoDB removes what is expired when it comes to it; to us it is gone from the moment on that it is marked. */
function isExpired(item: Item | undefined): boolean {
  return item?.[LEDGER_TABLE.timeToLiveAttribute] !== undefined;
}

function keyOf({ pk, sk }: Item): Item {
  if (pk === undefined || sk === undefined) throw new Error("an item without its key");
  return { pk, sk };
}

/** An entry of a history, or nothing for an item that is none. */
export function decodeEntry(item: Item): HistoryEntry | undefined {
  if (item.ty?.S === "v")
    return { kind: "verification", verification: decodeVerification(item).verification };
  if (item.ty?.S === "r") return { kind: "request", request: decodeRequest(item) };
  return undefined;
}

function onlyEntries(page: Page<HistoryEntry | undefined>): Page<HistoryEntry> {
  return { ...page, items: page.items.filter((entry) => entry !== undefined) };
}

function encodeCursor(key: Record<string, unknown>): string {
  return Buffer.from(JSON.stringify(key)).toString("base64url");
}

function decodeCursor(cursor: string | undefined): Item | undefined {
  if (cursor === undefined) return undefined;
  try {
    const key: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
    if (typeof key === "object" && key !== null && "pk" in key) return key as Item;
  } catch {
    // Falls through to the one error below.
  }
  throw new Fault("Invalid", "the page cursor is not one that this ledger gave out; start again without it");
}

/** Runs one conditional write; a condition that does not hold is an answer, with the item if it came back. */
async function attempt(
  call: () => Promise<unknown>,
): Promise<{ held: true } | { held: false; item?: Item | undefined; retried: boolean }> {
  try {
    await callDynamoDb(call);
    return { held: true };
  } catch (error) {
    if (error instanceof ConditionalCheckFailedException) {
      return { held: false, item: error.Item, retried: (error.$metadata.attempts ?? 1) > 1 };
    }
    throw error;
  }
}
