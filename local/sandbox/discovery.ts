import { formatApiVersion, RESOURCES, type ResourceKind } from "./resources.ts";

const OBJECT_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS = ["get", "patch", "update"];
const REVIEW_GROUP = "authorization.k8s.io";

/** `group/version` pairs other than the core group's, each once. */
function groupVersions(): readonly { readonly group: string; readonly version: string }[] {
  const seen = new Map(RESOURCES.filter((r) => r.group !== "").map((r) => [formatApiVersion(r), r]));
  return [...seen.values(), { group: REVIEW_GROUP, version: "v1" }];
}

function describeResource(resource: ResourceKind): readonly object[] {
  const { plural: name, kind, namespaced, shortNames } = resource;
  const entry = {
    name,
    singularName: kind.toLowerCase(),
    namespaced,
    kind,
    verbs: OBJECT_VERBS,
    ...(shortNames.length === 0 ? {} : { shortNames }),
    ...(resource.group === "kargo.akuity.io" ? { categories: ["kargo"] } : {}),
  };
  const status = { name: `${name}/status`, singularName: "", namespaced, kind, verbs: STATUS_VERBS };
  return resource.statusSubresource ? [entry, status] : [entry];
}

function listResources(group: string, version: string): object | undefined {
  const served = RESOURCES.filter((r) => r.group === group && r.version === version);
  const resources =
    group === REVIEW_GROUP && version === "v1"
      ? [
          {
            name: "selfsubjectaccessreviews",
            singularName: "selfsubjectaccessreview",
            namespaced: false,
            kind: "SelfSubjectAccessReview",
            verbs: ["create"],
          },
        ]
      : served.flatMap(describeResource);
  if (resources.length === 0) return undefined;
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: formatApiVersion({ group, version }),
    resources,
  };
}

function describeGroup(group: string, version: string): object {
  const entry = { groupVersion: `${group}/${version}`, version };
  return { name: group, versions: [entry], preferredVersion: entry };
}

/** What a client asks first: which groups, versions and kinds there are. `undefined` for other paths. */
export function discover(path: string): object | undefined {
  const [root, first, second, ...rest] = path.split("/").filter((part) => part !== "");
  if (rest.length > 0) return undefined;
  if (root === "api") {
    if (first === undefined) return { kind: "APIVersions", versions: ["v1"], serverAddressByClientCIDRs: [] };
    return second === undefined ? listResources("", first) : undefined;
  }
  if (root !== "apis") return undefined;
  if (first === undefined) {
    const groups = groupVersions().map(({ group, version }) => describeGroup(group, version));
    return { kind: "APIGroupList", apiVersion: "v1", groups };
  }
  if (second !== undefined) return listResources(first, second);
  const found = groupVersions().find(({ group }) => group === first);
  return found === undefined
    ? undefined
    : { kind: "APIGroup", apiVersion: "v1", ...describeGroup(found.group, found.version) };
}

/** `/version`. The suffix says that this is no real control plane. */
export const VERSION = {
  major: "1",
  minor: "34",
  gitVersion: "v1.34.0-tallyman-sandbox",
  gitCommit: "",
  gitTreeState: "clean",
  buildDate: "1970-01-01T00:00:00Z",
  goVersion: "",
  compiler: "",
  platform: "sandbox/sandbox",
};

/**
 * The OpenAPI v3 documents that kubectl needs to explain kinds and to leave validation to the server: every
 * kind is an open object, and PATCH takes `fieldValidation`. `undefined` for paths that are not served.
 */
export function describeOpenApi(path: string): object | undefined {
  const documents = new Map<string, readonly ResourceKind[]>();
  for (const resource of RESOURCES) {
    const key = resource.group === "" ? "api/v1" : `apis/${formatApiVersion(resource)}`;
    documents.set(key, [...(documents.get(key) ?? []), resource]);
  }
  if (path === "/openapi/v3") {
    const paths = [...documents.keys()].map((key) => [key, { serverRelativeURL: `/openapi/v3/${key}` }]);
    return { paths: Object.fromEntries(paths) };
  }
  const resources = documents.get(path.slice("/openapi/v3/".length));
  if (resources === undefined) return undefined;
  return {
    openapi: "3.0.0",
    info: { title: "Tallyman sandbox cluster", version: VERSION.gitVersion },
    paths: Object.fromEntries(resources.map(describePath)),
    components: { schemas: Object.fromEntries(resources.map(describeSchema)) },
  };
}

function describePath(resource: ResourceKind): [string, object] {
  const { group, version, kind, plural } = resource;
  const base = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const scope = resource.namespaced ? "/namespaces/{namespace}" : "";
  const parameter = (name: string): object => ({ name, in: "query", schema: { type: "string" } });
  return [
    `${base}${scope}/${plural}/{name}`,
    {
      patch: {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": { group, version, kind },
        parameters: [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")],
        responses: { "200": { description: "OK" } },
      },
    },
  ];
}

function describeSchema(resource: ResourceKind): [string, object] {
  const { group, version, kind } = resource;
  const prefix = group === "" ? "io.k8s.api.core" : group.split(".").toReversed().join(".");
  return [
    `${prefix}.${version}.${kind}`,
    {
      description: `${kind}, as the sandbox keeps it: fields are not pruned.`,
      type: "object",
      properties: {
        apiVersion: { type: "string" },
        kind: { type: "string" },
        metadata: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        spec: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        status: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      },
      "x-kubernetes-preserve-unknown-fields": true,
      "x-kubernetes-group-version-kind": [{ group, version, kind }],
    },
  ];
}
