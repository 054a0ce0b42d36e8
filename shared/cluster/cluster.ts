import { Fault } from "../domain/fault.ts";
import type { TemplateReference } from "../domain/stage.ts";
import { STAGE_LABEL } from "./annotations.ts";
import { isPlainObject } from "./plain-object.ts";
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
 * exist. Every verb throws `Transient` when the API server did not answer, was not the one that did, or may answer
 * differently later (401, 403, 408, 409 where not named, 429, 5xx), and `Permanent` when it refuses for good (400, 404 of a
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

  /** Sends what is answered with the object itself; undefined when there is no such object. */
  async function sendForObject(
    request: KubernetesRequest,
    accept: readonly number[],
  ): Promise<{ readonly status: number; readonly object: KubernetesObject } | undefined> {
    const response = await send(request, [404, ...accept]);
    const { status, body } = response;
    if (status !== 404 && accept.includes(status)) return { status, object: {} };
    if (status === 404 && isPlainObject(body) && body.reason === "NotFound") return undefined;
    return { status, object: readObject(name, request, response) };
  }

  const get = async (path: string): Promise<KubernetesObject | undefined> =>
    (await sendForObject({ method: "GET", path }, []))?.object;

  async function patch(
    path: string,
    body: unknown,
    contentType: string,
    conflicts: readonly number[],
  ): Promise<"done" | "conflict" | "gone"> {
    const answer = await sendForObject({ method: "PATCH", path, body, contentType }, conflicts);
    if (answer === undefined) return "gone";
    return conflicts.includes(answer.status) ? "conflict" : "done";
  }

  async function* list(path: string, labelSelector?: string): AsyncGenerator<ObjectPage> {
    let token = "";
    do {
      const query: Record<string, string> = { limit: PAGE };
      if (labelSelector !== undefined) query.labelSelector = labelSelector;
      if (token !== "") query.continue = token;
      const request: KubernetesRequest = { method: "GET", path, query, timeoutMs: 30_000 };
      const response = await send(request, []);
      const page = readPage(response.body);
      // To take what is merely not understood for an empty list would be to think that everything was deleted.
      if (page === undefined || (page.token !== "" && page.token === token)) {
        const why = page === undefined ? "which is no list" : "whose continue token stays the same";
        throw new Fault("Transient", `${describe(name, request, response)}, ${why}`);
      }
      yield { items: page.items, resourceVersion: page.resourceVersion };
      token = page.token;
    } while (token !== "");
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
      const request: KubernetesRequest = { method: "POST", path, body: run };
      const response = await send(request, [409]);
      if (response.status !== 409) return { created: true, object: readObject(name, request, response) };
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
  return isPlainObject(value) ? value : {};
}

/**
 * @throws Fault `Transient` for a proxy's page, or a resource type that is not served just now: what there is, nobody has
 *   said, so that it must be taken neither for the object nor for its absence.
 */
function readObject(
  cluster: string,
  request: KubernetesRequest,
  response: KubernetesResponse,
): KubernetesObject {
  const { status, body } = response;
  if (status < 300 && isPlainObject(body) && isPlainObject(body.metadata)) return body;
  throw new Fault("Transient", `${describe(cluster, request, response)}, which is no Kubernetes object`);
}

function readPage(body: unknown): (ObjectPage & { readonly token: string }) | undefined {
  if (!isPlainObject(body)) return undefined;
  const { resourceVersion, continue: token = "" } = asObject(body.metadata);
  // An empty Go slice may be written as null; only what calls itself a list gets away with it.
  const isEmpty = body.items === null && typeof body.kind === "string" && body.kind.endsWith("List");
  const items: unknown = isEmpty ? [] : body.items;
  if (!Array.isArray(items) || typeof token !== "string") return undefined;
  if (typeof resourceVersion !== "string" || resourceVersion === "") return undefined;
  return { items: items.map(asObject), resourceVersion, token };
}

function describe(cluster: string, request: KubernetesRequest, { status, body }: KubernetesResponse): string {
  const text = typeof body === "string" ? body : (JSON.stringify(body) ?? "nothing");
  const said = text.trim().slice(0, 200);
  return `cluster ${cluster} answered ${status} to ${request.method} ${request.path} with ${said}`;
}

/** Whether a refusal may pass is the one thing that decides between a retry and an `Error`. */
function explainRefusal(cluster: string, request: KubernetesRequest, response: KubernetesResponse): Fault {
  const { message } = asObject(response.body);
  const text = typeof response.body === "string" ? response.body : "";
  const said = typeof message === "string" ? message : text.slice(0, 300);
  const sentence = `cluster ${cluster} answered ${response.status} to ${request.method} ${request.path}: ${said}`;
  const permanent = [400, 404, 405, 413, 415, 422].includes(response.status);
  return new Fault(permanent ? "Permanent" : "Transient", sentence);
}
