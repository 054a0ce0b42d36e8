import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { stringify } from "yaml";
import type { Clock } from "../shared/runtime/clock.ts";
import { findTokenSource } from "../shared/runtime/cluster-connection.ts";
import { readConfiguration } from "../shared/runtime/configuration.ts";
import { type ContextCluster, openContext, toClusterName } from "./cluster-settings.ts";
import { buildEnvironment } from "./environment.ts";

let folder: string;
let opened: ContextCluster | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tallyman-context-"));
});
afterEach(async () => {
  await opened?.stop();
  opened = undefined;
  await rm(folder, { recursive: true });
});

/** Time goes on only when a test says so. */
function createSteppedClock(): Clock & { step(): void } {
  let wake = (): void => undefined;
  return {
    now: () => 0,
    sleep: (_ms, signal) =>
      new Promise((resolve) => {
        wake = resolve;
        signal?.addEventListener("abort", () => resolve(), { once: true });
      }),
    step: () => wake(),
  };
}

async function writeKubeconfig(user: object, cluster: object = {}): Promise<string> {
  const file = join(folder, "kubeconfig");
  const content = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:6443", ...cluster } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "team/east", context: { cluster: "c", user: "u" } }],
  };
  await writeFile(file, stringify(content));
  return file;
}

const onChange = vi.fn();
async function open(kubeconfig: string, clock: Clock): Promise<ContextCluster> {
  onChange.mockReset();
  opened = await openContext({
    context: "team/east",
    kubeconfig,
    tokenFile: join(folder, "token"),
    clock,
    say: () => undefined,
    onChange,
  });
  return opened;
}

describe("the cluster of a context", () => {
  it("has a token file for the children, for their user only, which is gone afterwards", async () => {
    const source = join(folder, "issued");
    const tokenFile = join(folder, "token");
    await writeFile(source, "first\n");
    const kubeconfig = await writeKubeconfig({ tokenFile: source }, { "tls-server-name": "api.internal" });
    const clock = createSteppedClock();
    const { settings } = await open(kubeconfig, clock);
    expect(settings).toEqual({
      name: "team-east",
      server: "https://127.0.0.1:6443",
      insecureSkipTlsVerify: false,
      tlsServerName: "api.internal",
      tokenFile,
    });
    expect(await readFile(tokenFile, "utf8")).toBe("first");
    expect((await stat(tokenFile)).mode & 0o777).toBe(0o600);
    expect(onChange).not.toHaveBeenCalled();

    await opened?.stop();
    await expect(stat(tokenFile)).rejects.toThrow("ENOENT");
  });

  it("keeps the token of an exec plugin fresh", async () => {
    const issued = join(folder, "issued");
    const plugin = `process.stdout.write(JSON.stringify({ apiVersion: "client.authentication.k8s.io/v1",
      kind: "ExecCredential", status: { expirationTimestamp: "2001-02-03T04:05:06Z",
      token: require("node:fs").readFileSync(${JSON.stringify(issued)}, "utf8") } }))`;
    await writeFile(issued, "first");
    const clock = createSteppedClock();
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: process.execPath,
      args: ["-e", plugin],
      interactiveMode: "Never",
    };
    await open(await writeKubeconfig({ exec }), clock);
    expect(await readFile(join(folder, "token"), "utf8")).toBe("first");
    await writeFile(issued, "second");
    clock.step();
    await vi.waitFor(async () => expect(await readFile(join(folder, "token"), "utf8")).toBe("second"), 4_000);
    expect(onChange).not.toHaveBeenCalled();
  });

  it("can be reached by a function that is given its settings", async () => {
    const { settings } = await open(
      await writeKubeconfig({ token: "sesame" }, { "tls-server-name": "api.internal" }),
      createSteppedClock(),
    );
    const urls = { queue: "http://127.0.0.1/q", deadLetterQueue: "http://127.0.0.1/d" };
    const [cluster] = readConfiguration(
      buildEnvironment({
        table: "t",
        dynamoDbEndpoint: "http://127.0.0.1",
        sqsEndpoint: "http://127.0.0.1",
        queues: { verify: urls, abort: urls, reverify: urls },
        clusters: [settings],
        logLevel: "info",
      }),
    ).clusters;
    if (cluster === undefined) throw new Error("no cluster");
    expect(cluster).toMatchObject({ server: "https://127.0.0.1:6443", tlsServerName: "api.internal" });
    expect(await findTokenSource(cluster)?.(false)).toBe("sesame");
  });

  it("tells when a client certificate was renewed", async () => {
    const [cert, key] = [join(folder, "cert"), join(folder, "key")];
    await writeFile(cert, "old certificate");
    await writeFile(key, "key");
    const clock = createSteppedClock();
    await open(await writeKubeconfig({ "client-certificate": cert, "client-key": key }), clock);
    await writeFile(cert, "new certificate");
    clock.step();
    await vi.waitFor(() => expect(onChange).toHaveBeenCalledTimes(1));
    expect(onChange.mock.calls[0]?.[0]).toMatchObject({
      clientCertificate: { cert: "new certificate", key: "key" },
    });
  });
});

describe("a cluster's name", () => {
  it.each([
    ["kind-dev", "kind-dev"],
    ["arn:aws:eks:eu-west-1:111122223333:cluster/prod", "prod"],
    ["Admin@Team_East", "admin-team-east"],
    ["...", "cluster"],
    [`${"x".repeat(62)}-y`, "x".repeat(62)],
  ])("of context %s is %s", (context, name) => {
    expect(toClusterName(context)).toBe(name);
  });
});
