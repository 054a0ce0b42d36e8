import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SQSClient } from "@aws-sdk/client-sqs";
import * as z from "zod/mini";
import { isFault } from "../shared/domain/fault.ts";
import { createLedger, type Ledger } from "../shared/ledger/ledger.ts";
import { createDeadLetterQueue, type DeadLetterQueue } from "../shared/queue/dead-letter-queue.ts";
import { createMessageQueue, type MessageQueue } from "../shared/queue/message-queue.ts";
import { type Configuration, readConfiguration } from "../shared/runtime/configuration.ts";
import { CommandError } from "./command-error.ts";

/** An installation, as far as the CLI needs it: the ledger to read, the queues to ask. */
export interface Connection {
  readonly ledger: Ledger;
  readonly queue: MessageQueue;
  readonly deadLetters: DeadLetterQueue;
  /** What the above is made of, for whoever examines the installation itself. */
  readonly parts: {
    readonly dynamoDb: DynamoDBClient;
    readonly sqs: SQSClient;
    readonly configuration: Configuration;
  };
  /** Names; the first is the default. */
  readonly clusters: readonly string[];
  close(): void;
}

type Environment = Readonly<Record<string, string | undefined>>;

export interface ConnectionOptions {
  readonly env: Environment;
  readonly cwd: string;
  /** Where this Tallyman itself lies: `npm start` there is found from anywhere. */
  readonly root: string;
  /** The data folder of a stack started by `npm start`; it then wins over the environment. */
  readonly data?: string | undefined;
}

const DATA_FOLDER = ".tallyman";

/** What the CLI needs of `stack.json`, which a running embedded stack keeps in its data folder. */
const stackSchema = z.object({
  version: z.literal(1),
  pid: z.number(),
  environment: z.record(z.string(), z.string()),
});

/**
 * Opens the installation that the environment names, or else the embedded stack that runs on a `.tallyman` folder
 * here, in a folder above or beside Tallyman itself. Nothing connects before it is used.
 *
 * @throws CommandError when there is none, or its settings are wrong.
 */
export function openConnection(options: ConnectionOptions): Connection {
  const { env, data } = options;
  if (data === undefined && env.TALLYMAN_TABLE) return connect(configure(env), {});
  const environment = findStack(options);
  if (environment === undefined) throw new CommandError("unreachable", ...describeAbsence(options));
  return connect(configure(environment), environment);
}

function configure(environment: Environment): Configuration {
  try {
    return readConfiguration(environment);
  } catch (error) {
    if (!isFault(error, "Invalid")) throw error;
    throw new CommandError("usage", `the installation's settings are incomplete: ${error.message}`, [
      "All variables are needed: see docs/cli.md, section Connection.",
    ]);
  }
}

/** A local stack's addresses and keys are given to the clients alone: this process's own AWS setup stays out of it. */
function connect(configuration: Configuration, local: Environment): Connection {
  const isLocal = local.AWS_REGION !== undefined;
  const settings = (endpoint: string | undefined) =>
    isLocal
      ? {
          region: local.AWS_REGION ?? "local",
          ...(endpoint === undefined ? {} : { endpoint }),
          credentials: {
            accessKeyId: local.AWS_ACCESS_KEY_ID ?? "local",
            secretAccessKey: local.AWS_SECRET_ACCESS_KEY ?? "local",
          },
        }
      : {};
  const dynamoDb = new DynamoDBClient(settings(local.AWS_ENDPOINT_URL_DYNAMODB));
  const sqs = new SQSClient(settings(local.AWS_ENDPOINT_URL_SQS));
  const clusters = configuration.clusters.map((cluster) => cluster.name);
  return {
    ledger: createLedger(dynamoDb, configuration.table),
    queue: createMessageQueue(sqs, configuration.queues, clusters[0] ?? ""),
    deadLetters: createDeadLetterQueue(sqs, configuration.queues, {
      waitSeconds: 1,
      defaultCluster: clusters[0] ?? "",
    }),
    clusters,
    parts: { dynamoDb, sqs, configuration },
    close() {
      dynamoDb.destroy();
      sqs.destroy();
    },
  };
}

/** The environment of the first running stack among the folders to look at. */
function findStack(options: ConnectionOptions): Environment | undefined {
  for (const folder of candidateFolders(options)) {
    let content: unknown;
    try {
      content = JSON.parse(readFileSync(join(folder, "stack.json"), "utf8"));
    } catch {
      continue;
    }
    const stack = stackSchema.safeParse(content);
    if (stack.success && isRunning(stack.data.pid)) return stack.data.environment;
  }
  return undefined;
}

function candidateFolders({ cwd, root, data }: ConnectionOptions): string[] {
  if (data !== undefined) return [resolve(cwd, data)];
  const folders: string[] = [];
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    folders.push(join(folder, DATA_FOLDER));
    if (folder === dirname(folder)) break;
  }
  return [...folders, join(root, DATA_FOLDER)];
}

/** A stack that was killed leaves its file behind. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function describeAbsence({ data, cwd }: ConnectionOptions): [string, string[]] {
  if (data !== undefined) {
    return [`no stack runs on the folder ${resolve(cwd, data)}`, [`Start it: npm start -- --data ${data}`]];
  }
  return [
    "no installation of Tallyman found",
    [
      "On this machine: npm start, and keep it running.",
      "On AWS: set TALLYMAN_TABLE, TALLYMAN_CLUSTERS and the queue URLs (TALLYMAN_VERIFY_QUEUE_URL, …);",
      "docs/cli.md lists them.",
    ],
  ];
}
