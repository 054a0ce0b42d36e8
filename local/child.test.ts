import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../shared/runtime/clock.ts";
import { type Child, startChild } from "./child.ts";
import { isRunning } from "./stack-file.ts";

const SOON = { timeout: 8_000, interval: 10 };
let folder: string;
let child: Child | undefined;
const said: string[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tallyman-child-"));
});
afterEach(async () => {
  await child?.stop();
  child = undefined;
  said.length = 0;
  await rm(folder, { recursive: true });
});

const logFile = (): string => join(folder, "logs", "child.log");
const readLog = async (): Promise<string[]> =>
  (await readFile(logFile(), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");

async function start(script: string, environment: Record<string, string> = {}): Promise<void> {
  const file = join(folder, "script.ts");
  await writeFile(file, script);
  child = startChild({
    name: "child",
    script: pathToFileURL(file),
    environment,
    logFile: logFile(),
    clock: systemClock,
    random: () => 0,
    say: (message) => said.push(message),
  });
}

const FOREVER = "console.log('up', process.env.GREETING ?? 'alone'); setInterval(() => {}, 1000);";

describe("a supervised child", { timeout: 20_000 }, () => {
  it("is started again when it ends, and what it said stays in the log", async () => {
    await start("console.log('up'); process.exit(3);");
    await vi.waitFor(async () => expect((await readLog()).length).toBeGreaterThanOrEqual(2), SOON);
    expect(said[0]).toBe(`child ended (exit code 3); it is started again in 0.3 s. See ${logFile()}`);
  });

  it("waits longer from one failure to the next", async () => {
    await start("process.exit(1);");
    await vi.waitFor(() => expect(said.length).toBeGreaterThanOrEqual(3), SOON);
    expect(said.map((sentence) => /in ([\d.]+) s/.exec(sentence)?.[1]).slice(0, 3)).toEqual([
      "0.3",
      "0.5",
      "1.0",
    ]);
  });

  it("stops when it is told to, without a word and without coming back", async () => {
    // It listens before it says that it is up, or it may be told before it can hear.
    await start(`process.on("SIGTERM", () => { console.log("bye"); process.exit(0); }); ${FOREVER}`);
    await vi.waitFor(async () => expect(await readLog()).toHaveLength(1), SOON);
    const pid = child?.pid();
    await child?.stop();
    expect(await readLog()).toEqual(["up alone", "bye"]);
    expect(said).toEqual([]);
    expect(pid !== undefined && isRunning(pid)).toBe(false);
  });

  it("starts with another environment when it has changed", async () => {
    await start(FOREVER, { GREETING: "one" });
    await vi.waitFor(async () => expect(await readLog()).toEqual(["up one"]), SOON);
    child?.restart({ GREETING: "two" });
    await vi.waitFor(async () => expect(await readLog()).toEqual(["up one", "up two"]), SOON);
    expect(said).toEqual([]);
  });

  it("stops by itself when its supervisor is killed", async () => {
    const script = join(folder, "script.ts");
    await writeFile(script, FOREVER);
    const supervisor = join(folder, "supervisor.ts");
    const url = (file: string): string => JSON.stringify(new URL(file, import.meta.url).href);
    await writeFile(
      supervisor,
      `const { startChild } = await import(${url("./child.ts")});
       const { systemClock } = await import(${url("../shared/runtime/clock.ts")});
       const child = startChild({ name: "child", script: new URL(${JSON.stringify(pathToFileURL(script).href)}),
         environment: {}, logFile: ${JSON.stringify(logFile())}, clock: systemClock, random: Math.random,
         say: console.log });
       console.log(child.pid());`,
    );
    const parent = spawn(process.execPath, [supervisor], { stdio: ["ignore", "pipe", "inherit"] });
    const [output] = (await once(parent.stdout, "data")) as [Buffer];
    const pid = Number(output.toString());
    await vi.waitFor(async () => expect(await readLog()).toHaveLength(1), SOON);
    parent.kill("SIGKILL");
    await vi.waitFor(() => expect(isRunning(pid)).toBe(false), SOON);
  });
});
