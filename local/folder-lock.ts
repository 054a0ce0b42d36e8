import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { isRunning, readStackFile } from "./stack-file.ts";

/** Somebody else's stack works on the folder. */
export class AlreadyRunning extends Error {
  override readonly name = "AlreadyRunning";
  readonly pid: number;

  constructor(pid: number, dataFolder: string) {
    super(
      `Tallyman already runs on ${dataFolder} (process ${pid}). Stop it with Ctrl-C in its terminal or with: kill ${pid}`,
    );
    this.pid = pid;
  }
}

/**
 * Takes the data folder for this process; two stacks on one folder would ruin it. A lock that a dead process left
 * is taken over, also when another program has got its process id meanwhile.
 *
 * @returns what gives the folder back.
 * @throws AlreadyRunning
 */
export async function lockFolder(dataFolder: string): Promise<() => void> {
  mkdirSync(dataFolder, { recursive: true });
  const path = join(dataFolder, "stack.lock");
  for (;;) {
    try {
      writeFileSync(path, String(process.pid), { flag: "wx" });
      return () => rmSync(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const pid = readPid(path);
    if (pid !== undefined && pid !== process.pid && isRunning(pid) && (await looksAlive(dataFolder, pid))) {
      throw new AlreadyRunning(pid, dataFolder);
    }
    rmSync(path, { force: true });
  }
}

function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, "utf8"));
    return Number.isInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** A stack that still starts has no file yet; one that runs answers on its port. */
async function looksAlive(dataFolder: string, pid: number): Promise<boolean> {
  const file = readStackFile(dataFolder);
  if (file === undefined || file.pid !== pid) return true;
  const { hostname, port } = new URL(file.dynamoDbEndpoint);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port), timeout: 1_000 });
    const answer = (alive: boolean) => (): void => {
      socket.destroy();
      resolve(alive);
    };
    socket.once("connect", answer(true)).once("error", answer(false)).once("timeout", answer(false));
  });
}
