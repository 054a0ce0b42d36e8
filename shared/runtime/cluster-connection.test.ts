import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { connectCluster, findTokenSource } from "./cluster-connection.ts";

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Secrets Manager's answers over its own protocol. */
async function serveSecrets(secrets: Record<string, string>): Promise<{ readonly reads: string[] }> {
  const reads: string[] = [];
  const endpoint = await serve((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += String(chunk);
    });
    request.on("end", () => {
      const { SecretId } = JSON.parse(body) as { SecretId: string };
      reads.push(SecretId);
      const text = secrets[SecretId];
      response.writeHead(text === undefined ? 400 : 200, { "content-type": "application/x-amz-json-1.1" });
      response.end(
        JSON.stringify(
          text === undefined
            ? { __type: "ResourceNotFoundException", message: "no such secret" }
            : { SecretString: text },
        ),
      );
    });
  });
  vi.stubEnv("AWS_ENDPOINT_URL_SECRETS_MANAGER", endpoint);
  return { reads };
}

/** An API server that lets in whoever has the token. */
function serveCluster(token: () => string): Promise<string> {
  return serve((request, response) => {
    const isIn = request.headers.authorization === `Bearer ${token()}`;
    response.writeHead(isIn ? 200 : 401, { "content-type": "application/json" }).end("{}");
  });
}

beforeEach(() => {
  vi.stubEnv("AWS_REGION", "eu-central-1");
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "made-up");
});
afterEach(() => {
  vi.unstubAllEnvs();
});

const VERSION = { method: "GET", path: "/version" } as const;

describe("the way to a cluster", () => {
  it("reads a token file anew when the token was refused", async () => {
    const dir = mkdtempSync(join(tmpdir(), "tallyman-token-"));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    const tokenFile = join(dir, "token");
    writeFileSync(tokenFile, "first\n");
    const token = findTokenSource({ name: "a", server: "https://x", tokenFile });
    expect(await token?.(false)).toBe("first");
    writeFileSync(tokenFile, "second\n");
    expect(await token?.(false)).toBe("first");
    expect(await token?.(true)).toBe("second");
  });

  it("reads a token out of a secret once, and again after it was rotated", async () => {
    const secrets: Record<string, string> = { "tallyman/token": "first\n" };
    const { reads } = await serveSecrets(secrets);
    let valid = "first";
    const server = await serveCluster(() => valid);
    const transport = connectCluster({ name: "harbour", server, tokenSecret: "tallyman/token" });
    expect((await transport.request(VERSION)).status).toBe(200);
    expect((await transport.request(VERSION)).status).toBe(200);
    expect(reads).toHaveLength(1);
    valid = "second";
    secrets["tallyman/token"] = "second";
    expect((await transport.request(VERSION)).status).toBe(200);
    expect(reads).toHaveLength(2);
  });

  it.each([
    ["is missing", {}, /secret tallyman\/token: cannot be read: ResourceNotFoundException/],
    ["is empty", { "tallyman/token": " \n" }, /secret tallyman\/token: holds no text/],
  ])("calls it a passing fault when the secret %s", async (_what, secrets, message) => {
    await serveSecrets(secrets as Record<string, string>);
    const server = await serveCluster(() => "x");
    const transport = connectCluster({ name: "harbour", server, tokenSecret: "tallyman/token" });
    await expect(transport.request(VERSION)).rejects.toMatchObject({
      kind: "Transient",
      message: expect.stringMatching(message),
    });
  });

  it("signs an EKS token as itself, in its own region", async () => {
    const source = findTokenSource({ name: "harbour", server: "https://x", eks: { cluster: "prod" } });
    const token = (await source?.(false)) ?? "";
    const url = Buffer.from(token.replace("k8s-aws-v1.", ""), "base64url").toString();
    expect(url).toContain("https://sts.eu-central-1.amazonaws.com/?");
    expect(url).toContain("AKIDEXAMPLE");
    expect(await source?.(false)).toBe(token);
  });

  it("learns address and credentials from a kubeconfig in a secret, and anew after a 401", async () => {
    let valid = "first";
    const server = await serveCluster(() => valid);
    const kubeconfig = (token: string) =>
      JSON.stringify({
        "current-context": "c",
        contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
        clusters: [{ name: "c", cluster: { server } }],
        users: [{ name: "u", user: { token } }],
      });
    const secrets: Record<string, string> = {};
    const { reads } = await serveSecrets(secrets);
    const transport = connectCluster({ name: "harbour", kubeconfigSecret: "k" });
    await expect(transport.request(VERSION)).rejects.toMatchObject({ kind: "Transient" });
    secrets.k = kubeconfig("first");
    const answers = await Promise.all([transport.request(VERSION), transport.request(VERSION)]);
    expect(answers.map((answer) => answer.status)).toEqual([200, 200]);
    expect(reads).toHaveLength(2);
    valid = "second";
    secrets.k = kubeconfig("second");
    const stream = await transport.stream(VERSION);
    stream.body.destroy();
    expect(stream.status).toBe(200);
    expect(reads).toHaveLength(3);
  });
});
