/**
 * Child processes that outlive neither their stop() nor this program.
 *
 * A test run that is killed must not leave an API server behind, and a test
 * must never end a process that it did not start. So every child has a guard:
 * a shell that waits for our end of a pipe to close, which the kernel does for
 * us however we die, and then kills that one pid.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/**
 * How long a child gets between the polite signal and the last one. Enough to
 * answer what is in flight; left alone, kube-apiserver would hold open watches
 * for a minute more and etcd its streams for seven seconds.
 */
const gracePeriodMs = 3_000;

export interface StartedProcess {
  readonly pid: number;
  /** Whether the process has not ended yet. */
  isRunning(): boolean;
  /** The last lines that the process wrote to either stream. */
  logTail(): string;
  /**
   * Ends the process and resolves when it is gone. SIGTERM becomes SIGKILL
   * after three seconds; SIGKILL at once is a crash. Harmless when repeated.
   */
  stop(signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
}

export interface ProcessRequest {
  readonly command: string;
  readonly args: readonly string[];
  /** Both streams are appended to this file. */
  readonly logFile: string;
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Starts a program and resolves once the operating system has accepted it,
 * which is before it is ready for anything: see {@link waitUntil}.
 */
export async function startProcess(request: ProcessRequest): Promise<StartedProcess> {
  const log = openSync(request.logFile, "a");
  let child: ChildProcess;
  try {
    child = spawn(request.command, request.args, {
      stdio: ["ignore", log, log],
      env: { ...process.env, ...request.env },
    });
    await once(child, "spawn");
  } finally {
    closeSync(log);
  }
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${request.command} started without a pid`);

  const guard = startGuard(pid);
  child.on("error", () => {}); // a signal that came too late; the exit is reported all the same
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => {
      guard.kill("SIGKILL");
      resolve();
    });
  });
  const isRunning = () => child.exitCode === null && child.signalCode === null;

  return {
    pid,
    isRunning,
    logTail: () => readFileSync(request.logFile, "utf8").split("\n").slice(-25).join("\n"),
    async stop(signal = "SIGTERM") {
      if (isRunning()) {
        child.kill(signal);
        const escalation = setTimeout(() => child.kill("SIGKILL"), gracePeriodMs);
        await ended.finally(() => clearTimeout(escalation));
      }
    },
  };
}

/**
 * `read` returns when the pipe closes. The guard is killed as soon as its
 * process ends, so that it never meets a pid that was given to somebody else.
 */
function startGuard(pid: number): ChildProcess {
  const guard = spawn("sh", ["-c", 'read -r _; kill -9 "$1"', "guard", String(pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // a Ctrl-C in the terminal must not reach the guard first
  });
  guard.on("error", () => {}); // no shell: the child is then only ended by stop()
  guard.unref();
  return guard;
}

/**
 * Polls until `probe` resolves to something other than undefined.
 * @throws when the deadline passes, or at once when `process` has ended; both
 *   name `what`, the last failure of the probe and the end of the log.
 */
export async function waitUntil<T>(
  what: string,
  probe: () => Promise<T | undefined>,
  options: {
    readonly timeoutMs?: number;
    readonly intervalMs?: number;
    readonly process?: Pick<StartedProcess, "isRunning" | "logTail">;
  } = {},
): Promise<T> {
  const timeoutMs = options.timeoutMs ?? 60_000;
  const deadline = performance.now() + timeoutMs;
  let lastFailure: unknown;
  for (;;) {
    try {
      const found = await probe();
      if (found !== undefined) return found;
    } catch (failure) {
      lastFailure = failure;
    }
    const why = (problem: string) =>
      new Error(`${what}: ${problem}\n${options.process?.logTail() ?? ""}`, { cause: lastFailure });
    if (options.process?.isRunning() === false) throw why("the process ended");
    if (performance.now() > deadline) throw why(`not within ${timeoutMs} ms`);
    await delay(options.intervalMs ?? 100);
  }
}

/**
 * Different ports of 127.0.0.1 that nobody listens on. They lie below the
 * range from which operating systems take ports for outgoing connections, so
 * that they are still free when a stopped server comes back on its own.
 */
export async function findFreePorts(count: number): Promise<number[]> {
  const found = new Set<number>();
  for (let attempt = 0; attempt < 50 && found.size < count; attempt++) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const probe = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree) found.add(port);
  }
  if (found.size < count) throw new Error(`no ${count} free ports found on 127.0.0.1`);
  return [...found];
}
