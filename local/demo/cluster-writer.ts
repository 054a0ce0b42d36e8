import type { KubernetesResponse, KubernetesTransport } from "../../shared/cluster/transport.ts";

/** A Kubernetes object as it is sent or was received. */
export interface ClusterObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** The few verbs that the parts which others play (Kargo, somebody with kubectl) need. All throw on a refusal. */
export interface ClusterWriter {
  /** False when an object of that name exists already, which is left as it is. */
  create(object: ClusterObject): Promise<boolean>;
  get(kind: ClusterKind, namespace: string, name: string): Promise<ClusterObject | undefined>;
  list(kind: ClusterKind, namespace: string): Promise<readonly ClusterObject[]>;
  /** Merge patch of the object without its status. */
  patch(kind: ClusterKind, namespace: string, name: string, body: object): Promise<void>;
  /** Changes an object's status; on a conflict again, on what somebody else wrote meanwhile. */
  changeStatus(
    kind: ClusterKind,
    namespace: string,
    name: string,
    change: (status: Readonly<Record<string, unknown>>) => object,
  ): Promise<void>;
}

const PATHS = {
  Namespace: ["/api/v1", "namespaces"],
  Project: ["/apis/kargo.akuity.io/v1alpha1", "projects"],
  Warehouse: ["/apis/kargo.akuity.io/v1alpha1", "warehouses"],
  Stage: ["/apis/kargo.akuity.io/v1alpha1", "stages"],
  Freight: ["/apis/kargo.akuity.io/v1alpha1", "freights"],
  Promotion: ["/apis/kargo.akuity.io/v1alpha1", "promotions"],
  AnalysisTemplate: ["/apis/argoproj.io/v1alpha1", "analysistemplates"],
  AnalysisRun: ["/apis/argoproj.io/v1alpha1", "analysisruns"],
} as const;

export type ClusterKind = keyof typeof PATHS;

export function createClusterWriter(transport: KubernetesTransport): ClusterWriter {
  const pathOf = (kind: ClusterKind, namespace: string, name?: string): string => {
    const [api, plural] = PATHS[kind];
    const scope = kind === "Namespace" || kind === "Project" ? "" : `/namespaces/${namespace}`;
    return `${api}${scope}/${plural}${name === undefined ? "" : `/${name}`}`;
  };

  async function send(
    method: "GET" | "POST" | "PATCH",
    path: string,
    body: unknown,
    accepted: readonly number[],
  ): Promise<KubernetesResponse> {
    const response = await transport.request({ method, path, ...(body === undefined ? {} : { body }) });
    if (response.status < 300 || accepted.includes(response.status)) return response;
    const { message } = (response.body ?? {}) as { message?: string };
    throw new Error(`${method} ${path} was answered with ${response.status}: ${message ?? ""}`);
  }

  return {
    async create(object) {
      const path = pathOf(object.kind as ClusterKind, object.metadata.namespace ?? "");
      return (await send("POST", path, object, [409])).status !== 409;
    },
    async get(kind, namespace, name) {
      const response = await send("GET", pathOf(kind, namespace, name), undefined, [404]);
      return response.status === 404 ? undefined : (response.body as ClusterObject);
    },
    async list(kind, namespace) {
      const response = await send("GET", pathOf(kind, namespace), undefined, []);
      return (response.body as { items?: ClusterObject[] }).items ?? [];
    },
    async patch(kind, namespace, name, body) {
      await send("PATCH", pathOf(kind, namespace, name), body, []);
    },
    async changeStatus(kind, namespace, name, change) {
      const path = pathOf(kind, namespace, name);
      for (;;) {
        const object = (await send("GET", path, undefined, [])).body as ClusterObject;
        const status = change((object.status ?? {}) as Readonly<Record<string, unknown>>);
        const { resourceVersion } = object.metadata;
        const body = { metadata: { resourceVersion }, status };
        if ((await send("PATCH", `${path}/status`, body, [409])).status !== 409) return;
      }
    },
  };
}
