import { RIGHTS, type Right } from "../../shared/cluster/rights.ts";
import type { KubernetesResponse, KubernetesTransport } from "../../shared/cluster/transport.ts";
import type { Mode } from "../../shared/domain/policy.ts";
import { type Finding, fail, inspect, ok, warn } from "./finding.ts";

/** A skew of more than this makes times in the history misleading; of more than the second, credentials fail. */
const SKEW_WARN_MS = 10_000;
const SKEW_FAIL_MS = 300_000;

export interface ClusterCheck {
  readonly name: string;
  readonly transport: KubernetesTransport;
  readonly mode: Mode;
  readonly now: () => number;
}

/** One cluster: whether it answers, has the kinds of object, allows what its mode needs, and has our time. */
export async function checkCluster(check: ClusterCheck): Promise<readonly Finding[]> {
  const subject = `cluster ${check.name}`;
  return inspect(subject, "access to the API server", async () => {
    const response = await check.transport.request({ method: "GET", path: "/version" });
    if (response.status === 401) {
      return [fail(subject, "does not accept the credentials of TALLYMAN_CLUSTERS", "Renew them.")];
    }
    const version = (response.body as { gitVersion?: unknown } | undefined)?.gitVersion;
    const reached =
      response.status === 200
        ? ok(subject, `answers, ${typeof version === "string" ? version : "without a version"}`)
        : warn(subject, `answers ${response.status} to GET /version`);
    const [kinds, rights] = await Promise.all([checkKinds(check, subject), checkRights(check, subject)]);
    return [reached, ...checkTime(response, check.now(), subject), ...kinds, ...rights];
  });
}

function checkTime(response: KubernetesResponse, now: number, subject: string): readonly Finding[] {
  const there = Date.parse(response.headers.date ?? "");
  if (Number.isNaN(there)) return [];
  const skew = Math.abs(now - there);
  if (skew <= SKEW_WARN_MS) return [];
  const message = `its clock and this one are ${Math.round(skew / 1000)} s apart`;
  const advice = "Let both follow a time server.";
  return [skew > SKEW_FAIL_MS ? fail(subject, message, advice) : warn(subject, message, advice)];
}

/** Which of the resources that the mode needs are served. */
async function checkKinds({ transport, mode }: ClusterCheck, subject: string): Promise<readonly Finding[]> {
  const wanted = RIGHTS[mode].filter(({ group, resource }) => group !== "" && !resource.includes("/"));
  const findings: Finding[] = [];
  for (const group of new Set(wanted.map((right) => right.group))) {
    const response = await transport.request({ method: "GET", path: `/apis/${group}/v1alpha1` });
    if (response.status !== 200 && response.status !== 404) {
      findings.push(warn(subject, `what it serves of ${group} may not be seen (${response.status})`));
      continue;
    }
    const served = readServed(response);
    for (const { resource, optional, purpose } of wanted.filter((right) => right.group === group)) {
      if (served.has(resource)) continue;
      const message = `does not serve ${resource}.${group}`;
      findings.push(
        optional
          ? ok(subject, `${message}; it is only needed to ${purpose}`)
          : fail(subject, message, `Install the CustomResourceDefinition ${resource}.${group}.`),
      );
    }
  }
  return findings;
}

function readServed({ body }: KubernetesResponse): ReadonlySet<string> {
  const { resources } = (body ?? {}) as { resources?: unknown };
  const list = Array.isArray(resources) ? (resources as { name?: unknown }[]) : [];
  return new Set(list.map((each) => String(each?.name)));
}

type Answer = "yes" | "no" | "unknown";

/** Asks the API server for each verb, as whoever the credentials are; it takes no right to ask about oneself. */
async function checkRights({ transport, mode }: ClusterCheck, subject: string): Promise<readonly Finding[]> {
  const asked = RIGHTS[mode].flatMap((right) => right.verbs.map((verb) => ({ right, verb })));
  const answers = await Promise.all(asked.map(({ right, verb }) => mayI(transport, right, verb)));
  const user = await whoAmI(transport);
  const who = user ?? "the identity of TALLYMAN_CLUSTERS";
  if (answers.includes("unknown")) {
    return [warn(subject, `what ${who} may do cannot be seen`, "Ask with: kubectl auth can-i --list")];
  }
  const missing = asked.filter((_, index) => answers[index] === "no");
  if (missing.length === 0) {
    return [ok(subject, `${who} may do all ${asked.length} things that ${mode} mode needs`)];
  }
  const advice = `Apply deploy/rbac/${mode}.yaml. If ${who} is you and not Tallyman, check with Tallyman's credentials.`;
  return missing.map(({ right, verb }) => {
    const message = `${who} may not ${verb} ${nameResource(right)}, needed to ${right.purpose}`;
    return right.optional ? warn(subject, message, advice) : fail(subject, message, advice);
  });
}

const nameResource = ({ group, resource }: Right): string =>
  group === "" ? resource : `${resource.replace(/^[^/]+/, (plural) => `${plural}.${group}`)}`;

async function mayI(transport: KubernetesTransport, right: Right, verb: string): Promise<Answer> {
  const [resource, subresource] = right.resource.split("/");
  const { status, body } = await transport.request({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: {
        resourceAttributes: {
          group: right.group,
          resource,
          verb,
          ...(subresource === undefined ? {} : { subresource }),
        },
      },
    },
  });
  const allowed = (body as { status?: { allowed?: unknown } } | undefined)?.status?.allowed;
  if (status !== 201 || typeof allowed !== "boolean") return "unknown";
  return allowed ? "yes" : "no";
}

/** The user's name as the API server sees it; older ones do not tell. */
async function whoAmI(transport: KubernetesTransport): Promise<string | undefined> {
  const { status, body } = await transport.request({
    method: "POST",
    path: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    body: { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
  });
  const name = (body as { status?: { userInfo?: { username?: unknown } } } | undefined)?.status?.userInfo
    ?.username;
  return status === 201 && typeof name === "string" ? name : undefined;
}
