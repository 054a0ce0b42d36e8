import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { computeCollectionId } from "../../shared/domain/identity.ts";
import type { Clock } from "../../shared/runtime/clock.ts";

type Json = Record<string, unknown>;

/** The parts that other people play: Kargo's promotion controller, Argo Rollouts, and somebody with kubectl. */
export interface KargoActor {
  createProject(): Promise<void>;
  createTemplate(name: string, spec?: Json): Promise<void>;
  createClusterTemplate(name: string, spec: Json): Promise<void>;
  /** Replaces a template's metrics, as somebody who edits it does. */
  changeTemplate(name: string, metrics: readonly Json[]): Promise<void>;
  createStage(name: string, options?: StageOptions): Promise<void>;
  createFreight(name: string, origin?: string): Promise<void>;
  /** Carries a Promotion of this Freight to its success; health follows at once unless told otherwise. */
  promote(
    stage: string,
    freight: readonly FreightChoice[],
    options?: { readonly health?: string | null },
  ): Promise<string>;
  /** Carries a Promotion to its failure: the Freight stays, and there are no health checks any more. */
  failPromotion(stage: string): Promise<string>;
  setHealth(stage: string, health: string | null): Promise<void>;
  /** Merges into the Stage's status what a controller writes there. */
  patchStatus(stage: string, status: Json): Promise<void>;
  annotate(stage: string, key: string, value: string | null): Promise<void>;
  getStage(stage: string): Promise<StageObject>;
  getFreight(name: string): Promise<Json>;
  /** core/v1 Events of the Project. */
  listEvents(): Promise<EventObject[]>;
  listRuns(stage?: string): Promise<RunObject[]>;
  /** Writes an AnalysisRun's status as Argo Rollouts would. */
  setRun(name: string, status: Json): Promise<void>;
  deleteRun(name: string): Promise<void>;
  deleteStage(name: string): Promise<void>;
  deleteFreight(name: string): Promise<void>;
  /** An Argo CD Application in the Project's namespace, which here is as good as any. */
  createApplication(name: string, authorizedStages: string | undefined, status?: Json): Promise<void>;
  /** Merges into an Application, as Argo CD does: it has no status subresource. */
  patchApplication(name: string, patch: Json): Promise<void>;
  /** Every core/v1 Event of one kind of object. */
  listEventsOf(kind: string): Promise<EventObject[]>;
}

export interface EventObject {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly involvedObject: { readonly kind: string; readonly name: string };
  readonly metadata: { readonly annotations: Record<string, string> };
}

export interface StageOptions {
  readonly verification?: Json | null;
  readonly origins?: readonly string[];
  readonly annotations?: Record<string, string>;
  readonly shard?: string;
  /** A Stage that only passes Freight on. */
  readonly controlFlow?: boolean;
  /** Stages that its Freight comes through; from its Warehouse otherwise. */
  readonly upstream?: readonly string[];
  readonly vars?: readonly { readonly name: string; readonly value: string }[];
}

export interface FreightChoice {
  readonly name: string;
  readonly origin?: string;
  /** What the Stage's status says of it; the Freight object itself has none. */
  readonly commits?: readonly Json[];
  readonly images?: readonly Json[];
  readonly charts?: readonly Json[];
}

export interface HistoryItem {
  readonly id: string;
  readonly items: Json;
  readonly verificationHistory?: readonly {
    readonly id: string;
    readonly phase: string;
    readonly message?: string;
    readonly startTime?: string;
    readonly finishTime?: string;
    readonly actor?: string;
    readonly analysisRun?: { readonly name: string; readonly phase: string };
  }[];
}

export interface StageObject {
  readonly metadata: {
    readonly uid: string;
    readonly annotations?: Record<string, string>;
    readonly resourceVersion: string;
  };
  readonly status?: {
    readonly freightHistory?: readonly HistoryItem[];
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
    }[];
  };
}

export interface RunObject {
  readonly metadata: {
    readonly name: string;
    readonly labels: Record<string, string>;
    readonly annotations: Record<string, string>;
    readonly ownerReferences?: readonly Json[];
  };
  readonly spec: {
    readonly terminate?: boolean;
    readonly metrics: readonly Json[];
    readonly args?: readonly Json[];
  };
  readonly status?: { readonly phase?: string; readonly message?: string };
}

const KARGO = "/apis/kargo.akuity.io/v1alpha1";
const ROLLOUTS = "/apis/argoproj.io/v1alpha1";
const DEFAULT_ORIGIN = "Warehouse/lamps";

export function createKargoActor(transport: KubernetesTransport, project: string, clock: Clock): KargoActor {
  let promotions = 0;
  const inProject = (api: string, resource: string): string => `${api}/namespaces/${project}/${resource}`;

  async function send(
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    body?: unknown,
  ): Promise<Json> {
    const response = await transport.request({ method, path, ...(body === undefined ? {} : { body }) });
    if (response.status >= 300)
      throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(response.body)}`);
    return response.body as Json;
  }
  const stagePath = (name: string): string => `${inProject(KARGO, "stages")}/${name}`;

  /** Changes a Stage's status as Kargo does, again when somebody else was faster. */
  async function changeStatus(name: string, change: (status: Json) => Json): Promise<void> {
    for (;;) {
      const stage = (await send("GET", stagePath(name))) as unknown as StageObject;
      const status = change((stage.status ?? {}) as Json);
      const { resourceVersion } = stage.metadata;
      const response = await transport.request({
        method: "PATCH",
        path: `${stagePath(name)}/status`,
        body: { metadata: { resourceVersion }, status },
      });
      if (response.status < 300) return;
      if (response.status !== 409)
        throw new Error(`status of ${name}: ${response.status} ${JSON.stringify(response.body)}`);
    }
  }

  return {
    async createProject() {
      await send("POST", "/api/v1/namespaces", {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: project },
      });
    },

    async createTemplate(
      name,
      spec = { metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1" } } }] },
    ) {
      await send("POST", inProject(ROLLOUTS, "analysistemplates"), {
        apiVersion: "argoproj.io/v1alpha1",
        kind: "AnalysisTemplate",
        metadata: { name },
        spec,
      });
    },

    async createClusterTemplate(name, spec) {
      await send("POST", `${ROLLOUTS}/clusteranalysistemplates`, {
        apiVersion: "argoproj.io/v1alpha1",
        kind: "ClusterAnalysisTemplate",
        metadata: { name },
        spec,
      });
    },

    async changeTemplate(name, metrics) {
      await send("PATCH", `${inProject(ROLLOUTS, "analysistemplates")}/${name}`, { spec: { metrics } });
    },

    async createStage(name, options = {}) {
      const { verification = { analysisTemplates: [{ name: "smoke" }] }, origins = [DEFAULT_ORIGIN] } =
        options;
      await send("POST", inProject(KARGO, "stages"), {
        apiVersion: "kargo.akuity.io/v1alpha1",
        kind: "Stage",
        metadata: {
          name,
          annotations: options.annotations ?? {},
          // Kargo's webhook makes the label of the field.
          ...(options.shard === undefined ? {} : { labels: { "kargo.akuity.io/shard": options.shard } }),
        },
        spec: {
          ...(options.shard === undefined ? {} : { shard: options.shard }),
          requestedFreight: origins.map((origin) => ({
            origin: { kind: "Warehouse", name: origin.split("/")[1] },
            sources: options.upstream === undefined ? { direct: true } : { stages: options.upstream },
          })),
          ...(options.controlFlow === true
            ? {}
            : { promotionTemplate: { spec: { steps: [{ uses: "argocd-update" }] } } }),
          ...(options.vars === undefined ? {} : { vars: options.vars }),
          ...(verification === null ? {} : { verification }),
        },
      });
    },

    async createFreight(name, origin = DEFAULT_ORIGIN) {
      await send("POST", inProject(KARGO, "freights"), {
        apiVersion: "kargo.akuity.io/v1alpha1",
        kind: "Freight",
        metadata: { name },
        origin: { kind: "Warehouse", name: origin.split("/")[1] },
      });
    },

    async promote(stage, freight, { health = "Healthy" } = {}) {
      const name = `${stage}.01jd${String(++promotions).padStart(22, "0")}.${freight[0]?.name.slice(0, 7)}`;
      await changeStatus(stage, () => ({ currentPromotion: { name } }));
      const collection = {
        id: computeCollectionId(freight.map((each) => each.name)),
        items: Object.fromEntries(
          freight.map(({ name: member, origin = DEFAULT_ORIGIN, ...artifacts }) => [
            origin,
            { name: member, origin: { kind: "Warehouse", name: origin.split("/")[1] }, ...artifacts },
          ]),
        ),
      };
      await send("POST", inProject(KARGO, "promotions"), {
        apiVersion: "kargo.akuity.io/v1alpha1",
        kind: "Promotion",
        metadata: { name },
        spec: { stage, freight: freight[0]?.name, steps: [{ uses: "argocd-update" }] },
      });
      await send("PATCH", `${inProject(KARGO, "promotions")}/${name}/status`, {
        status: {
          phase: "Succeeded",
          finishedAt: new Date(clock.now()).toISOString(),
          freightCollection: collection,
        },
      });
      await changeStatus(stage, (status) => {
        // Written already, and only the answer was lost.
        if ((status.lastPromotion as Json | undefined)?.name === name) return {};
        return {
          currentPromotion: null,
          lastPromotion: {
            name,
            status: { phase: "Succeeded" },
            finishedAt: new Date(clock.now()).toISOString(),
          },
          health: null,
          freightHistory: [collection, ...((status.freightHistory as unknown[] | undefined) ?? [])].slice(
            0,
            10,
          ),
        };
      });
      if (health !== null) await changeStatus(stage, () => ({ health: { status: health } }));
      return name;
    },

    async failPromotion(stage) {
      const name = `${stage}.01jd${String(++promotions).padStart(22, "0")}.failed`;
      await changeStatus(stage, () => ({ currentPromotion: { name } }));
      await changeStatus(stage, () => ({
        currentPromotion: null,
        lastPromotion: {
          name,
          status: { phase: "Failed" },
          finishedAt: new Date(clock.now()).toISOString(),
        },
        health: { status: "Unknown" },
      }));
      return name;
    },

    setHealth: (stage, health) =>
      changeStatus(stage, () => ({ health: health === null ? null : { status: health } })),

    patchStatus: (stage, status) => changeStatus(stage, () => status),

    async annotate(stage, key, value) {
      await send("PATCH", stagePath(stage), { metadata: { annotations: { [key]: value } } });
    },

    getStage: async (stage) => (await send("GET", stagePath(stage))) as unknown as StageObject,
    getFreight: (name) => send("GET", `${inProject(KARGO, "freights")}/${name}`),

    async listEvents() {
      const list = (await send("GET", `/api/v1/namespaces/${project}/events`)) as { items?: EventObject[] };
      return (list.items ?? []).filter((event) => event.reason.includes("Verification"));
    },

    async listRuns(stage) {
      const list = (await send("GET", inProject(ROLLOUTS, "analysisruns"))) as { items?: RunObject[] };
      return (list.items ?? []).filter(
        (run) => stage === undefined || run.metadata.labels["kargo.akuity.io/stage"] === stage,
      );
    },

    async setRun(name, status) {
      await send("PATCH", `${inProject(ROLLOUTS, "analysisruns")}/${name}`, { status });
    },
    async deleteRun(name) {
      await send("DELETE", `${inProject(ROLLOUTS, "analysisruns")}/${name}`);
    },
    async createApplication(name, authorizedStages, status = {}) {
      await send("POST", inProject(ROLLOUTS, "applications"), {
        apiVersion: "argoproj.io/v1alpha1",
        kind: "Application",
        metadata: {
          name,
          annotations:
            authorizedStages === undefined ? {} : { "kargo.akuity.io/authorized-stage": authorizedStages },
        },
        spec: {
          project: "default",
          destination: { namespace: project },
          source: { repoURL: "https://git.example.com/x" },
        },
        status,
      });
    },
    async patchApplication(name, patch) {
      await send("PATCH", `${inProject(ROLLOUTS, "applications")}/${name}`, patch);
    },
    async listEventsOf(kind) {
      const list = (await send("GET", `/api/v1/namespaces/${project}/events`)) as { items?: EventObject[] };
      return (list.items ?? []).filter((event) => event.involvedObject.kind === kind);
    },
    async deleteFreight(name) {
      await send("DELETE", `${inProject(KARGO, "freights")}/${name}`);
    },
    async deleteStage(name) {
      await send("DELETE", stagePath(name));
    },
  };
}
