import { type ApiError, type Status, tooOld } from "./api-status.ts";
import type { StoreEvent } from "./event-log.ts";
import type { ObjectStore } from "./object-store.ts";
import type { StoredObject } from "./objects.ts";
import { formatApiVersion, type ResourceKind } from "./resources.ts";
import type { Matches } from "./selectors.ts";

/** Where a watch's frames go: one JSON text a line. */
export interface WatchSink {
  /** False when the reader is behind; `onDrain` tells when to go on. */
  write(frame: string): boolean;
  onDrain(resume: () => void): void;
  end(): void;
  /** Breaks the connection without an end. */
  destroy(): void;
}

export interface WatchRequest {
  readonly resource: ResourceKind;
  readonly matches: Matches;
  /** `undefined`: begin with what exists now, as ADDED events. */
  readonly from: number | undefined;
  readonly bookmarks: boolean;
  /** A bookmark that says where the initial ADDED events end (`sendInitialEvents`). */
  readonly markInitialEnd: boolean;
  /** What an event's object is sent as; `kubectl get -w` asks for one-row Tables. */
  readonly format: (object: StoredObject, isFirst: boolean) => string;
}

/** All open watches. Each has a cursor in the event log and is pushed on by every write. */
export class WatchHub {
  readonly #store: ObjectStore;
  readonly #watches = new Set<Watch>();
  readonly #unsubscribe: () => void;
  readonly #bookmarks: NodeJS.Timeout;
  #stalled = false;

  constructor(store: ObjectStore, bookmarkIntervalMs: number) {
    this.#store = store;
    this.#unsubscribe = store.subscribe(() => this.#pump());
    this.#bookmarks = setInterval(() => this.sendBookmarks(), bookmarkIntervalMs);
    this.#bookmarks.unref();
  }

  get size(): number {
    return this.#watches.size;
  }

  /** Starts a watch; the answer stops it. A resourceVersion that is too old comes as an ERROR event. */
  open(request: WatchRequest, sink: WatchSink): { finish(): void; forget(): void } {
    const watch = new Watch(this.#store, request, sink, () => this.#watches.delete(watch));
    this.#watches.add(watch);
    // Starts it, unless all watches are to be silent.
    watch.stall(this.#stalled);
    return {
      /** The time is up: a last bookmark saves the client from starting over. */
      finish: () => {
        watch.bookmark();
        watch.end();
      },
      forget: () => this.#watches.delete(watch),
    };
  }

  sendBookmarks(): void {
    for (const watch of this.#watches) watch.bookmark();
  }

  /** Watches stay open and say nothing, until they are let go on. */
  stall(on: boolean): void {
    this.#stalled = on;
    for (const watch of this.#watches) watch.stall(on);
  }

  /** Breaks every watch's connection. */
  drop(): void {
    for (const watch of this.#watches) watch.drop();
  }

  /** Ends every watch with the ERROR event that a compaction makes. */
  expire(): void {
    for (const watch of this.#watches) watch.fail(tooOld(watch.cursor, this.#store.resourceVersion));
  }

  stop(): void {
    clearInterval(this.#bookmarks);
    this.#unsubscribe();
    for (const watch of this.#watches) watch.end();
  }

  #pump(): void {
    for (const watch of this.#watches) watch.pump();
  }
}

class Watch {
  readonly #store: ObjectStore;
  readonly #request: WatchRequest;
  readonly #sink: WatchSink;
  readonly #onClose: () => void;
  #stalled = false;
  #blocked = false;
  #closed = false;
  #started = false;
  #isFirst = true;
  cursor: number;

  constructor(store: ObjectStore, request: WatchRequest, sink: WatchSink, onClose: () => void) {
    this.#store = store;
    this.#request = request;
    this.#sink = sink;
    this.#onClose = onClose;
    this.cursor = request.from ?? store.resourceVersion;
  }

  /** Sends what exists, if that was asked for. A stalled watch starts when it is let go on. */
  start(): void {
    if (this.#started || this.#stalled || this.#closed) return;
    this.#started = true;
    const { resource, matches, from, markInitialEnd } = this.#request;
    if (from === undefined) this.cursor = this.#store.resourceVersion;
    if (from === undefined) {
      for (const object of this.#store.snapshot(resource)) {
        if (matches(object)) this.#send("ADDED", object);
      }
    }
    if (markInitialEnd) this.#sendBookmark({ "k8s.io/initial-events-end": "true" });
    this.pump();
  }

  /** Sends what was written since the cursor, as far as the reader keeps up. */
  pump(): void {
    if (!this.#started || this.#closed || this.#stalled || this.#blocked) return;
    const { log, resourceVersion } = this.#store;
    // A reader so slow that the log ran past it has missed events for good.
    if (!log.reaches(this.cursor)) {
      this.fail(tooOld(this.cursor, log.compactedAt));
      return;
    }
    for (const event of log.after(this.cursor)) {
      this.cursor = event.resourceVersion;
      if (event.resource === this.#request.resource) this.#offer(event);
      if (this.#blocked) return;
    }
    this.cursor = Math.max(this.cursor, resourceVersion);
  }

  bookmark(): void {
    if (!this.#started || this.#closed || this.#stalled || this.#blocked) return;
    if (!this.#request.bookmarks) return;
    this.#sendBookmark();
  }

  stall(on: boolean): void {
    this.#stalled = on;
    if (!on) this.start();
    this.pump();
  }

  fail(error: ApiError): void {
    if (this.#closed) return;
    this.#write(formatFrame("ERROR", JSON.stringify(error.status satisfies Status)));
    this.end();
  }

  end(): void {
    if (this.#closed) return;
    this.#close();
    this.#sink.end();
  }

  drop(): void {
    if (this.#closed) return;
    this.#close();
    this.#sink.destroy();
  }

  #close(): void {
    this.#closed = true;
    this.#onClose();
  }

  /** A change into the selector is ADDED, one out of it DELETED, whatever the write itself was. */
  #offer(event: StoreEvent): void {
    const { matches } = this.#request;
    const was = event.previous !== undefined && matches(event.previous);
    const is = event.type !== "delete" && matches(event.object);
    if (is) {
      this.#send(was ? "MODIFIED" : "ADDED", event.object);
    } else if (was && event.previous !== undefined) {
      // The state that the watcher knew, at the version of the change.
      const { resourceVersion } = event.object.metadata;
      const last = event.type === "delete" ? event.object : event.previous;
      this.#send("DELETED", { ...last, ...typed(last), metadata: { ...last.metadata, resourceVersion } });
    }
  }

  #send(type: string, object: StoredObject): void {
    this.#write(formatFrame(type, this.#request.format(object, this.#isFirst)));
    this.#isFirst = false;
  }

  #sendBookmark(annotations?: Readonly<Record<string, string>>): void {
    const { resource } = this.#request;
    const object = {
      kind: resource.kind,
      apiVersion: formatApiVersion(resource),
      metadata: {
        resourceVersion: String(this.cursor),
        creationTimestamp: null,
        ...(annotations === undefined ? {} : { annotations }),
      },
    };
    this.#write(formatFrame("BOOKMARK", JSON.stringify(object)));
  }

  #write(frame: string): void {
    if (this.#sink.write(frame)) return;
    this.#blocked = true;
    this.#sink.onDrain(() => {
      this.#blocked = false;
      this.pump();
    });
  }
}

function typed(object: StoredObject): { apiVersion: string; kind: string } {
  return { apiVersion: object.apiVersion, kind: object.kind };
}

function formatFrame(type: string, object: string): string {
  return `{"type":"${type}","object":${object}}\n`;
}
