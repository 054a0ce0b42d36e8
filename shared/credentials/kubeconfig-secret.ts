import * as z from "zod/mini";
import type { ClusterAccess } from "../cluster/transport.ts";
import { Fault } from "../domain/fault.ts";

const base64 = z.string().check(z.regex(/^[A-Za-z0-9+/]+={0,2}$/, "must be base64"));

const kubeconfigSchema = z.object({
  "current-context": z.string(),
  contexts: z.array(
    z.object({ name: z.string(), context: z.object({ cluster: z.string(), user: z.string() }) }),
  ),
  clusters: z.array(
    z.object({
      name: z.string(),
      cluster: z.object({
        server: z.url(),
        "certificate-authority-data": z.optional(base64),
        "insecure-skip-tls-verify": z.optional(z.boolean()),
        "tls-server-name": z.optional(z.string()),
      }),
    }),
  ),
  users: z.array(
    z.object({
      name: z.string(),
      user: z.object({
        token: z.optional(z.string()),
        "client-certificate-data": z.optional(base64),
        "client-key-data": z.optional(base64),
      }),
    }),
  ),
});

const decode = (data: string): string => Buffer.from(data, "base64").toString("utf8");
const HINT = "store what `kubectl config view --raw --flatten --minify -o json` prints";

/**
 * Reads a kubeconfig as JSON, which needs no YAML parser in a function. Only what stands in it counts: it is read where
 * no file and no credential plugin is.
 *
 * @throws Fault `Transient`, naming `origin` and the field, like every credential that cannot be used.
 */
export function parseKubeconfigSecret(text: string, origin: string): ClusterAccess {
  const fail = (why: string): never => {
    throw new Fault("Transient", `${origin}: ${why}; ${HINT}`);
  };
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return fail("is not a kubeconfig as JSON");
  }
  const result = kubeconfigSchema.safeParse(parsed);
  if (!result.success) {
    const [issue] = result.error.issues;
    return fail(`${issue?.path.join(".")}: ${issue?.message}`);
  }
  const { "current-context": current, contexts, clusters, users } = result.data;
  const context = contexts.find(({ name }) => name === current)?.context;
  const cluster = clusters.find(({ name }) => name === context?.cluster)?.cluster;
  const user = users.find(({ name }) => name === context?.user)?.user;
  if (cluster === undefined || user === undefined) {
    return fail(`current-context: ${current} names no cluster and user of this kubeconfig`);
  }
  const { token, "client-certificate-data": cert, "client-key-data": key } = user;
  const pair = cert === undefined || key === undefined ? undefined : { cert: decode(cert), key: decode(key) };
  if (token === undefined && pair === undefined) {
    return fail("its user has neither a token nor a client certificate with its key");
  }
  const ca = cluster["certificate-authority-data"];
  const tlsServerName = cluster["tls-server-name"];
  return {
    server: cluster.server,
    ...(ca === undefined ? {} : { ca: decode(ca) }),
    ...(cluster["insecure-skip-tls-verify"] === true ? { insecureSkipTlsVerify: true } : {}),
    ...(tlsServerName === undefined ? {} : { tlsServerName }),
    ...(pair === undefined ? {} : { clientCertificate: pair }),
    ...(token === undefined ? {} : { token: async () => token }),
  };
}
