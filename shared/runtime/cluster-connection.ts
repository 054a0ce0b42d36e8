import { readFileSync } from "node:fs";
import { SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { createDeferredTransport } from "../cluster/deferred-transport.ts";
import { createTransport } from "../cluster/https-transport.ts";
import type { ClusterAccess, KubernetesTransport } from "../cluster/transport.ts";
import { cacheToken, type TokenSource } from "../credentials/cached-token.ts";
import { createEksToken, EKS_TOKEN_AGE_MS } from "../credentials/eks-token.ts";
import { parseKubeconfigSecret } from "../credentials/kubeconfig-secret.ts";
import { readSecret } from "../credentials/secret.ts";
import { Fault } from "../domain/fault.ts";
import type { ClusterSettings } from "./configuration.ts";

const TOKEN_FILE_AGE_MS = 60_000;
/** A secret that was rotated is noticed at the first 401; this only bounds how long an old one is tried. */
const TOKEN_SECRET_AGE_MS = 15 * 60_000;

/** The way to a configured cluster. Nothing is loaded before it is used. */
export function connectCluster(settings: ClusterSettings): KubernetesTransport {
  const { name, kubeconfigSecret } = settings;
  if (kubeconfigSecret === undefined) return createTransport(toClusterAccess(settings));
  const secrets = new SecretsManagerClient({});
  return createDeferredTransport(async () =>
    parseKubeconfigSecret(
      await readSecret(secrets, kubeconfigSecret),
      `cluster ${name}: secret ${kubeconfigSecret}`,
    ),
  );
}

function toClusterAccess(settings: ClusterSettings): ClusterAccess {
  const { name, server, ca, clientCertificate, insecureSkipTlsVerify, tlsServerName } = settings;
  if (server === undefined) throw new Fault("Invalid", `TALLYMAN_CLUSTERS: ${name} has no server`);
  const token = findTokenSource(settings);
  return {
    server,
    ...(ca === undefined ? {} : { ca }),
    ...(clientCertificate === undefined ? {} : { clientCertificate }),
    ...(insecureSkipTlsVerify === undefined ? {} : { insecureSkipTlsVerify }),
    ...(tlsServerName === undefined ? {} : { tlsServerName }),
    ...(token === undefined ? {} : { token }),
  };
}

/** Where a cluster's bearer token comes from; undefined when it takes none. */
export function findTokenSource(settings: ClusterSettings): TokenSource | undefined {
  const { token, tokenFile, tokenSecret, eks } = settings;
  if (token !== undefined) return async () => token;
  if (tokenFile !== undefined) {
    return cacheToken(async () => readFileSync(tokenFile, "utf8").trim(), TOKEN_FILE_AGE_MS);
  }
  if (tokenSecret !== undefined) {
    const secrets = new SecretsManagerClient({});
    return cacheToken(() => readSecret(secrets, tokenSecret), TOKEN_SECRET_AGE_MS);
  }
  if (eks !== undefined) {
    // Only for what every client resolves: region, credentials and hash.
    const { config } = new SecretsManagerClient({});
    return cacheToken(
      async () =>
        createEksToken({
          cluster: eks.cluster,
          region: eks.region ?? (await config.region()),
          credentials: config.credentials,
          sha256: config.sha256,
        }),
      EKS_TOKEN_AGE_MS,
    );
  }
  return undefined;
}
