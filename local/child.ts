import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { computeBackoff } from "../shared/runtime/backoff.ts";
import type { Clock } from "../shared/runtime/clock.ts";

export interface ChildOptions {
  /** `worker` or `forwarder`; how it is called in messages. */
  readonly name: string;
  /** A TypeScript file, run by this very Node. */
  readonly script: URL;
  readonly arguments?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Both of its streams are appended here. */
  readonly logFile: string;
  readonly clock: Clock;
  readonly random: () => number;
  /** One sentence when it ended unasked and when it is started again. */
  readonly say: (message: string) => void;
}

export interface Child {
  /** Of the process that runs now; `undefined` between two. */
  pid(): number | undefined;
  /** Ends it and starts it with this environment. */
  restart(environment: Readonly<Record<string, string>>): void;
  /** Ends it for good: SIGTERM, and SIGKILL if that is not enough. */
  stop(): Promise<void>;
}

/** Milliseconds before it is started again; one that lived for `HEALTHY_MS` begins anew. */
const RESTART_BACKOFF = { base: 500, cap: 30_000 };
const HEALTHY_MS = 30_000;
/** A function under way may take as long as its time-out; the message then comes back anyway. */
const GRACE_MS = 8_000;
const MAX_LOG_BYTES = 20_000_000;

/** Runs a child process and starts it again whenever it ends. */
export function startChild(options: ChildOptions): Child {
  const { clock, logFile, name, say } = options;
  const stop = new AbortController();
  let environment = options.environment;
  let current: ChildProcess | undefined;
  let restarting = false;

  const supervise = async (): Promise<void> => {
    let failures = 0;
    while (!stop.signal.aborted) {
      const startedAt = clock.now();
      restarting = false;
      const ending = await runOnce();
      if (stop.signal.aborted) return;
      if (restarting) continue;
      failures = clock.now() - startedAt > HEALTHY_MS ? 1 : failures + 1;
      const pause = computeBackoff(failures, RESTART_BACKOFF, options.random);
      say(`${name} ended (${ending}); it is started again in ${(pause / 1000).toFixed(1)} s. See ${logFile}`);
      await clock.sleep(pause, stop.signal);
    }
  };

  const runOnce = async (): Promise<string> => {
    rotate(logFile);
    const log = openSync(logFile, "a");
    const watch = new URL("./parent-watch.ts", import.meta.url).href;
    const child = spawn(
      process.execPath,
      ["--import", watch, fileURLToPath(options.script), ...(options.arguments ?? [])],
      {
        env: environment,
        stdio: ["ignore", log, log, "ipc"],
      },
    );
    closeSync(log);
    current = child;
    return new Promise((resolve) => {
      const end = (ending: string) => (): void => {
        if (current === child) current = undefined;
        resolve(ending);
      };
      child.once("error", (error) => end(error.message)());
      child.once("exit", (code, signal) => end(signal ?? `exit code ${code}`)());
    });
  };

  /** Ours: a ChildProcess never signals a process id that was given to somebody else. */
  const end = (child: ChildProcess): (() => void) => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
    return () => clearTimeout(timer);
  };

  mkdirSync(dirname(logFile), { recursive: true });
  const done = supervise();
  return {
    pid: () => current?.pid,
    restart(next) {
      environment = next;
      if (current === undefined) return;
      restarting = true;
      const child = current;
      child.once("exit", end(child));
    },
    async stop() {
      stop.abort();
      const settle = current === undefined ? undefined : end(current);
      await done;
      settle?.();
    },
  };
}

/** Keeps one old file, so that a stack that runs for weeks does not fill the disk at every restart. */
function rotate(logFile: string): void {
  try {
    if (statSync(logFile).size > MAX_LOG_BYTES) renameSync(logFile, `${logFile}.old`);
  } catch {
    // There is none yet.
  }
}
