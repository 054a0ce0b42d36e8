import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SQSClient } from "@aws-sdk/client-sqs";
import type { ClusterAccess } from "../shared/cluster/transport.ts";
import { systemClock } from "../shared/runtime/clock.ts";
import type { ClusterSettings } from "../shared/runtime/configuration.ts";
import { type Child, startChild } from "./child.ts";
import { openContext } from "./cluster-settings.ts";
import { startDynamoDb } from "./dynamodb.ts";
import { buildEnvironment, LOCAL_REGION, type LogLevel, withEnvironment } from "./environment.ts";
import { lockFolder } from "./folder-lock.ts";
import { choosePort } from "./free-port.ts";
import { createLedgerTable } from "./ledger-table.ts";
import { startQueueServer } from "./queue-server.ts";
import { createQueues } from "./queues.ts";
import { startRolloutsController } from "./sandbox/rollouts-controller.ts";
import { startSandboxCluster } from "./sandbox/sandbox-cluster.ts";
import { removeStackFile, type StackFile, writeStackFile } from "./stack-file.ts";

/** The embedded cluster's name in messages and in the ledger. */
export const SANDBOX_NAME = "sandbox";
const INSTALLATION = "tallyman";

export type StackCluster =
  | { readonly kind: "sandbox" }
  | { readonly kind: "context"; readonly name: string; readonly kubeconfig?: string };

export interface StackOptions {
  /** Holds the data, the logs and `stack.json`; one stack a folder. */
  readonly dataDir: string;
  readonly cluster: StackCluster;
  /** True keeps tables, queues and the sandbox cluster in memory; the folder then only gets logs and `stack.json`. */
  readonly memory?: boolean;
  /** 0 takes any that is free. Default: 7101 to 7103, or any where those are taken. */
  readonly ports?: { readonly dynamoDb?: number; readonly sqs?: number; readonly cluster?: number };
  readonly logLevel: LogLevel;
  /** Default 60. */
  readonly sweepSeconds?: number;
  /** What a person at the terminal should know, one sentence a call. */
  readonly say: (message: string) => void;
}

export interface Stack {
  readonly file: StackFile;
  readonly access: ClusterAccess;
  readonly dynamoDb: DynamoDBClient;
  readonly sqs: SQSClient;
  /** Of the child processes; `undefined` for one that is just being started again. */
  pids(): Readonly<Record<"worker" | "forwarder", number | undefined>>;
  /** Stops children first, then what they use; what they did not finish comes back at the next start. */
  stop(): Promise<void>;
}

const DEFAULT_PORTS = { dynamoDb: 7101, sqs: 7102, cluster: 7103 } as const;

/**
 * Starts everything that Tallyman is made of on this machine: DynamoDB and SQS APIs and, unless a context is
 * named, a cluster, in this process; the functions and the forwarder as child processes. All on loopback.
 *
 * @throws AlreadyRunning when a stack works on the folder, Fault `Invalid` when the context cannot be used.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const dataDir = resolve(options.dataDir);
  const cleanups: (() => Promise<unknown> | unknown)[] = [];
  const stop = once(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });
  try {
    const unlock = await lockFolder(dataDir);
    cleanups.push(unlock);
    return await assemble(options, dataDir, cleanups, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function assemble(
  options: StackOptions,
  dataDir: string,
  cleanups: (() => Promise<unknown> | unknown)[],
  stop: () => Promise<void>,
): Promise<Stack> {
  const { memory = false, ports = {}, say } = options;
  const stored = (name: string) => (memory ? {} : { path: join(dataDir, name) });

  const children: Child[] = [];
  let follow = (_settings: ClusterSettings): void => undefined;
  // First, because it is what a person can have got wrong.
  const cluster = await openCluster(options, dataDir, cleanups, (settings) => follow(settings));
  const { settings } = cluster;

  const database = await startDynamoDb({
    port: await choosePort(ports.dynamoDb, DEFAULT_PORTS.dynamoDb),
    ...stored("ledger"),
  });
  cleanups.push(() => database.stop());
  const queueServer = await startQueueServer({
    port: await choosePort(ports.sqs, DEFAULT_PORTS.sqs),
    ...stored("queues"),
  });
  cleanups.push(() => queueServer.stop());

  const connection = {
    region: LOCAL_REGION,
    credentials: { accessKeyId: "local", secretAccessKey: "local" },
  };
  const dynamoDb = new DynamoDBClient({ ...connection, endpoint: database.endpoint });
  const sqs = new SQSClient({ ...connection, endpoint: queueServer.endpoint });
  cleanups.push(() => {
    dynamoDb.destroy();
    sqs.destroy();
  });
  await createLedgerTable(dynamoDb, INSTALLATION);
  const queues = await createQueues(sqs, INSTALLATION);

  const describe = (settings: ClusterSettings) =>
    buildEnvironment({
      table: INSTALLATION,
      dynamoDbEndpoint: database.endpoint,
      sqsEndpoint: queueServer.endpoint,
      queues,
      clusters: [settings],
      logLevel: options.logLevel,
    });
  const childEnvironment = (settings: ClusterSettings) => ({
    ...withEnvironment(process.env, describe(settings)),
    TALLYMAN_FORWARDER_CLUSTER: settings.name,
    TALLYMAN_SWEEP_SECONDS: String(options.sweepSeconds ?? 60),
  });
  const logs = {
    worker: join(dataDir, "logs", "worker.log"),
    forwarder: join(dataDir, "logs", "forwarder.log"),
  };
  const startedAt = new Date(systemClock.now()).toISOString();
  const describeStack = (settings: ClusterSettings, kubeconfig: string | undefined): StackFile => ({
    version: 1,
    pid: process.pid,
    startedAt,
    region: LOCAL_REGION,
    table: INSTALLATION,
    dynamoDbEndpoint: database.endpoint,
    sqsEndpoint: queueServer.endpoint,
    queues,
    clusters: [settings],
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    logs,
    environment: describe(settings),
  });

  follow = (changed) => {
    say("the cluster's credentials have changed; worker and forwarder are started again");
    writeStackFile(dataDir, describeStack(changed, undefined));
    for (const child of children) child.restart(childEnvironment(changed));
  };
  const scripts = { worker: "./worker.ts", forwarder: "../functions/forwarder/main.ts" } as const;
  for (const name of ["worker", "forwarder"] as const) {
    children.push(
      startChild({
        name,
        script: new URL(scripts[name], import.meta.url),
        environment: childEnvironment(settings),
        logFile: logs[name],
        clock: systemClock,
        random: Math.random,
        say,
      }),
    );
  }
  cleanups.push(() => Promise.all(children.map((child) => child.stop())));

  const file = describeStack(settings, cluster.kubeconfig);
  writeStackFile(dataDir, file);
  cleanups.push(() => removeStackFile(dataDir));
  const [worker, forwarder] = children;
  return {
    file,
    access: cluster.access,
    dynamoDb,
    sqs,
    pids: () => ({ worker: worker?.pid(), forwarder: forwarder?.pid() }),
    stop,
  };
}

interface OpenCluster {
  readonly settings: ClusterSettings;
  readonly access: ClusterAccess;
  readonly kubeconfig?: string;
}

async function openCluster(
  options: StackOptions,
  dataDir: string,
  cleanups: (() => Promise<unknown> | unknown)[],
  onChange: (settings: ClusterSettings) => void,
): Promise<OpenCluster> {
  const { cluster, memory = false, ports = {}, say } = options;
  if (cluster.kind === "context") {
    const context = await openContext({
      context: cluster.name,
      kubeconfig: cluster.kubeconfig,
      tokenFile: join(dataDir, "cluster-token"),
      clock: systemClock,
      say,
      onChange,
    });
    cleanups.push(() => context.stop());
    return context;
  }
  const sandbox = await startSandboxCluster({
    port: await choosePort(ports.cluster, DEFAULT_PORTS.cluster),
    ...(memory ? {} : { dataFile: join(dataDir, "cluster.json") }),
  });
  cleanups.push(() => sandbox.stop());
  const rollouts = startRolloutsController({ url: sandbox.url });
  cleanups.push(() => rollouts.stop());
  const kubeconfig = join(dataDir, "kubeconfig");
  writeFileSync(kubeconfig, sandbox.kubeconfig(), { mode: 0o600 });
  return {
    settings: { name: SANDBOX_NAME, server: sandbox.url },
    access: { server: sandbox.url },
    kubeconfig,
  };
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => {
    running ??= run();
    return running;
  };
}
