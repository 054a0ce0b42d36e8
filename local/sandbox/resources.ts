/** A column of `kubectl get`; `path` is a field path, `age` columns show the time since then. */
export interface Column {
  readonly name: string;
  readonly path: readonly string[];
  readonly type?: "string" | "age" | "count";
  /** 0 is always shown, 1 only with `-o wide`. */
  readonly priority?: 0 | 1;
}

/** One kind that the sandbox serves. */
export interface ResourceKind {
  /** `""` for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly namespaced: boolean;
  /** Status is written through `/status` only. */
  readonly statusSubresource: boolean;
  /** Behaves as a custom resource: has a generation, and an update must carry a resourceVersion. */
  readonly custom: boolean;
  /** Shown between NAME and AGE. */
  readonly columns: readonly Column[];
  /** Field selectors beside `metadata.name` and `metadata.namespace`. */
  readonly selectableFields: readonly string[];
}

type Definition = Pick<ResourceKind, "group" | "version" | "kind" | "plural" | "namespaced"> &
  Partial<ResourceKind>;

function define(definition: Definition): ResourceKind {
  return {
    shortNames: [],
    statusSubresource: false,
    custom: definition.group.includes(".") && !definition.group.endsWith(".k8s.io"),
    columns: [],
    selectableFields: [],
    ...definition,
  };
}

function kargo(
  kind: string,
  plural: string,
  more: Partial<ResourceKind> & { readonly namespaced: boolean },
): ResourceKind {
  return define({
    group: "kargo.akuity.io",
    version: "v1alpha1",
    kind,
    plural,
    statusSubresource: true,
    ...more,
  });
}

// The CRDs of Argo Rollouts and Argo CD have no status subresource: status is written on the main resource.
function argo(
  kind: string,
  plural: string,
  more: Partial<ResourceKind> & { readonly namespaced: boolean },
): ResourceKind {
  return define({ group: "argoproj.io", version: "v1alpha1", kind, plural, ...more });
}

/** Everything that the sandbox serves, in the order that discovery lists it. */
export const RESOURCES: readonly ResourceKind[] = [
  define({
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    shortNames: ["ns"],
    namespaced: false,
    statusSubresource: true,
    selectableFields: ["status.phase"],
    columns: [{ name: "Status", path: ["status", "phase"] }],
  }),
  define({
    group: "",
    version: "v1",
    kind: "Secret",
    plural: "secrets",
    namespaced: true,
    selectableFields: ["type"],
    columns: [
      { name: "Type", path: ["type"] },
      { name: "Data", path: ["data"], type: "count" },
    ],
  }),
  define({
    group: "",
    version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    shortNames: ["cm"],
    namespaced: true,
    columns: [{ name: "Data", path: ["data"], type: "count" }],
  }),
  define({
    group: "",
    version: "v1",
    kind: "Event",
    plural: "events",
    shortNames: ["ev"],
    namespaced: true,
    selectableFields: [
      "involvedObject.apiVersion",
      "involvedObject.fieldPath",
      "involvedObject.kind",
      "involvedObject.name",
      "involvedObject.namespace",
      "involvedObject.resourceVersion",
      "involvedObject.uid",
      "reason",
      "reportingComponent",
      "source",
      "type",
    ],
    columns: [
      { name: "Last Seen", path: ["lastTimestamp"], type: "age" },
      { name: "Type", path: ["type"] },
      { name: "Reason", path: ["reason"] },
      { name: "Kind", path: ["involvedObject", "kind"] },
      { name: "Object", path: ["involvedObject", "name"] },
      { name: "Message", path: ["message"] },
    ],
  }),
  kargo("Project", "projects", { namespaced: false }),
  kargo("Stage", "stages", {
    namespaced: true,
    columns: [
      { name: "Shard", path: ["spec", "shard"] },
      { name: "Current Freight", path: ["status", "freightSummary"] },
      { name: "Health", path: ["status", "health", "status"] },
      { name: "Ready", path: ["status", "conditions", "Ready", "status"] },
      { name: "Verified", path: ["status", "conditions", "Verified", "status"] },
      { name: "Status", path: ["status", "conditions", "Ready", "message"], priority: 1 },
    ],
  }),
  kargo("Freight", "freights", {
    namespaced: true,
    columns: [
      { name: "Alias", path: ["metadata", "labels", "kargo.akuity.io/alias"] },
      { name: "Origin (kind)", path: ["origin", "kind"] },
      { name: "Origin (name)", path: ["origin", "name"] },
    ],
  }),
  kargo("Promotion", "promotions", {
    shortNames: ["promo", "promos"],
    namespaced: true,
    columns: [
      { name: "Stage", path: ["spec", "stage"] },
      { name: "Freight", path: ["spec", "freight"] },
      { name: "Phase", path: ["status", "phase"] },
    ],
  }),
  kargo("Warehouse", "warehouses", {
    namespaced: true,
    columns: [{ name: "Shard", path: ["spec", "shard"] }],
  }),
  argo("AnalysisRun", "analysisruns", {
    shortNames: ["ar"],
    namespaced: true,
    columns: [{ name: "Status", path: ["status", "phase"] }],
  }),
  argo("AnalysisTemplate", "analysistemplates", {
    shortNames: ["at"],
    namespaced: true,
  }),
  argo("ClusterAnalysisTemplate", "clusteranalysistemplates", {
    shortNames: ["cat"],
    namespaced: false,
  }),
  argo("Application", "applications", {
    shortNames: ["app", "apps"],
    namespaced: true,
    columns: [
      { name: "Sync Status", path: ["status", "sync", "status"] },
      { name: "Health Status", path: ["status", "health", "status"] },
    ],
  }),
  define({
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    namespaced: true,
    columns: [{ name: "Holder", path: ["spec", "holderIdentity"] }],
  }),
];

/** `v1` or `kargo.akuity.io/v1alpha1`. */
export function formatApiVersion(kind: Pick<ResourceKind, "group" | "version">): string {
  return kind.group === "" ? kind.version : `${kind.group}/${kind.version}`;
}

export function findResource(group: string, version: string, plural: string): ResourceKind | undefined {
  return RESOURCES.find((r) => r.group === group && r.version === version && r.plural === plural);
}

export function findKind(apiVersion: string, kind: string): ResourceKind | undefined {
  return RESOURCES.find((r) => formatApiVersion(r) === apiVersion && r.kind === kind);
}

/** The kind that must exist; for the few that the sandbox itself handles. */
function expectKind(apiVersion: string, kind: string): ResourceKind {
  const found = findKind(apiVersion, kind);
  if (found === undefined) throw new Error(`${apiVersion} ${kind} is not served`);
  return found;
}

export const NAMESPACE = expectKind("v1", "Namespace");
export const CONFIG_MAP = expectKind("v1", "ConfigMap");
export const SECRET = expectKind("v1", "Secret");
export const EVENT = expectKind("v1", "Event");
export const PROJECT = expectKind("kargo.akuity.io/v1alpha1", "Project");
