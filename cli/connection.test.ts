import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildEnvironment } from "../local/environment.ts";
import { type StackFile, writeStackFile } from "../local/stack-file.ts";
import { openConnection } from "./connection.ts";

const queue = { queue: "http://127.0.0.1:1/q.fifo", deadLetterQueue: "http://127.0.0.1:1/d.fifo" };
const options = {
  table: "tallyman",
  dynamoDbEndpoint: "http://127.0.0.1:1",
  sqsEndpoint: "http://127.0.0.1:1",
  queues: { verify: queue, reverify: queue, abort: queue },
  logLevel: "info",
} as const;
const environment = (cluster: string) =>
  buildEnvironment({ ...options, clusters: [{ name: cluster, server: "http://127.0.0.1:1" }] });

/** As the embedded stack writes it. */
function writeStack(folder: string, cluster: string, pid = process.pid): void {
  writeStackFile(folder, {
    ...options,
    version: 1,
    pid,
    startedAt: "2030-01-01T00:00:00Z",
    region: "local",
    clusters: [],
    logs: { worker: "", forwarder: "" },
    environment: environment(cluster),
  } satisfies StackFile);
}

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "tallyman-cli-"));
  mkdirSync(join(home, "work", "deep"), { recursive: true });
  mkdirSync(join(home, "product"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function open(env: Record<string, string> = {}, data?: string): readonly string[] {
  const connection = openConnection({
    env,
    cwd: join(home, "work", "deep"),
    root: join(home, "product"),
    data,
  });
  connection.close();
  return connection.clusters;
}

describe("openConnection", () => {
  it("takes the environment first, unless a data folder is named", () => {
    writeStack(join(home, "work", ".tallyman"), "nearby");
    expect(open(environment("cloud"))).toEqual(["cloud"]);
    expect(open()).toEqual(["nearby"]);
    expect(open(environment("cloud"), "../.tallyman")).toEqual(["nearby"]);
  });

  it("looks in folders above, then beside Tallyman itself, and passes by what does not run", () => {
    writeStack(join(home, "product", ".tallyman"), "own");
    expect(open()).toEqual(["own"]);
    // No process has so large an id.
    writeStack(join(home, "work", ".tallyman"), "dead", 2 ** 30);
    expect(open()).toEqual(["own"]);
    writeFileSync(join(home, "work", ".tallyman", "stack.json"), "not json");
    expect(open()).toEqual(["own"]);
  });

  it("says what to do where there is none", () => {
    const says = (run: () => unknown) => {
      try {
        return run();
      } catch (error) {
        return error;
      }
    };
    expect(says(open)).toMatchObject({
      exit: "unreachable",
      hints: expect.arrayContaining([expect.stringContaining("npm start")]),
    });
    expect(says(() => open({}, "elsewhere"))).toMatchObject({
      exit: "unreachable",
      hints: ["Start it: npm start -- --data elsewhere"],
    });
    expect(says(() => open({ TALLYMAN_TABLE: "tallyman" }))).toMatchObject({
      exit: "usage",
      message: expect.stringContaining("TALLYMAN_CLUSTERS: is not set"),
    });
  });
});
