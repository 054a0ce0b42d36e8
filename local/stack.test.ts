import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createTransport } from "../shared/cluster/https-transport.ts";
import { systemClock } from "../shared/runtime/clock.ts";
import { readConfiguration } from "../shared/runtime/configuration.ts";
import { createClusterWriter } from "./demo/cluster-writer.ts";
import { createPromoter } from "./demo/promotions.ts";
import { FREIGHT, PROJECT, seedShop } from "./demo/shop.ts";
import { readListeningSockets } from "./loopback.ts";
import { type Stack, type StackOptions, startStack } from "./stack.ts";
import { isRunning, readStackFile, stackFilePath } from "./stack-file.ts";

const SOON = { timeout: 15_000, interval: 20 };
const said: string[] = [];
let dataDir: string;
let options: StackOptions;
let stack: Stack;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "tallyman-stack-"));
  options = {
    dataDir,
    cluster: { kind: "sandbox" },
    ports: { dynamoDb: 0, sqs: 0, cluster: 0 },
    logLevel: "info",
    say: (message) => said.push(message),
  };
  stack = await startStack(options);
}, 30_000);
afterAll(async () => {
  await stack.stop();
  await rm(dataDir, { recursive: true });
}, 30_000);

const readLog = (name: "worker" | "forwarder"): Promise<string> => readFile(stack.file.logs[name], "utf8");

describe("a running stack", { timeout: 30_000 }, () => {
  it("says where it is, to its owner only", async () => {
    expect(readStackFile(dataDir)).toEqual(stack.file);
    expect((await stat(stackFilePath(dataDir))).mode & 0o777).toBe(0o600);
    const configuration = readConfiguration(stack.file.environment);
    expect(configuration).toMatchObject({
      table: stack.file.table,
      queues: stack.file.queues,
      clusters: [{ name: "sandbox" }],
    });
  });

  it("is the only one on its folder", async () => {
    // The lock belongs to this very process, which may take it again; another one may not.
    await vi.waitFor(async () => expect(await readLog("worker")).toContain("worker started"), SOON);
    const { startChild } = await import("./child.ts");
    const logFile = join(dataDir, "logs", "second.log");
    const second = startChild({
      name: "second",
      script: new URL("./start.ts", import.meta.url),
      arguments: ["--data", dataDir],
      environment: { PATH: process.env.PATH ?? "" },
      logFile,
      clock: systemClock,
      random: () => 0,
      say: () => undefined,
    });
    await vi.waitFor(
      async () =>
        expect(await readFile(logFile, "utf8")).toContain(
          `already runs on ${dataDir} (process ${process.pid}). Stop it with`,
        ),
      SOON,
    );
    await second.stop();
    expect(readStackFile(dataDir)?.pid).toBe(process.pid);
  });

  it("verifies Freight, and starts a worker that dies again", async () => {
    const transport = createTransport(stack.access);
    const writer = createClusterWriter(transport);
    await seedShop(writer);
    const { worker } = stack.pids();
    if (worker === undefined) throw new Error("no worker");
    process.kill(worker, "SIGKILL");
    // A message that was given to the dead worker's last poll would be invisible for minutes, as on AWS; its successor
    // takes longer to start than that poll lasts.
    await vi.waitFor(async () => {
      const starts = (await readLog("worker")).split("worker started").length - 1;
      expect(starts).toBe(2);
    }, SOON);
    const promoter = createPromoter({ writer, project: PROJECT, now: Date.now, random: Math.random });
    await promoter.promote("dev", FREIGHT.otter);
    await vi.waitFor(async () => {
      const dev = await writer.get("Stage", PROJECT, "dev");
      const status = dev?.status as { freightHistory?: { verificationHistory?: { phase: string }[] }[] };
      expect(status.freightHistory?.[0]?.verificationHistory?.[0]?.phase).toBe("Successful");
    }, SOON);
    transport.close();
    expect(stack.pids().worker).not.toBe(worker);
    expect(said).toEqual([
      expect.stringMatching(/^worker ended \(SIGKILL\); it is started again in 0\.\d s/),
    ]);
  });

  it.skipIf(readListeningSockets() === undefined)("listens on loopback only, its children too", () => {
    const { forwarder, worker } = stack.pids();
    for (const pid of ["self", worker, forwarder] as const) {
      if (pid === undefined) throw new Error("a child is missing");
      const sockets = readListeningSockets(pid) ?? [];
      expect(sockets.filter((socket) => !socket.isLoopback)).toEqual([]);
    }
    expect(readListeningSockets()?.length).toBeGreaterThanOrEqual(3);
  });

  it("ends its children and its file when it stops, and goes on with its data when it starts again", async () => {
    const pids = Object.values(stack.pids());
    await stack.stop();
    expect(readStackFile(dataDir)).toBeUndefined();
    for (const pid of pids) expect(pid === undefined || !isRunning(pid)).toBe(true);
    expect(await readLog("worker")).toContain("worker stopped");
    expect(await readLog("forwarder")).toContain("forwarder stopped");

    stack = await startStack(options);
    const transport = createTransport(stack.access);
    const dev = await createClusterWriter(transport).get("Stage", PROJECT, "dev");
    transport.close();
    expect(dev?.status).toHaveProperty("freightHistory");
    const { Attributes: attributes } = await stack.sqs.send(
      new GetQueueAttributesCommand({
        QueueUrl: stack.file.queues.verify.queue,
        AttributeNames: ["FifoQueue"],
      }),
    );
    expect(attributes?.FifoQueue).toBe("true");
  });
});
