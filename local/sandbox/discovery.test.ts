import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { type SandboxCluster, startSandboxCluster } from "./sandbox-cluster.ts";
import { makeRun, makeStage } from "./test-client.ts";

/** The proof that discovery, tables and errors are good enough is a plain kubectl. */
function hasKubectl(): boolean {
  try {
    execFileSync("kubectl", ["version", "--client"], { stdio: "ignore" });
    return true;
  } catch {
    console.warn("\n*** SKIPPED: there is no kubectl on this machine, so nothing shows that it works ***\n");
    return false;
  }
}

describe.skipIf(!hasKubectl())("a plain kubectl", { timeout: 60_000 }, () => {
  let cluster: SandboxCluster;
  let folder: string;

  beforeAll(async () => {
    cluster = await startSandboxCluster();
    folder = mkdtempSync(join(tmpdir(), "tallyman-kubectl-"));
    writeFileSync(join(folder, "config"), cluster.kubeconfig());
  });

  afterAll(async () => {
    await cluster.stop();
    rmSync(folder, { recursive: true });
  });

  const environment = (): NodeJS.ProcessEnv => ({
    ...process.env,
    KUBECONFIG: join(folder, "config"),
    HOME: folder,
    KUBECACHEDIR: join(folder, "cache"),
  });

  async function kubectl(...args: readonly string[]): Promise<string> {
    const run = promisify(execFile)("kubectl", args, { env: environment() });
    const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error);
    return `${stdout}${stderr}`;
  }

  async function apply(object: object): Promise<string> {
    const file = join(folder, "object.yaml");
    writeFileSync(file, stringify(object));
    return kubectl("apply", "-f", file);
  }

  it("knows the kinds and their short names", async () => {
    const text = await kubectl("api-resources");
    expect(text).toMatch(/stages\s+kargo\.akuity\.io\/v1alpha1\s+true\s+Stage/);
    expect(text).toMatch(/analysisruns\s+ar\s+argoproj\.io\/v1alpha1/);
  });

  it("applies, applies again, gets, describes, annotates, patches and deletes a Stage", async () => {
    const stage = makeStage("dev", { namespace: "default" });
    expect(await apply(stage)).toContain("stage.kargo.akuity.io/dev created");
    expect(await apply(stage)).toContain("unchanged");
    expect(await apply({ ...stage, spec: { ...(stage.spec as object), shard: "east" } })).toContain(
      "configured",
    );
    const status = '{"status":{"freightSummary":"one","health":{"status":"Healthy"}}}';
    await kubectl("patch", "stage", "dev", "--type", "merge", "--subresource", "status", "-p", status);
    expect(await kubectl("get", "stages")).toMatch(/NAME\s+SHARD.*\ndev\s+east\s+one\s+Healthy\s+\d+s/);
    expect(await kubectl("get", "stage", "dev", "-o", "jsonpath={.metadata.generation}")).toBe("2");
    expect(await kubectl("describe", "stage", "dev")).toMatch(/Health:\s+Status:\s+Healthy/);
    await kubectl("annotate", "stage", "dev", "kargo.akuity.io/abort=x");
    expect(await kubectl("get", "stage", "dev", "-o", "yaml")).toContain("kargo.akuity.io/abort: x");
    const failing = '[{"op":"test","path":"/spec/shard","value":"west"}]';
    expect(await kubectl("patch", "stage", "dev", "--type", "json", "-p", failing)).toContain("invalid");
    expect(await kubectl("delete", "stage", "dev")).toContain("deleted");
    expect(await kubectl("get", "stage", "dev")).toContain('stages.kargo.akuity.io "dev" not found');
  });

  it("creates, gets and lists core kinds", async () => {
    expect(await kubectl("create", "namespace", "shop")).toContain("namespace/shop created");
    expect(await kubectl("create", "configmap", "map", "--from-literal=a=b")).toContain(
      "configmap/map created",
    );
    const secret = await kubectl("create", "secret", "generic", "key", "--from-literal=token=x");
    expect(secret).toContain("secret/key created");
    expect(await kubectl("get", "secret", "key", "-o", "jsonpath={.data.token}")).toBe("eA==");
    expect(await kubectl("get", "configmap,secret")).toMatch(/configmap\/map\s+1\s+\d+s/);
    expect(await kubectl("auth", "can-i", "delete", "stages")).toContain("yes");
  });

  it("watches", async () => {
    await apply({ ...makeRun("run"), metadata: { name: "run", namespace: "default" } });
    const child = spawn("kubectl", ["get", "ar", "-w"], { env: environment() });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
    await expect.poll(() => output, { timeout: 20_000 }).toMatch(/NAME\s+STATUS\s+AGE\nrun/);
    await kubectl("patch", "ar", "run", "--type", "merge", "-p", '{"status":{"phase":"Successful"}}');
    await expect.poll(() => output, { timeout: 20_000 }).toMatch(/run\s+Successful\s/);
    child.kill();
  });

  it("explains a kind and runs on the server's side", async () => {
    expect(await kubectl("explain", "stage")).toMatch(/KIND:\s+Stage/);
    const file = join(folder, "dry.yaml");
    writeFileSync(file, stringify(makeStage("dry")));
    expect(await kubectl("apply", "--dry-run=server", "-f", file)).toContain("created (server dry run)");
    expect(await kubectl("get", "stage", "dry")).toContain("not found");
  });
});
