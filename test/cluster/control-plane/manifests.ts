/**
 * Putting YAML into the API server: CRDs above all, and the RBAC rules and
 * other objects that a test brings along.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { type ApiClient, ApiError, type KubernetesObject } from "./api-client.ts";
import { repositoryRoot } from "./binaries.ts";
import { waitUntil } from "./process.ts";

interface CustomResourceDefinition extends KubernetesObject {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly name: string; readonly served: boolean }[];
  };
}

const fieldManager = "control-plane-harness";

/**
 * The CRDs that users' clusters have, where a copy lies beside the repository
 * or in the folder that TALLYMAN_UPSTREAM_CRDS names; for those that are not
 * there our own minimal ones, which have the same scope, names and
 * subresources and check next to nothing.
 */
export function loadDefaultCrds(): KubernetesObject[] {
  const own = join(repositoryRoot, "test", "cluster", "crds");
  const upstream = process.env.TALLYMAN_UPSTREAM_CRDS ?? join(repositoryRoot, "..", "shared/upstream/crds");
  const byName = new Map(loadManifests([own]).map((crd) => [crd.metadata.name, crd]));
  if (existsSync(upstream)) {
    for (const crd of loadManifests([upstream])) byName.set(crd.metadata.name, crd);
  }
  return [...byName.values()];
}

/** Reads YAML files, and all `*.yaml` files of folders, of one or more documents each. */
export function loadManifests(paths: readonly string[]): KubernetesObject[] {
  return paths
    .flatMap((path) =>
      statSync(path).isDirectory()
        ? readdirSync(path)
            .filter((name) => name.endsWith(".yaml"))
            .sort()
            .map((name) => join(path, name))
        : [path],
    )
    .flatMap((file) => parseAllDocuments(readFileSync(file, "utf8")))
    .map((document) => document.toJS() as KubernetesObject | null)
    .filter((document) => document !== null);
}

/**
 * Creates CRDs, or brings existing ones up to date, and resolves when the API
 * server answers for each of their versions.
 */
export async function applyCrds(api: ApiClient, crds: readonly KubernetesObject[]): Promise<void> {
  await applyManifests(api, crds);
  for (const { metadata, spec } of crds as readonly CustomResourceDefinition[]) {
    for (const version of spec.versions.filter(({ served }) => served)) {
      // "Established" comes before the endpoint does, so ask the endpoint itself.
      const list = `/apis/${spec.group}/${version.name}/${spec.names.plural}?limit=1`;
      await waitUntil(`CRD ${metadata.name}`, () => api(list), { timeoutMs: 30_000 });
    }
  }
}

/** Server-side apply of objects of any kind that the API server knows. */
export async function applyManifests(api: ApiClient, objects: readonly KubernetesObject[]): Promise<void> {
  for (const object of objects) {
    const path = await resolvePath(api, object);
    await api(`${path}?fieldManager=${fieldManager}&force=true`, {
      method: "PATCH",
      contentType: "application/apply-patch+yaml",
      body: object, // JSON is YAML
      timeoutMs: 60_000,
    });
  }
}

async function resolvePath(api: ApiClient, object: KubernetesObject): Promise<string> {
  const root = object.apiVersion.includes("/") ? `/apis/${object.apiVersion}` : `/api/${object.apiVersion}`;
  const { resources } = await api<{
    resources: readonly { name: string; kind: string; namespaced: boolean }[];
  }>(root);
  const resource = resources.find(({ name, kind }) => kind === object.kind && !name.includes("/"));
  if (resource === undefined) throw new Error(`the API server does not know ${root} ${object.kind}`);
  const namespace = resource.namespaced ? `/namespaces/${object.metadata.namespace ?? "default"}` : "";
  return `${root}${namespace}/${resource.name}/${object.metadata.name}`;
}

/** Creates the object of that path's collection unless it is there already. */
export async function createIfAbsent(api: ApiClient, collection: string, object: unknown): Promise<void> {
  try {
    await api(collection, { body: object });
  } catch (failure) {
    if (!(failure instanceof ApiError && failure.status === 409)) throw failure;
  }
}
