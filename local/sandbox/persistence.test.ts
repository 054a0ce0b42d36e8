import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type SandboxCluster, startSandboxCluster } from "./sandbox-cluster.ts";
import { createTestClient, itemsOf, makeStage, metaOf, STAGES, type TestClient } from "./test-client.ts";

let folder: string;
let dataFile: string;
const running: { cluster: SandboxCluster; client: TestClient }[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tallyman-sandbox-"));
  dataFile = join(folder, "state", "cluster.json");
});

afterEach(async () => {
  for (const { cluster, client } of running.splice(0)) {
    client.close();
    await cluster.stop();
  }
  rmSync(folder, { recursive: true });
});

async function start(): Promise<{ cluster: SandboxCluster; client: TestClient }> {
  const cluster = await startSandboxCluster({ dataFile });
  const one = { cluster, client: createTestClient(cluster.url) };
  running.push(one);
  return one;
}

async function stop(): Promise<void> {
  for (const { cluster, client } of running.splice(0)) {
    client.close();
    await cluster.stop();
  }
}

describe("persistence", () => {
  it("keeps objects as they were over a restart, and counts on from the same resourceVersion", async () => {
    const first = await start();
    await first.client.call("POST", STAGES, makeStage("a"));
    await first.client.call("POST", STAGES, makeStage("b"));
    await first.client.call("DELETE", `${STAGES}/b`);
    const before = await first.client.call("GET", STAGES);
    await stop();

    const second = await start();
    const after = await second.client.call("GET", STAGES);
    expect(after.body).toEqual(before.body);
    const { body } = await second.client.call("POST", STAGES, makeStage("c"));
    expect(Number(metaOf(body, "resourceVersion"))).toBe(Number(metaOf(after.body, "resourceVersion")) + 1);
  });

  it("lets a watch go on that had seen everything, and tells others that they are too late", async () => {
    const first = await start();
    const { body: old } = await first.client.call("POST", STAGES, makeStage("a"));
    const { body: last } = await first.client.call("POST", STAGES, makeStage("b"));
    await stop();

    const { client } = await start();
    const from = (body: unknown): string =>
      `${STAGES}?watch=true&resourceVersion=${metaOf(body, "resourceVersion")}`;
    const late = await client.watch(from(old));
    expect(await late.next()).toMatchObject({ type: "ERROR", object: { code: 410 } });
    const current = await client.watch(from(last));
    await client.call("DELETE", `${STAGES}/a`);
    expect((await current.next())?.type).toBe("DELETED");
    current.close();
  });

  it("never gives out a resourceVersion twice, even when it was killed before it could write", async () => {
    // A process of its own, since only that can be killed. It answers the POST and dies at once.
    const script = `
      import { startSandboxCluster } from ${JSON.stringify(new URL("./sandbox-cluster.ts", import.meta.url).href)};
      const { url } = await startSandboxCluster({ dataFile: ${JSON.stringify(dataFile)} });
      const response = await fetch(url + ${JSON.stringify(STAGES)}, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: ${JSON.stringify(JSON.stringify(makeStage("lost")))},
      });
      const { metadata } = await response.json();
      process.stdout.write(metadata.resourceVersion, () => process.kill(process.pid, "SIGKILL"));`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script]);
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
    const signal = await new Promise((resolve) => child.once("close", (_, s) => resolve(s)));
    expect(signal).toBe("SIGKILL");
    expect(Number(output)).toBeGreaterThan(0);

    const { client } = await start();
    const { body } = await client.call("POST", STAGES, makeStage("next"));
    expect(Number(metaOf(body, "resourceVersion"))).toBeGreaterThan(Number(output));
  });

  it("writes soon after a change, not only at the end", async () => {
    const { client } = await start();
    await client.call("POST", STAGES, makeStage("a"));
    await expect.poll(() => readFileSync(dataFile, "utf8")).toContain('"name":"a"');
    await client.call("DELETE", `${STAGES}/a`);
    await expect.poll(() => readFileSync(dataFile, "utf8")).not.toContain('"name":"a"');
  });

  it("can be read at any moment, however much is written", async () => {
    const { client } = await start();
    let objects = 0;
    for (let i = 0; i < 150; i++) {
      await client.call("POST", STAGES, makeStage(`stage-${i}`));
      const state = JSON.parse(readFileSync(dataFile, "utf8"));
      expect(state.objects.length).toBeGreaterThanOrEqual(objects);
      objects = state.objects.length;
    }
    // 150 Stages and the namespace.
    await expect.poll(() => JSON.parse(readFileSync(dataFile, "utf8")).objects.length).toBe(151);
  });

  it("leaves no temporary files behind", async () => {
    const { client } = await start();
    await client.call("POST", STAGES, makeStage("a"));
    await stop();
    expect(readdirSync(join(folder, "state"))).toEqual(["cluster.json"]);
  });

  it("goes on collecting what lost its owner before the restart", async () => {
    const first = await start();
    await first.client.call("POST", STAGES, makeStage("a"));
    await stop();
    const state = JSON.parse(readFileSync(dataFile, "utf8"));
    const stage = state.objects.find((object: { kind: string }) => object.kind === "Stage");
    const uid = "6f1d0b6a-0000-4000-8000-000000000000";
    stage.metadata.ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: "gone", uid }];
    writeFileSync(dataFile, JSON.stringify(state));
    const { client } = await start();
    await expect.poll(async () => itemsOf((await client.call("GET", STAGES)).body)).toEqual([]);
  });

  it.each(["no JSON", '{"format":99,"objects":[]}'])(
    "refuses to overwrite a file that holds %s",
    async (text) => {
      dataFile = join(folder, "other.json");
      writeFileSync(dataFile, text);
      await expect(startSandboxCluster({ dataFile })).rejects.toThrow(dataFile);
      expect(readFileSync(dataFile, "utf8")).toBe(text);
    },
  );
});
