import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { styleText } from "node:util";
import { Command, Option } from "commander";
import { createCluster } from "../shared/cluster/cluster.ts";
import { createTransport } from "../shared/cluster/https-transport.ts";
import { isFault } from "../shared/domain/fault.ts";
import { createLedger } from "../shared/ledger/ledger.ts";
import { createMessageQueue } from "../shared/queue/message-queue.ts";
import { systemClock } from "../shared/runtime/clock.ts";
import { createClusterWriter } from "./demo/cluster-writer.ts";
import { PROJECT, seedShop, wasPlayed } from "./demo/shop.ts";
import { playStory, StoryFailed } from "./demo/story.ts";
import type { LogLevel } from "./environment.ts";
import { AlreadyRunning } from "./folder-lock.ts";
import { formatHistory } from "./history-table.ts";
import { createFreightNames, type LiveView, startLiveView } from "./live-view.ts";
import { type Stack, startStack } from "./stack.ts";
import { DEFAULT_DATA_FOLDER } from "./stack-file.ts";

interface StartOptions {
  readonly once?: true;
  readonly context?: string;
  readonly kubeconfig?: string;
  readonly data?: string;
  /** True or false where it was said, else undefined. */
  readonly demo?: boolean;
  readonly logLevel: LogLevel;
}

const STORY_MS = 60_000;
/** A second signal this soon is the first one, told by both the terminal and npm. */
const SAME_SIGNAL_MS = 1_000;

function readOptions(): StartOptions {
  return new Command("npm start --")
    .description(
      "Runs all of Tallyman on this machine: DynamoDB and SQS APIs, a small Kubernetes API server, the functions and the forwarder. Everything listens on loopback only.",
    )
    .option("--once", "play the demo on a fresh installation in memory, print its history and end")
    .addOption(
      new Option(
        "--context <name>",
        "verify on the cluster of this kubeconfig context, not in the sandbox",
      ).conflicts(["once", "demo"]),
    )
    .option("--kubeconfig <file>", "where the context is found (default: as kubectl looks)")
    .option("--data <folder>", `where data, logs and stack.json are kept (default: ${DEFAULT_DATA_FOLDER})`)
    .option("--demo", "play the demo also if it was played before")
    .option("--no-demo", "start with an empty sandbox, or with what is in it")
    .addOption(
      new Option("--log-level <level>", "of the log files")
        .choices(["debug", "info", "warn", "error"])
        .default("info"),
    )
    .addHelpText(
      "after",
      `
Examples:
  npm start                           the demo, until Ctrl-C; data stays in ${DEFAULT_DATA_FOLDER}
  npm start -- --once                 the demo once, nothing stays
  npm start -- --context kind-dev     verify the Stages of a cluster of yours; writes nothing but verifications
  npm start -- --data /tmp/harbour    another installation beside the first
`,
    )
    .parse()
    .opts();
}

/** Goes on until somebody ends it. `signal` is aborted then. */
async function run(options: StartOptions, dataDir: string, signal: AbortSignal): Promise<void> {
  const isSandbox = options.context === undefined;
  const once = options.once === true;
  const started = performance.now();
  const stack = await startStack({
    dataDir,
    cluster:
      options.context === undefined
        ? { kind: "sandbox" }
        : {
            kind: "context",
            name: options.context,
            ...(options.kubeconfig === undefined ? {} : { kubeconfig: options.kubeconfig }),
          },
    memory: once,
    ...(once ? { ports: { dynamoDb: 0, sqs: 0, cluster: 0 } } : {}),
    logLevel: options.logLevel,
    say: (message) => print(styleText("yellow", `! ${message}`)),
  });
  try {
    print(`Tallyman runs (started in ${((performance.now() - started) / 1000).toFixed(1)} s).`);
    describeStack(stack, dataDir);
    await work(stack, { dataDir, isSandbox, once, demo: options.demo }, signal);
  } finally {
    if (!once && !signal.aborted) print("Stopping …");
    await stack.stop();
  }
}

interface WorkOptions {
  readonly dataDir: string;
  readonly isSandbox: boolean;
  readonly once: boolean;
  readonly demo: boolean | undefined;
}

async function work(stack: Stack, options: WorkOptions, signal: AbortSignal): Promise<void> {
  const [settings] = stack.file.clusters;
  const clusterName = settings?.name ?? "";
  const transport = createTransport(stack.access);
  const ledger = createLedger(stack.dynamoDb, stack.file.table);
  const names = createFreightNames(createCluster(clusterName, transport));
  const writer = createClusterWriter(transport);
  let view: LiveView | undefined;
  try {
    const demo = options.isSandbox && options.demo !== false;
    if (demo) await seedShop(writer);
    const play = demo && (options.demo === true || !(await wasPlayed(writer)));
    if (demo && !play) {
      print(`\nThe demo was played before; to play it again: ${styleText("bold", "npm start -- --demo")}\n`);
      print(await formatHistory(ledger, clusterName, PROJECT, names));
    }
    print("");
    view = startLiveView({
      ledger,
      cluster: clusterName,
      names,
      clock: systemClock,
      everyMs: options.isSandbox ? 150 : 1_000,
      print,
      width: () => (process.stdout.isTTY ? process.stdout.columns : undefined),
      formatStage: options.isSandbox ? (key) => key.stage : (key) => `${key.project}/${key.stage}`,
    });
    if (play) {
      await playStory({
        cluster: clusterName,
        writer,
        ledger,
        queue: createMessageQueue(stack.sqs, stack.file.queues, clusterName),
        clock: systemClock,
        random: Math.random,
        tell: (sentence) => print(styleText("dim", `→ ${sentence}`)),
        withinMs: STORY_MS,
        signal,
      });
    }
    await view.catchUp();
    if (options.once) {
      await view.stop();
      print("");
      print(await formatHistory(ledger, clusterName, PROJECT, names));
      return;
    }
    suggest(options, stack);
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  } finally {
    await view?.stop();
    transport.close();
  }
}

function describeStack(stack: Stack, dataDir: string): void {
  const { clusters, dynamoDbEndpoint, sqsEndpoint } = stack.file;
  const rows = [
    ["cluster", `${clusters[0]?.name} at ${clusters[0]?.server}`],
    ["ledger", `table ${stack.file.table} at ${dynamoDbEndpoint}`],
    ["queues", `verify, abort and reverify at ${sqsEndpoint}`],
    ["files", `${showPath(dataDir)} (logs in ${showPath(join(dataDir, "logs"))})`],
  ];
  for (const [name = "", value] of rows) print(`  ${styleText("dim", name.padEnd(8))} ${value}`);
}

function suggest({ dataDir, isSandbox }: WorkOptions, stack: Stack): void {
  const [project, stage] = isSandbox ? [PROJECT, "prod"] : ["PROJECT", "STAGE"];
  const where = dataDir === resolve(DEFAULT_DATA_FOLDER) ? "" : ` --data ${showPath(dataDir)}`;
  const tallyman = (command: string): string => `npm run tallyman -- ${command}${where}`;
  const lines: [command: string, what: string][] = [
    [tallyman("get stages"), "every Stage and where its verification is"],
    [tallyman(`history stage ${stage} -p ${project}`), "all attempts, newest first"],
    [tallyman(`reverify stage ${stage} -p ${project}`), "verify its Freight again; watch it here"],
    ["npm run tallyman -- --help", "everything else"],
  ];
  if (isSandbox)
    lines.push([`npm run promote -- qa calm-heron${where}`, "what Kargo would do: bring Freight to a Stage"]);
  if (stack.file.kubeconfig !== undefined) {
    const kubeconfig = showPath(stack.file.kubeconfig);
    lines.push([
      `kubectl --kubeconfig ${kubeconfig} -n ${project} get stages`,
      "the sandbox, as kubectl sees it",
    ]);
  }
  const width = Math.max(...lines.map(([command]) => command.length));
  print("\nTry, in another terminal:");
  for (const [command, what] of lines) {
    print(`  ${styleText("bold", command.padEnd(width))}  ${styleText("dim", what)}`);
  }
  print("\nCtrl-C stops everything.\n");
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function showPath(path: string): string {
  const shown = relative(process.cwd(), path);
  return shown === "" ? "." : shown.startsWith("..") ? path : shown;
}

/** The exit code. */
async function main(): Promise<number> {
  const options = readOptions();
  const temporary = options.once && options.data === undefined;
  const dataDir = temporary
    ? mkdtempSync(join(tmpdir(), "tallyman-"))
    : resolve(options.data ?? DEFAULT_DATA_FOLDER);
  const abort = new AbortController();
  let first: number | undefined;
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      const now = performance.now();
      if (first === undefined) {
        first = now;
        print("\nStopping … (again to stop at once)");
        abort.abort();
      } else if (now - first > SAME_SIGNAL_MS) {
        // The children notice that we are gone and stop by themselves.
        process.exit(130);
      }
    });
  }
  try {
    await run(options, dataDir, abort.signal);
    if (temporary) rmSync(dataDir, { recursive: true });
    return options.once && abort.signal.aborted ? 130 : 0;
  } catch (error) {
    if (abort.signal.aborted && error instanceof StoryFailed) return 130;
    process.stderr.write(`${styleText("red", "tallyman:", { stream: process.stderr })} ${explain(error)}\n`);
    if (error instanceof StoryFailed) process.stderr.write(`The logs are in ${join(dataDir, "logs")}\n`);
    return 1;
  }
}

function explain(error: unknown): string {
  if (error instanceof AlreadyRunning || error instanceof StoryFailed) return error.message;
  if (isFault(error)) return error.reasons.join("\n");
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

process.exit(await main());
