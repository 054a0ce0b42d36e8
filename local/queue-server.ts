import { findPackageJSON } from "node:module";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildAppOptions, buildApp } from "fauxqs";

export interface QueueServerOptions {
  /** On 127.0.0.1; 0 (default) takes any that is free. */
  readonly port?: number;
  /** Folder of the data; in memory when absent. */
  readonly path?: string;
}

export interface RunningQueueServer {
  readonly endpoint: string;
  stop(): Promise<void>;
}

type SqsStore = NonNullable<BuildAppOptions["stores"]>["sqsStore"];

/** What we use of fauxqs' own persistence. */
interface Persistence {
  readonly db: { exec(sql: string): void; prepare(sql: string): { run(...values: unknown[]): unknown } };
  loadSqsAndSns(sqs: SqsStore, sns: object): void;
  updateMessageReady(messageId: string): void;
  close(): void;
}

/**
 * Starts the embedded SQS API, on loopback only. With a path, a message is on disk before its sender hears that
 * it was accepted, so neither a stop nor a crash of the stack loses one.
 *
 * `startFauxqs` would do most of this, but it listens on all interfaces whatever one asks for (2.4.1). So its
 * parts are put together here; they are not exported, which is why the version is pinned and the tests look.
 */
export async function startQueueServer(options: QueueServerOptions = {}): Promise<RunningQueueServer> {
  const parts = await loadParts();
  const store = new parts.SqsStore();
  // Queue URLs then carry the address that a request came to, not `sqs.REGION.localhost`.
  store.host = "";
  const persistence = options.path === undefined ? undefined : openPersistence(parts, options.path, store);
  const stores = { sqsStore: store } as NonNullable<BuildAppOptions["stores"]>;
  const app = buildApp({ logger: false, stores });
  app.addHook("onSend", async (request, _reply, payload) => {
    if (request.headers["x-amz-target"] === "AmazonSQS.ReceiveMessage" && request.raw.socket.destroyed) {
      giveBack(store, request.body as { QueueUrl: string }, String(payload));
    }
    return payload;
  });
  await app.listen({ port: options.port ?? 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    async stop() {
      await app.close();
      persistence?.close();
    },
  };
}

/**
 * A worker that dies leaves its long poll behind, and the next message would go to nobody and be gone for a whole
 * visibility timeout. What is received for a connection that is closed goes back at once.
 */
function giveBack(store: SqsStore, { QueueUrl }: { readonly QueueUrl: string }, answer: string): void {
  const { Messages: messages = [] } = JSON.parse(answer) as { Messages?: { ReceiptHandle: string }[] };
  for (const message of messages.reverse()) {
    store.getQueue(QueueUrl)?.changeVisibility(message.ReceiptHandle, 0);
  }
}

interface Parts {
  readonly SqsStore: new () => SqsStore;
  readonly SnsStore: new () => object;
  readonly PersistenceManager: new (folder: string) => Persistence;
}

async function loadParts(): Promise<Parts> {
  const manifest = findPackageJSON("fauxqs", import.meta.url);
  if (manifest === undefined) throw new Error("the package fauxqs is not installed; run: npm ci");
  const load = (file: string): Promise<Partial<Parts>> =>
    import(pathToFileURL(join(dirname(manifest), "dist", file)).href);
  const [{ SqsStore }, { SnsStore }, { PersistenceManager }] = await Promise.all([
    load("sqs/sqsStore.js"),
    load("sns/snsStore.js"),
    load("persistence.js"),
  ]);
  if (SqsStore === undefined || SnsStore === undefined || PersistenceManager === undefined) {
    throw new Error(`${manifest}: this version of fauxqs is built differently; 2.4.1 is expected`);
  }
  return { SqsStore, SnsStore, PersistenceManager };
}

function openPersistence(parts: Parts, path: string, store: SqsStore): Persistence {
  const persistence = new parts.PersistenceManager(path);
  // A crash of the process loses nothing with this either, and a write costs no fsync.
  persistence.db.exec("PRAGMA synchronous = NORMAL");
  // Its own statement breaks a NOT NULL constraint, and the message that was to be visible again is lost (2.4.1).
  const release = persistence.db.prepare(
    "UPDATE sqs_messages SET receipt_handle = NULL, visibility_deadline = NULL WHERE message_id = ?",
  );
  persistence.updateMessageReady = (messageId) => void release.run(messageId);
  persistence.loadSqsAndSns(store, new parts.SnsStore());
  const internals = store as unknown as {
    persistence: Persistence;
    allQueues(): Iterable<{ persistence: Persistence }>;
  };
  internals.persistence = persistence;
  for (const queue of internals.allQueues()) queue.persistence = persistence;
  return persistence;
}
