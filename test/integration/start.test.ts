import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

/** `npm start` as a person runs it, in a process of its own. */
const START = new URL("../../local/start.ts", import.meta.url).pathname;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tallyman-start-"));
});
afterAll(() => rm(folder, { recursive: true }));

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

function run(
  args: readonly string[],
  onOutput: (output: string, end: () => void) => void = () => {},
): Promise<Ended> {
  const child = spawn(process.execPath, [START, ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    onOutput(output, () => child.kill("SIGINT"));
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, output, errors })));
}

describe("npm start", { timeout: 150_000 }, () => {
  it("-- --once tells the whole story in plain lines, prints the history and ends", async () => {
    const { code, errors, output } = await run(["--once"]);
    expect(errors).toBe("");
    expect(code).toBe(0);
    const [, table = ""] = output.split(/(?=STARTED {2,}STAGE)/);
    const rows = table.trim().split("\n").slice(1);
    expect(rows).toHaveLength(8);
    const count = (text: string): number => rows.filter((row) => row.includes(text)).length;
    expect(["✔ Successful", "✖ Failed", "■ Aborted"].map(count)).toEqual([6, 1, 1]);
    expect(count("tidy-magpie (1 of 2)")).toBe(1);
    expect(count("brisk-otter + tidy-magpie")).toBe(1);
    expect(rows.at(-1)).toMatch(/prod .*✔ Successful .*reverify of [0-9a-f]{8} by mara@example.com$/);
    // Not a terminal, so nothing but text.
    expect(output).not.toContain("\u001b");
  });

  it("plays its demo, stays until it is told to stop, and knows the next time that it has played", async () => {
    const stopAt = (text: string) => {
      let stopped = false;
      return (output: string, end: () => void): void => {
        if (stopped || !output.includes(text)) return;
        stopped = true;
        end();
      };
    };
    const first = await run([], stopAt("Ctrl-C stops everything."));
    expect(first).toMatchObject({ code: 0, errors: "" });
    expect(first.output).toContain("npm run tallyman -- history stage prod -p harbour-shop");
    const second = await run([], stopAt("Ctrl-C stops everything."));
    expect(second).toMatchObject({ code: 0, errors: "" });
    expect(second.output).toContain("The demo was played before");
    expect(second.output.match(/✔ Successful/g)).toHaveLength(6);
  });

  it("says what is wrong with a context before it starts anything", async () => {
    const { code, errors, output } = await run(["--context", "nowhere", "--data", join(folder, "other")]);
    expect(code).toBe(1);
    expect(output).toBe("");
    expect(errors).toContain("no cluster to talk to");
  });
});
