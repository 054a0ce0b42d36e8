import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MessageKind } from "../shared/messages/schema.ts";
import type { QueueUrls } from "../shared/queue/message-queue.ts";
import type { ClusterSettings } from "../shared/runtime/configuration.ts";

/** Where the stack keeps everything, unless it is told otherwise; below the current folder. */
export const DEFAULT_DATA_FOLDER = ".tallyman";

/** What a running stack says about itself, for the CLI and whoever else wants to reach it. */
export interface StackFile {
  /** Grows when a field changes its meaning. */
  readonly version: 1;
  /** The supervisor's process; a signal to it stops everything. */
  readonly pid: number;
  readonly startedAt: string;
  readonly region: string;
  readonly table: string;
  readonly dynamoDbEndpoint: string;
  readonly sqsEndpoint: string;
  readonly queues: Readonly<Record<MessageKind, QueueUrls>>;
  /** As in `TALLYMAN_CLUSTERS`. */
  readonly clusters: readonly ClusterSettings[];
  /** A kubeconfig of the sandbox cluster; absent when the stack works on a cluster of yours. */
  readonly kubeconfig?: string;
  /** Log files of the child processes. */
  readonly logs: Readonly<Record<"worker" | "forwarder", string>>;
  /** All of the above as the functions get it: merge it over `process.env` and every client finds its way. */
  readonly environment: Readonly<Record<string, string>>;
}

export const stackFilePath = (dataFolder: string): string => join(dataFolder, "stack.json");

/** Writes the file whole or not at all; only its owner may read it, since it may hold cluster credentials. */
export function writeStackFile(dataFolder: string, content: StackFile): void {
  const path = stackFilePath(dataFolder);
  mkdirSync(dataFolder, { recursive: true });
  const temporary = `${path}.${process.pid}.new`;
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, path);
}

/**
 * Reads the file of the stack that runs on this folder. `undefined` when none does: there is no file, it cannot
 * be read as one, or the process that wrote it is gone.
 */
export function readStackFile(dataFolder: string): StackFile | undefined {
  let content: Partial<StackFile>;
  try {
    content = JSON.parse(readFileSync(stackFilePath(dataFolder), "utf8")) as Partial<StackFile>;
  } catch {
    return undefined;
  }
  if (content.version !== 1 || typeof content.pid !== "number" || !isRunning(content.pid)) return undefined;
  return content as StackFile;
}

export function removeStackFile(dataFolder: string): void {
  rmSync(stackFilePath(dataFolder), { force: true });
}

/** Whether a process has this id; one that belongs to somebody else counts. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
