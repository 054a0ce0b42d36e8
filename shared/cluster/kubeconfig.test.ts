import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { stringify } from "yaml";
import { loadClusterAccess } from "./kubeconfig.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tallyman-kubeconfig-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

const write = (name: string, text: string): string => {
  const file = join(directory, name);
  writeFileSync(file, text);
  return file;
};

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
  readonly name?: string;
}

function kubeconfig({ cluster = {}, user = {}, name = "harbour" }: Parts = {}): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    contexts: [{ name, context: { cluster: `${name}-cluster`, user: `${name}-user` } }],
    clusters: [{ name: `${name}-cluster`, cluster: { server: `https://${name}.example:6443`, ...cluster } }],
    users: [{ name: `${name}-user`, user }],
  });
}

const base64 = (text: string) => Buffer.from(text).toString("base64");

describe("credentials in a kubeconfig", () => {
  it("as a token", async () => {
    const access = loadClusterAccess({ kubeconfigText: kubeconfig({ user: { token: "salt" } }) });
    expect(access.server).toBe("https://harbour.example:6443");
    expect(access.ca).toBeUndefined();
    await expect(access.token?.(false)).resolves.toBe("salt");
  });

  it("as certificates, given as data", async () => {
    const access = loadClusterAccess({
      kubeconfigText: kubeconfig({
        cluster: { "certificate-authority-data": base64("CA"), "tls-server-name": "inner.example" },
        user: { "client-certificate-data": base64("CERT"), "client-key-data": base64("KEY") },
      }),
    });
    expect(access).toMatchObject({
      ca: "CA",
      clientCertificate: { cert: "CERT", key: "KEY" },
      tlsServerName: "inner.example",
      insecureSkipTlsVerify: false,
    });
    await expect(access.token?.(false)).resolves.toBeUndefined();
  });

  it("as files beside the kubeconfig, which are read again when they rotate", () => {
    write("ca.crt", "CA 1");
    write("user.crt", "CERT 1");
    write("user.key", "KEY 1");
    const file = write(
      "config",
      kubeconfig({
        cluster: { "certificate-authority": "ca.crt" },
        user: { "client-certificate": "user.crt", "client-key": "user.key" },
      }),
    );
    const access = loadClusterAccess({ kubeconfigPath: file });
    expect(access).toMatchObject({ ca: "CA 1", clientCertificate: { cert: "CERT 1", key: "KEY 1" } });
    write("ca.crt", "CA 2");
    write("user.crt", "CERT 2");
    expect(access).toMatchObject({ ca: "CA 2", clientCertificate: { cert: "CERT 2", key: "KEY 1" } });
  });

  it("as a token file, which wins over a token and is read anew after a 401", async () => {
    write("token", "first\n");
    const file = write("config", kubeconfig({ user: { token: "old", tokenFile: "token" } }));
    const access = loadClusterAccess({ kubeconfigPath: file });
    await expect(access.token?.(false)).resolves.toBe("first");
    write("token", "second\n");
    await expect(access.token?.(true)).resolves.toBe("second");
  });

  it("as a token in a file that somebody renews: the whole file is read anew after a 401", async () => {
    const file = write("config", kubeconfig({ user: { token: "first" } }));
    const access = loadClusterAccess({ kubeconfigPath: file });
    write("config", kubeconfig({ user: { token: "second" } }));
    await expect(access.token?.(false)).resolves.toBe("first");
    await expect(access.token?.(true)).resolves.toBe("second");
  });
});

describe.skipIf(process.platform === "win32")("an exec plugin", () => {
  const plugin = (script: string): string => {
    const file = write("plugin", `#!/bin/sh\n${script}\n`);
    chmodSync(file, 0o755);
    return kubeconfig({
      user: {
        exec: {
          apiVersion: "client.authentication.k8s.io/v1",
          command: "./plugin",
          interactiveMode: "Never",
          installHint: "Get it from the harbour office.",
        },
      },
    });
  };

  it("is run once for requests that start together, kept, and run again after a 401", async () => {
    const runs = join(directory, "runs");
    const text = plugin(
      `echo "$KUBERNETES_EXEC_INFO" >> "${runs}"; n=$(wc -l < "${runs}" | tr -d ' ')
       echo "{\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"t$n\\"}}"`,
    );
    const access = loadClusterAccess({ kubeconfigPath: write("config", text) });
    const together = await Promise.all([access.token?.(false), access.token?.(false), access.token?.(false)]);
    expect(together).toEqual(["t1", "t1", "t1"]);
    await expect(access.token?.(false)).resolves.toBe("t1");
    await expect(access.token?.(true)).resolves.toBe("t2");
  });

  it("may hand out a client certificate", async () => {
    const status = { clientCertificateData: "CERT", clientKeyData: "KEY" };
    const text = plugin(`echo '${JSON.stringify({ kind: "ExecCredential", status })}'`);
    const access = loadClusterAccess({ kubeconfigPath: write("config", text) });
    expect(access.clientCertificate).toBeUndefined();
    await expect(access.token?.(false)).resolves.toBeUndefined();
    expect(access.clientCertificate).toEqual({ cert: "CERT", key: "KEY" });
  });

  it("that fails is Transient, with what it said", async () => {
    const access = loadClusterAccess({
      kubeconfigPath: write("config", plugin("echo session expired >&2; exit 1")),
    });
    await expect(access.token?.(false)).rejects.toMatchObject({
      kind: "Transient",
      message: expect.stringContaining("plugin failed: session expired"),
    });
  });

  it("that is not installed is Invalid, with its install hint", async () => {
    const text = plugin("");
    rmSync(join(directory, "plugin"));
    const access = loadClusterAccess({ kubeconfigPath: write("config", text) });
    await expect(access.token?.(false)).rejects.toMatchObject({
      kind: "Invalid",
      message: expect.stringMatching(/not installed\. Get it from the harbour office\.$/),
    });
  });
});

describe("where to look", () => {
  it("takes KUBECONFIG as kubectl does: a list, the first to say something wins, missing files are passed over", async () => {
    const one = write("one", kubeconfig({ name: "one", user: { token: "first" } }));
    const two = write("two", kubeconfig({ name: "one", user: { token: "second" } }));
    const three = write("three", kubeconfig({ name: "three", user: { token: "third" } }));
    vi.stubEnv("KUBECONFIG", [join(directory, "missing"), one, two, three].join(delimiter));
    await expect(loadClusterAccess().token?.(false)).resolves.toBe("first");
    await expect(loadClusterAccess({ context: "three" }).token?.(false)).resolves.toBe("third");
  });

  it("takes ~/.kube/config, and says what to do when there is nothing at all", () => {
    vi.stubEnv("KUBECONFIG", "");
    vi.stubEnv("HOME", directory);
    const nowhere = { serviceAccountRoot: directory };
    expect(() => loadClusterAccess(nowhere)).toThrow(/no cluster to talk to.*name a kubeconfig file/);
    mkdirSync(join(directory, ".kube"));
    write(".kube/config", kubeconfig());
    expect(loadClusterAccess(nowhere).server).toBe("https://harbour.example:6443");
  });

  it("takes the ServiceAccount inside a Pod, whose token is renewed by the kubelet", async () => {
    vi.stubEnv("KUBECONFIG", "");
    vi.stubEnv("HOME", directory);
    vi.stubEnv("KUBERNETES_SERVICE_HOST", "fd00::1");
    vi.stubEnv("KUBERNETES_SERVICE_PORT", "443");
    const account = "var/run/secrets/kubernetes.io/serviceaccount";
    mkdirSync(join(directory, account), { recursive: true });
    write(`${account}/token`, "pod\n");
    write(`${account}/ca.crt`, "CA");
    const access = loadClusterAccess({ serviceAccountRoot: directory });
    expect(access).toMatchObject({ server: "https://[fd00::1]:443", ca: "CA" });
    await expect(access.token?.(false)).resolves.toBe("pod");
    write(`${account}/token`, "renewed\n");
    await expect(access.token?.(true)).resolves.toBe("renewed");
  });
});

describe("what cannot be used is Invalid and says where and what", () => {
  const fault = (message: RegExp) =>
    expect.objectContaining({ kind: "Invalid", message: expect.stringMatching(message) });

  it.each<[string, () => unknown, RegExp]>([
    [
      "a missing file",
      () => loadClusterAccess({ kubeconfigPath: join(directory, "none") }),
      /cannot read .*none/,
    ],
    [
      "no YAML",
      () => loadClusterAccess({ kubeconfigText: "{" }),
      /given kubeconfig text is not a kubeconfig/,
    ],
    ["no mapping", () => loadClusterAccess({ kubeconfigText: "salt" }), /not a YAML mapping/],
    [
      "an unknown context",
      () => loadClusterAccess({ kubeconfigPath: write("config", kubeconfig()), context: "sea" }),
      /no context "sea" in .*config; it has: harbour/,
    ],
    ["no context", () => loadClusterAccess({ kubeconfigText: "contexts: []" }), /no current-context/],
    [
      "an undefined cluster",
      () =>
        loadClusterAccess({
          kubeconfigText: kubeconfig().replace("- name: harbour-cluster", "- name: other"),
        }),
      /context "harbour": its cluster "harbour-cluster" is not defined/,
    ],
    [
      "an undefined user",
      () =>
        loadClusterAccess({ kubeconfigText: kubeconfig().replace("- name: harbour-user", "- name: other") }),
      /its user "harbour-user" is not defined/,
    ],
    [
      "a missing authority",
      () =>
        loadClusterAccess({
          kubeconfigText: kubeconfig({ cluster: { "certificate-authority": "/none.crt" } }),
        }),
      /cannot read its certificate-authority/,
    ],
    [
      "a proxy",
      () =>
        loadClusterAccess({
          kubeconfigText: kubeconfig({ cluster: { "proxy-url": "http://proxy.example" } }),
        }),
      /proxy-url is not supported/,
    ],
    [
      "impersonation",
      () => loadClusterAccess({ kubeconfigText: kubeconfig({ user: { as: "admin" } }) }),
      /impersonation/,
    ],
    [
      "a password",
      () => loadClusterAccess({ kubeconfigText: kubeconfig({ user: { username: "a", password: "b" } }) }),
      /username and password/,
    ],
  ])("%s", (_, load, message) => {
    expect(load).toThrow(fault(message));
  });
});
