/**
 * Who may call the API server of a test: the administrator, by a static token,
 * and service accounts, by tokens that the server itself signs.
 *
 * The server makes its own authority and serving certificate when it finds
 * none, so that no certificate has to be made here.
 */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ApiClient } from "./api-client.ts";
import { createIfAbsent } from "./manifests.ts";

export interface Credentials {
  readonly adminToken: string;
  readonly tokenFile: string;
  readonly serviceAccountSigningKey: string;
  readonly serviceAccountPublicKey: string;
}

export interface KubeconfigRequest {
  readonly path: string;
  readonly server: string;
  /** Base64 of PEM. */
  readonly caData: string;
  readonly user: string;
  readonly token: string;
  readonly namespace: string;
}

/** Makes them, or finds those of an earlier start in the same folder. */
export function prepareCredentials(folder: string): Credentials {
  const tokenFile = join(folder, "tokens.csv");
  const serviceAccountSigningKey = join(folder, "service-account.key");
  const serviceAccountPublicKey = join(folder, "service-account.pub");
  if (!existsSync(serviceAccountPublicKey)) {
    const token = randomBytes(24).toString("hex");
    writeFileSync(tokenFile, `${token},admin,admin,"system:masters"\n`, { mode: 0o600 });
    const { privateKey, publicKey } = generateKeyPairSync("rsa", {
      modulusLength: 2048,
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
      publicKeyEncoding: { type: "spki", format: "pem" },
    });
    writeFileSync(serviceAccountSigningKey, privateKey, { mode: 0o600 });
    writeFileSync(serviceAccountPublicKey, publicKey);
  }
  const [adminToken = ""] = readFileSync(tokenFile, "utf8").split(",");
  return { adminToken, tokenFile, serviceAccountSigningKey, serviceAccountPublicKey };
}

/** A token by the TokenRequest API; the account is created when it is missing. */
export async function requestServiceAccountToken(
  api: ApiClient,
  namespace: string,
  name: string,
  expirationSeconds: number,
): Promise<string> {
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  await createIfAbsent(api, accounts, {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace },
  });
  const { status } = await api<{ status: { token: string } }>(`${accounts}/${name}/token`, {
    body: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds },
    },
  });
  return status.token;
}

/** Writes a kubeconfig of one cluster, one user and one context. */
export function writeKubeconfigFile(request: KubeconfigRequest): void {
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: "test",
        cluster: { server: request.server, "certificate-authority-data": request.caData },
      },
    ],
    users: [{ name: request.user, user: { token: request.token } }],
    contexts: [
      {
        name: "test",
        context: { cluster: "test", user: request.user, namespace: request.namespace },
      },
    ],
    "current-context": "test",
  };
  // Every reader of a kubeconfig takes JSON, which is YAML.
  writeFileSync(request.path, JSON.stringify(config, null, 2), { mode: 0o600 });
}
