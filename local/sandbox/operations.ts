import { randomInt, randomUUID } from "node:crypto";
import { alreadyExists, conflict, deleted, forbidden, notFound, type Status } from "./api-status.ts";
import { createFilter, type ListRequest } from "./listing.ts";
import type { ObjectStore } from "./object-store.ts";
import { formatKey, formatTime, isRecord, readPath, type StoredObject } from "./objects.ts";
import { EVENT, findKind, NAMESPACE, PROJECT, RESOURCES, type ResourceKind } from "./resources.ts";
import { prepareCreate, prepareUpdate, type UpdateRequest } from "./write-rules.ts";

/** Where a verb goes. `namespace` is empty for cluster-scoped kinds. */
export interface Target {
  readonly resource: ResourceKind;
  readonly namespace: string;
  readonly name: string;
}

export interface WriteOptions {
  /** `dryRun=All`: everything is checked and answered, nothing is kept. */
  readonly dryRun: boolean;
}

/** Of `meta/v1` DeleteOptions what the sandbox honours. */
export interface DeleteOptions extends WriteOptions {
  readonly orphanDependents: boolean;
  readonly uid?: string;
  readonly resourceVersion?: string;
}

// No vowels and nothing that looks alike, as in real generated names.
const SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";

function createSuffix(): string {
  return Array.from({ length: 5 }, () => SUFFIX_ALPHABET[randomInt(SUFFIX_ALPHABET.length)]).join("");
}

/** The verbs that write, each one transaction. Collecting garbage is `garbage-collector.ts`'s part. */
export class Operations {
  readonly #store: ObjectStore;
  readonly #now: () => Date;

  constructor(store: ObjectStore, now: () => Date) {
    this.#store = store;
    this.#now = now;
  }

  /** @throws ApiError 404. */
  get({ resource, namespace, name }: Target): StoredObject {
    const found = this.#store.get(resource, formatKey(namespace, name));
    if (found === undefined) throw notFound(resource, name);
    return found;
  }

  /** @throws ApiError 400, 403 (namespace is being deleted), 404 (no such namespace), 409, 422. */
  create(target: Omit<Target, "name">, body: unknown, options: WriteOptions): StoredObject {
    const { resource, namespace } = target;
    const object = prepareCreate(resource, namespace, body, {
      now: this.#now(),
      createUid: randomUUID,
      createSuffix,
    });
    const { name } = object.metadata;
    if (resource.namespaced) this.#checkNamespace(resource, namespace, name);
    if (this.#store.get(resource, formatKey(namespace, name)) !== undefined) {
      throw alreadyExists(resource, name);
    }
    if (options.dryRun) {
      const { resourceVersion: _, ...metadata } = object.metadata;
      return { ...object, metadata } as StoredObject;
    }
    const stored = this.#store.put(resource, object);
    // Kargo's webhook makes the Namespace of a Project before the create call returns.
    if (resource === PROJECT) this.#ensureProjectNamespace(stored);
    return stored;
  }

  /** PUT, or PATCH when `change` is a function of the current object. @throws ApiError 400, 404, 409, 422. */
  update(
    target: Target,
    subresource: "status" | undefined,
    change: { readonly body: unknown } | ((current: StoredObject) => unknown),
    options: WriteOptions,
  ): StoredObject {
    const current = this.get(target);
    const request: UpdateRequest =
      typeof change === "function"
        ? { subresource, body: change(current), unconditional: true }
        : { subresource, body: change.body, unconditional: false };
    const next = prepareUpdate(target.resource, current, request);
    if (next === current || options.dryRun) return next;
    // The last finalizer of an object that is being deleted was taken off: that is its deletion.
    if (isFinished(target.resource, next)) return this.#store.remove(target.resource, current, next);
    return this.#store.put(target.resource, next);
  }

  /** The object while finalizers keep it, else a Status. @throws ApiError 404, 409 (preconditions). */
  delete(target: Target, options: DeleteOptions): StoredObject | Status {
    const current = this.get(target);
    const { uid, resourceVersion } = current.metadata;
    for (const [what, wanted, found] of [
      ["UID", options.uid, uid],
      ["ResourceVersion", options.resourceVersion, resourceVersion],
    ] as const) {
      if (wanted === undefined || wanted === found) continue;
      throw conflict(
        target.resource,
        target.name,
        `the ${what} in the precondition (${wanted}) does not match the ${what} in record (${found}). The object might have been deleted and then recreated`,
      );
    }
    if (options.dryRun) return deleted(target.resource, target.name, uid);
    if (options.orphanDependents) this.#orphan(current);
    return this.#delete(target.resource, current) ?? deleted(target.resource, target.name, uid);
  }

  /** Deletes what the selectors let through; the answer lists it as it was. */
  deleteCollection(request: ListRequest, options: DeleteOptions): readonly StoredObject[] {
    const matching = this.#store.snapshot(request.resource).filter(createFilter(request));
    if (options.dryRun) return matching;
    for (const object of matching) {
      if (options.orphanDependents) this.#orphan(object);
      this.#delete(request.resource, object);
    }
    return matching;
  }

  /** Deletes an object by reference, for the garbage collector; nothing happens when it has gone. */
  collect(object: StoredObject): void {
    const resource = findKind(object.apiVersion, object.kind);
    const current = this.#store.findByUid(object.metadata.uid);
    if (resource !== undefined && current !== undefined) this.#delete(resource, current);
  }

  /** Takes owner references off; the object stays. */
  disown(object: StoredObject, uids: ReadonlySet<string>): void {
    const resource = findKind(object.apiVersion, object.kind);
    const current = this.#store.findByUid(object.metadata.uid);
    if (resource === undefined || current === undefined) return;
    const { ownerReferences = [], ...metadata } = current.metadata;
    const kept = ownerReferences.filter((owner) => !uids.has(owner.uid));
    if (kept.length === ownerReferences.length) return;
    this.#store.put(resource, {
      ...current,
      apiVersion: current.apiVersion,
      kind: current.kind,
      metadata: { ...metadata, ...(kept.length === 0 ? {} : { ownerReferences: kept }) },
    });
  }

  /** Removes a Namespace that is being deleted once nothing is left in it. */
  finishNamespace(name: string): void {
    const namespace = this.#store.get(NAMESPACE, formatKey("", name));
    if (namespace?.metadata.deletionTimestamp === undefined) return;
    const rest = [...this.#store.all()].some((object) => object.metadata.namespace === name);
    const kept = namespace.metadata.finalizers ?? [];
    if (!rest && kept.length === 0) this.#store.remove(NAMESPACE, namespace);
  }

  /** Removes Events that were last seen before `before`, as a real API server does after an hour. */
  expireEvents(before: Date): void {
    const limit = formatTime(before);
    for (const event of this.#store.snapshot(EVENT)) {
      const seen = readPath(event, ["lastTimestamp"]);
      const time = typeof seen === "string" && seen !== "" ? seen : event.metadata.creationTimestamp;
      if (time < limit) this.#delete(EVENT, event);
    }
  }

  /** The object when it has to wait for its finalizers, `undefined` when it is gone. */
  #delete(resource: ResourceKind, current: StoredObject): StoredObject | undefined {
    const marked = current.metadata.deletionTimestamp === undefined ? this.#mark(current) : current;
    if (isFinished(resource, marked)) {
      this.#store.remove(resource, current);
      return undefined;
    }
    const stored = marked === current ? current : this.#store.put(resource, marked);
    if (resource === NAMESPACE) this.#emptyNamespace(current.metadata.name);
    return stored;
  }

  #mark(current: StoredObject): StoredObject {
    const { generation } = current.metadata;
    const metadata = {
      ...current.metadata,
      deletionTimestamp: formatTime(this.#now()),
      deletionGracePeriodSeconds: 0,
      ...(generation === undefined ? {} : { generation: generation + 1 }),
    };
    const terminating = current.kind === "Namespace" ? { status: { phase: "Terminating" } } : {};
    return { ...current, ...terminating, apiVersion: current.apiVersion, kind: current.kind, metadata };
  }

  #emptyNamespace(name: string): void {
    for (const resource of RESOURCES.filter((r) => r.namespaced)) {
      for (const object of this.#store.snapshot(resource)) {
        if (object.metadata.namespace === name) this.#delete(resource, object);
      }
    }
    this.finishNamespace(name);
  }

  #orphan(owner: StoredObject): void {
    const uids = new Set([owner.metadata.uid]);
    for (const dependent of this.#store.findDependents(owner.metadata.uid)) this.disown(dependent, uids);
  }

  #checkNamespace(resource: ResourceKind, namespace: string, name: string): void {
    const found = this.#store.get(NAMESPACE, formatKey("", namespace));
    if (found === undefined) throw notFound(NAMESPACE, namespace);
    if (found.metadata.deletionTimestamp !== undefined) {
      throw forbidden(
        resource,
        name,
        `unable to create new content in namespace ${namespace} because it is being terminated`,
      );
    }
  }

  #ensureProjectNamespace(project: StoredObject): void {
    const { name, uid } = project.metadata;
    if (this.#store.get(NAMESPACE, formatKey("", name)) !== undefined) return;
    this.create(
      { resource: NAMESPACE, namespace: "" },
      {
        metadata: {
          name,
          labels: { "kargo.akuity.io/project": "true" },
          ownerReferences: [{ apiVersion: project.apiVersion, kind: project.kind, name, uid }],
        },
      },
      { dryRun: false },
    );
  }
}

/** Being deleted, and nothing holds it any longer. A Namespace waits for its content. */
function isFinished(resource: ResourceKind, object: StoredObject): boolean {
  const { deletionTimestamp, finalizers = [] } = object.metadata;
  return deletionTimestamp !== undefined && finalizers.length === 0 && resource !== NAMESPACE;
}

/** Reads the body and the query of a DELETE. */
export function readDeleteOptions(body: unknown, query: URLSearchParams): DeleteOptions {
  const options = isRecord(body) ? body : {};
  const policy = options.propagationPolicy ?? query.get("propagationPolicy");
  const uid = readPath(options, ["preconditions", "uid"]);
  const version = readPath(options, ["preconditions", "resourceVersion"]);
  return {
    dryRun: query.getAll("dryRun").includes("All") || isDry(options),
    orphanDependents: policy === "Orphan" || options.orphanDependents === true,
    ...(typeof uid === "string" ? { uid } : {}),
    ...(typeof version === "string" ? { resourceVersion: version } : {}),
  };
}

function isDry(options: Readonly<Record<string, unknown>>): boolean {
  return Array.isArray(options.dryRun) && options.dryRun.includes("All");
}
