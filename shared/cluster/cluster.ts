import { Fault } from "../domain/fault.ts";
import type { TemplateReference } from "../domain/stage.ts";
import { STAGE_LABEL } from "./annotations.ts";
import type { KubernetesRequest, KubernetesResponse, KubernetesTransport } from "./transport.ts";

/** A Kubernetes object as the API server sent it; readers decide what can be used of it. */
export type KubernetesObject = Readonly<Record<string, unknown>>;

/** A page of a list, with the resourceVersion that it stands for. */
export interface ObjectPage {
  readonly items: readonly KubernetesObject[];
  readonly resourceVersion: string;
}

/**
 * The few verbs that verification needs of a cluster. `undefined` and `"gone"` mean that the object does not
 * exist. Every verb throws `Transient` when the API server did not answer or may answer differently later
 * (401, 403, 408, 409 where not named, 429, 5xx), and `Permanent` when it refuses for good (400, 404 of a
 * resource type, 413, 422), naming the object.
 */
export interface Cluster {
  readonly name: string;
  getStage(project: string, stage: string): Promise<KubernetesObject | undefined>;
  getFreight(project: string, freight: string): Promise<KubernetesObject | undefined>;
  getTemplate(project: string, reference: TemplateReference): Promise<KubernetesObject | undefined>;
  getAnalysisRun(project: string, name: string): Promise<KubernetesObject | undefined>;
  /** Creates the run, or hands back the one that has its name already. */
  createAnalysisRun(
    project: string,
    run: KubernetesObject,
  ): Promise<{ readonly created: boolean; readonly object: KubernetesObject }>;
  /** Sets `spec.terminate`; a run that is complete takes no notice. */
  terminateAnalysisRun(project: string, name: string): Promise<"done" | "gone">;
  /** Merge patch of a status subresource; `conflict` when the resourceVersion in the patch is no longer current. */
  patchStatus(
    kind: "stages" | "freights",
    project: string,
    name: string,
    patch: object,
  ): Promise<"done" | "conflict" | "gone">;
  /** JSON patch of a Stage; `conflict` when one of its tests did not hold. */
  patchStage(project: string, stage: string, patch: readonly object[]): Promise<"done" | "conflict" | "gone">;
  /** Creates a core/v1 Event; one that exists already is the same Event. */
  createEvent(project: string, event: KubernetesObject): Promise<void>;
  /** All AnalysisRuns of Stages, in every Project, page by page. */
  listAnalysisRuns(): AsyncIterable<ObjectPage>;
  /** A Project's Freight, page by page. */
  listFreights(project: string): AsyncIterable<ObjectPage>;
  /** A Project's Promotions, page by page. */
  listPromotions(project: string): AsyncIterable<ObjectPage>;
  /** All Stages, in every Project, page by page. */
  listStages(): AsyncIterable<ObjectPage>;
  /** All templates of a kind, in every Project, page by page. */
  listTemplates(kind: TemplateReference["kind"]): AsyncIterable<ObjectPage>;
}

const KARGO = "/apis/kargo.akuity.io/v1alpha1";
const ROLLOUTS = "/apis/argoproj.io/v1alpha1";
const PAGE = "500";

/** The verbs over a transport. `name` is the cluster's name in messages and in the ledger. */
export function createCluster(name: string, transport: KubernetesTransport): Cluster {
  const inProject = (api: string, project: string, resource: string, object?: string): string =>
    [
      api,
      "namespaces",
      encodeURIComponent(project),
      resource,
      ...(object === undefined ? [] : [encodeURIComponent(object)]),
    ].join("/");

  async function send(request: KubernetesRequest, accept: readonly number[]): Promise<KubernetesResponse> {
    const response = await transport.request(request);
    if (response.status < 300 || accept.includes(response.status)) return response;
    throw explainRefusal(name, request, response);
  }

  async function get(path: string): Promise<KubernetesObject | undefined> {
    const response = await send({ method: "GET", path }, [404]);
    return response.status === 404 ? undefined : asObject(response.body);
  }

  async function patch(
    path: string,
    body: unknown,
    contentType: string,
    conflicts: readonly number[],
  ): Promise<"done" | "conflict" | "gone"> {
    const response = await send({ method: "PATCH", path, body, contentType }, [404, ...conflicts]);
    if (response.status === 404) return "gone";
    return conflicts.includes(response.status) ? "conflict" : "done";
  }

  async function* list(path: string, labelSelector?: string): AsyncGenerator<ObjectPage> {
    let token: string | undefined;
    do {
      const query: Record<string, string> = { limit: PAGE };
      if (labelSelector !== undefined) query.labelSelector = labelSelector;
      if (token !== undefined) query.continue = token;
      const response = await send({ method: "GET", path, query, timeoutMs: 30_000 }, []);
      const body = asObject(response.body);
      const metadata = asObject(body.metadata);
      yield {
        items: Array.isArray(body.items) ? body.items.map(asObject) : [],
        resourceVersion: typeof metadata.resourceVersion === "string" ? metadata.resourceVersion : "0",
      };
      token =
        typeof metadata.continue === "string" && metadata.continue !== "" ? metadata.continue : undefined;
    } while (token !== undefined);
  }

  return {
    name,
    getStage: (project, stage) => get(inProject(KARGO, project, "stages", stage)),
    getFreight: (project, freight) => get(inProject(KARGO, project, "freights", freight)),
    getTemplate: (project, reference) =>
      get(
        reference.kind === "ClusterAnalysisTemplate"
          ? `${ROLLOUTS}/clusteranalysistemplates/${encodeURIComponent(reference.name)}`
          : inProject(ROLLOUTS, project, "analysistemplates", reference.name),
      ),
    getAnalysisRun: (project, run) => get(inProject(ROLLOUTS, project, "analysisruns", run)),

    async createAnalysisRun(project, run) {
      const path = inProject(ROLLOUTS, project, "analysisruns");
      const response = await send({ method: "POST", path, body: run }, [409]);
      if (response.status !== 409) return { created: true, object: asObject(response.body) };
      const runName = asObject(run.metadata).name;
      const existing = await get(`${path}/${encodeURIComponent(String(runName))}`);
      if (existing === undefined) {
        // Deleted between the two calls, or the 409 meant something else: the next try will tell.
        throw new Fault(
          "Transient",
          `AnalysisRun ${project}/${runName} was refused as existing and is not there`,
        );
      }
      return { created: false, object: existing };
    },

    async terminateAnalysisRun(project, run) {
      const path = inProject(ROLLOUTS, project, "analysisruns", run);
      const result = await patch(path, { spec: { terminate: true } }, "application/merge-patch+json", []);
      return result === "gone" ? "gone" : "done";
    },

    patchStatus: (kind, project, object, body) =>
      patch(`${inProject(KARGO, project, kind, object)}/status`, body, "application/merge-patch+json", [409]),

    patchStage: (project, stage, operations) =>
      // A test that does not hold is 422 on a real API server.
      patch(
        inProject(KARGO, project, "stages", stage),
        operations,
        "application/json-patch+json",
        [409, 422],
      ),

    async createEvent(project, event) {
      await send(
        { method: "POST", path: `/api/v1/namespaces/${encodeURIComponent(project)}/events`, body: event },
        [409],
      );
    },

    listAnalysisRuns: () => list(`${ROLLOUTS}/analysisruns`, STAGE_LABEL),
    listFreights: (project) => list(inProject(KARGO, project, "freights")),
    listPromotions: (project) => list(inProject(KARGO, project, "promotions")),
    listStages: () => list(`${KARGO}/stages`),
    listTemplates: (kind) =>
      list(`${ROLLOUTS}/${kind === "AnalysisTemplate" ? "analysistemplates" : "clusteranalysistemplates"}`),
  };
}

function asObject(value: unknown): KubernetesObject {
  return typeof value === "object" && value !== null ? (value as KubernetesObject) : {};
}

/** Whether a refusal may pass is the one thing that decides between a retry and an `Error`. */
function explainRefusal(cluster: string, request: KubernetesRequest, response: KubernetesResponse): Fault {
  const status = asObject(response.body);
  const said =
    typeof status.message === "string" ? status.message : String(response.body ?? "").slice(0, 300);
  const text = `cluster ${cluster} answered ${response.status} to ${request.method} ${request.path}: ${said}`;
  const permanent = [400, 404, 405, 413, 415, 422].includes(response.status);
  return new Fault(permanent ? "Permanent" : "Transient", text);
}
