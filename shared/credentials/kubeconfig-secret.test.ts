import { describe, expect, it } from "vitest";
import { isFault } from "../domain/fault.ts";
import { parseKubeconfigSecret } from "./kubeconfig-secret.ts";

const b64 = (text: string) => Buffer.from(text).toString("base64");
const kubeconfig = (over: object = {}, user: object = { token: "sesame" }) => ({
  apiVersion: "v1",
  kind: "Config",
  "current-context": "harbour",
  contexts: [
    { name: "other", context: { cluster: "x", user: "y" } },
    { name: "harbour", context: { cluster: "harbour", user: "tallyman", namespace: "ignored" } },
  ],
  clusters: [
    {
      name: "harbour",
      cluster: { server: "https://10.0.0.1:6443", "certificate-authority-data": b64("a certificate") },
    },
  ],
  users: [{ name: "tallyman", user }],
  ...over,
});
const parse = (value: unknown) =>
  parseKubeconfigSecret(typeof value === "string" ? value : JSON.stringify(value), "secret s");

describe("a kubeconfig out of a secret", () => {
  it("gives the current context's address, certificate and token", async () => {
    const access = parse(kubeconfig());
    expect(access).toMatchObject({ server: "https://10.0.0.1:6443", ca: "a certificate" });
    expect(await access.token?.(false)).toBe("sesame");
  });

  it("gives a client certificate", () => {
    const user = { "client-certificate-data": b64("cert"), "client-key-data": b64("key") };
    expect(parse(kubeconfig({}, user))).toMatchObject({ clientCertificate: { cert: "cert", key: "key" } });
  });

  it.each([
    ["YAML", "apiVersion: v1", /is not a kubeconfig as JSON; store what `kubectl config view/],
    ["another object", { kind: "Secret" }, /current-context/],
    [
      "a context that is not there",
      kubeconfig({ "current-context": "gone" }),
      /gone names no cluster and user/,
    ],
    [
      "a user who proves nothing",
      kubeconfig({}, { exec: { command: "aws" } }),
      /neither a token nor a client/,
    ],
    [
      "a certificate without its key",
      kubeconfig({}, { "client-certificate-data": b64("c") }),
      /with its key/,
    ],
    [
      "base64 that is none",
      kubeconfig({}, { token: "t", "client-key-data": "-----BEGIN" }),
      /must be base64/,
    ],
  ])("refuses %s and says where, as something that can be mended", (_what, value, expected) => {
    let fault: unknown;
    try {
      parse(value);
    } catch (error) {
      fault = error;
    }
    if (!isFault(fault, "Transient")) throw new Error("no Transient fault");
    expect(fault.message).toMatch(expected);
    expect(fault.message).toMatch(/^secret s: /);
  });
});
