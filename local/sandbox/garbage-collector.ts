import type { StoreEvent } from "./event-log.ts";
import type { ObjectStore } from "./object-store.ts";
import { formatKey, type OwnerReference, type StoredObject } from "./objects.ts";
import type { Operations } from "./operations.ts";
import { findKind } from "./resources.ts";

/**
 * Deletes what has lost its owners, as Kubernetes' own collector does in the background:
 * - an object whose owners are all gone is deleted, an object that keeps one only loses the dead references;
 * - an object made with owners that never existed is deleted as well (a mistyped uid is enough);
 * - owners of kinds that nobody here serves cannot be looked up, so they count as alive.
 */
export class GarbageCollector {
  readonly #store: ObjectStore;
  readonly #operations: Operations;
  readonly #queue = new Set<string>();
  readonly #namespaces = new Set<string>();
  #scheduled = false;
  #stopped = false;
  readonly #unsubscribe: () => void;

  constructor(store: ObjectStore, operations: Operations) {
    this.#store = store;
    this.#operations = operations;
    this.#unsubscribe = store.subscribe((event) => this.#observe(event));
    for (const object of store.all()) this.#enqueue(object);
    this.#schedule();
  }

  stop(): void {
    this.#stopped = true;
    this.#unsubscribe();
  }

  #observe(event: StoreEvent): void {
    if (event.type === "delete") {
      for (const dependent of this.#store.findDependents(event.object.metadata.uid)) this.#enqueue(dependent);
      const { namespace } = event.object.metadata;
      if (namespace !== undefined) this.#namespaces.add(namespace);
    } else {
      this.#enqueue(event.object);
    }
    this.#schedule();
  }

  #enqueue(object: StoredObject): void {
    if ((object.metadata.ownerReferences ?? []).length > 0) this.#queue.add(object.metadata.uid);
  }

  #schedule(): void {
    if (this.#scheduled || this.#stopped || (this.#queue.size === 0 && this.#namespaces.size === 0)) return;
    this.#scheduled = true;
    // Not in the same turn: the collector must never run inside another write.
    setImmediate(() => {
      this.#scheduled = false;
      if (!this.#stopped) this.#run();
    });
  }

  #run(): void {
    const uids = [...this.#queue];
    const namespaces = [...this.#namespaces];
    this.#queue.clear();
    this.#namespaces.clear();
    for (const uid of uids) {
      const object = this.#store.findByUid(uid);
      if (object !== undefined) this.#assess(object);
    }
    for (const namespace of namespaces) this.#operations.finishNamespace(namespace);
  }

  #assess(object: StoredObject): void {
    const owners = object.metadata.ownerReferences ?? [];
    const dead = owners.filter((owner) => !this.#isAlive(owner, object.metadata.namespace ?? ""));
    if (dead.length === 0) return;
    if (dead.length < owners.length) {
      this.#operations.disown(object, new Set(dead.map((owner) => owner.uid)));
    } else if (object.metadata.deletionTimestamp === undefined) {
      this.#operations.collect(object);
    }
  }

  #isAlive(owner: OwnerReference, namespace: string): boolean {
    const resource = findKind(owner.apiVersion, owner.kind);
    if (resource === undefined) return true;
    // An owner is looked for in the dependent's own namespace: references across namespaces are dead.
    const found = this.#store.get(resource, formatKey(resource.namespaced ? namespace : "", owner.name));
    return found?.metadata.uid === owner.uid;
  }
}
