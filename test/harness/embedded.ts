import { randomUUID } from "node:crypto";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SQSClient } from "@aws-sdk/client-sqs";
import { runSession } from "../../functions/forwarder/session.ts";
import { wireSession } from "../../functions/forwarder/wiring.ts";
import { type ClusterWriter, createClusterWriter } from "../../local/demo/cluster-writer.ts";
import { createPromoter, type FreightChoice, type Promoted } from "../../local/demo/promotions.ts";
import { startDynamoDb } from "../../local/dynamodb.ts";
import { buildEnvironment, LOCAL_REGION, type LogLevel } from "../../local/environment.ts";
import { startFunctions } from "../../local/functions.ts";
import { createLedgerTable } from "../../local/ledger-table.ts";
import { startQueueServer } from "../../local/queue-server.ts";
import { createQueues } from "../../local/queues.ts";
import type { Faults } from "../../local/sandbox/faults.ts";
import { SANDBOX_PLUGIN } from "../../local/sandbox/rollouts/providers.ts";
import { startRolloutsController } from "../../local/sandbox/rollouts-controller.ts";
import { type SandboxCluster, startSandboxCluster } from "../../local/sandbox/sandbox-cluster.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { deriveVerificationId, type StageKey } from "../../shared/domain/identity.ts";
import { isTerminal, type Phase } from "../../shared/domain/phase.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import { createLedger, type Ledger } from "../../shared/ledger/ledger.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { MessageData, MessageKind } from "../../shared/messages/schema.ts";
import { createMessageQueue, type MessageQueue, type QueueUrls } from "../../shared/queue/message-queue.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import { readConfiguration } from "../../shared/runtime/configuration.ts";
import { silentLog, silentMeter } from "../../shared/runtime/telemetry.ts";
import { createKargoActor, type KargoActor } from "./kargo-actor.ts";

export interface EmbeddedOptions {
  /** Default `lighthouse`. */
  readonly project?: string;
  /** How much faster than written the simulated Argo Rollouts is; false leaves AnalysisRuns to the test. Default 1. */
  readonly rollouts?: number | false;
  /** False sends nothing that the test does not send. */
  readonly forwarder?: boolean;
  /** Milliseconds; default an hour, so that no sweep hides what an event should have done. */
  readonly sweepEveryMs?: number;
  /** Default: nothing is logged. */
  readonly logLevel?: LogLevel;
}

/** The whole product over real sockets: embedded engines, the very Lambda handlers, the forwarder. */
export interface Embedded {
  readonly cluster: string;
  readonly project: string;
  readonly ledger: Ledger;
  readonly queue: MessageQueue;
  readonly queues: Readonly<Record<MessageKind, QueueUrls>>;
  readonly sqs: SQSClient;
  readonly dynamoDb: DynamoDBClient;
  readonly sandbox: SandboxCluster;
  /** Ways to break the API server. */
  readonly faults: Faults;
  readonly transport: KubernetesTransport;
  readonly writer: ClusterWriter;
  /** Creates Stages, templates and Freight, and plays the other parts. */
  readonly kargo: KargoActor;
  key(stage: string): StageKey;
  /** One piece of Freight reaches a Stage, as Kargo writes it; what other Warehouses brought stays. */
  promote(stage: string, freight: FreightChoice): Promise<Promoted & { readonly verificationId: string }>;
  /** Puts a message on its queue, as any producer could. Returns its id. */
  send(kind: MessageKind, stage: string, data?: Partial<MessageData>): Promise<string>;
  /** Invokes the sweeper's handler. */
  sweep(): Promise<unknown>;
  /** Looks again and again until `probe` finds something; fails with what it saw last. Default within 15 s. */
  waitFor<T>(what: string, probe: () => Promise<T | undefined>, withinMs?: number): Promise<T>;
  /** Waits for a phase, or for any terminal one. */
  waitForPhase(
    stage: string,
    id: string,
    phase: Phase | "terminal",
    withinMs?: number,
  ): Promise<Verification>;
  /** A Stage's verifications, oldest first. */
  verifications(stage: string): Promise<readonly Verification[]>;
  stop(): Promise<void>;
}

const CLUSTER = "harbour";
const TABLE = "tallyman-test";
const LOOK_EVERY_MS = 10;

/**
 * Starts it on random ports of 127.0.0.1, all in this process. The handlers configure themselves when they are
 * imported, from an environment that is set here: one installation a test file.
 */
export async function startEmbedded(options: EmbeddedOptions = {}): Promise<Embedded> {
  const { project = "lighthouse", rollouts = 1, sweepEveryMs = 3_600_000 } = options;
  const [database, queueServer, sandbox] = await Promise.all([
    startDynamoDb(),
    startQueueServer(),
    startSandboxCluster({ bookmarkIntervalMs: 500 }),
  ]);
  const connection = {
    region: LOCAL_REGION,
    credentials: { accessKeyId: "local", secretAccessKey: "local" },
  };
  const dynamoDb = new DynamoDBClient({ ...connection, endpoint: database.endpoint });
  const sqs = new SQSClient({ ...connection, endpoint: queueServer.endpoint });
  await createLedgerTable(dynamoDb, TABLE);
  const queues = await createQueues(sqs, "tallyman-test");

  Object.assign(
    process.env,
    buildEnvironment({
      table: TABLE,
      dynamoDbEndpoint: database.endpoint,
      sqsEndpoint: queueServer.endpoint,
      queues,
      clusters: [{ name: CLUSTER, server: sandbox.url }],
      logLevel: options.logLevel ?? "error",
    }),
    { TALLYMAN_BACKOFF_BASE_SECONDS: "0.1", TALLYMAN_BACKOFF_CAP_SECONDS: "1" },
    options.logLevel === undefined ? { POWERTOOLS_LOG_LEVEL: "SILENT" } : {},
  );
  const functions = await startFunctions({ log: silentLog, sweepEveryMs, concurrency: 4, waitSeconds: 1 });
  const controller =
    rollouts === false ? undefined : startRolloutsController({ url: sandbox.url, speed: rollouts });
  const stopForwarder = new AbortController();
  const forwarding =
    options.forwarder === false
      ? undefined
      : runSession(
          {
            ...wireSession(readConfiguration(process.env), CLUSTER, silentLog, silentMeter),
            resume: false,
            exclusive: false,
            reflector: { backoffBaseMs: 10, backoffCapMs: 200 },
          },
          stopForwarder.signal,
        );

  const transport = createTransport({ server: sandbox.url });
  const writer = createClusterWriter(transport);
  const ledger = createLedger(dynamoDb, TABLE);
  const queue = createMessageQueue(sqs, queues, CLUSTER);
  const kargo = createKargoActor(transport, project, systemClock);
  await kargo.createProject();
  const promoter = createPromoter({ writer, project, now: Date.now, random: Math.random });
  const key = (stage: string): StageKey => ({ cluster: CLUSTER, project, stage });

  async function waitFor<T>(
    what: string,
    probe: () => Promise<T | undefined>,
    withinMs = 15_000,
    describe: () => unknown = () => "nothing",
  ): Promise<T> {
    const end = performance.now() + withinMs;
    for (;;) {
      const found = await probe();
      if (found !== undefined) return found;
      if (performance.now() > end) {
        throw new Error(`not within ${withinMs} ms: ${what}; seen last: ${JSON.stringify(describe())}`);
      }
      await systemClock.sleep(LOOK_EVERY_MS);
    }
  }

  return {
    cluster: CLUSTER,
    project,
    ledger,
    queue,
    queues,
    sqs,
    dynamoDb,
    sandbox,
    faults: sandbox.faults,
    transport,
    writer,
    kargo,
    key,
    waitFor,
    async promote(stage, freight) {
      const promoted = await promoter.promote(stage, freight);
      const { collectionId, promotion, stageUid } = promoted;
      const verificationId = deriveVerificationId({ kind: "promotion", promotion }, stageUid, collectionId);
      return { ...promoted, verificationId };
    },
    async send(kind, stage, data = {}) {
      const id = randomUUID();
      const envelope = { id, source: "/tallyman/test", time: new Date() };
      await queue.send(kind, [buildMessage(kind, envelope, { ...key(stage), ...data })]);
      return id;
    },
    sweep: () => functions.sweep(),
    async waitForPhase(stage, id, phase, withinMs) {
      let seen: Verification | undefined;
      return waitFor(
        `verification ${id} of Stage ${stage} is ${phase}`,
        async () => {
          seen = (await ledger.readVerification(key(stage), id))?.verification;
          if (seen === undefined) return undefined;
          return seen.phase === phase || (phase === "terminal" && isTerminal(seen.phase)) ? seen : undefined;
        },
        withinMs,
        () => seen,
      );
    },
    async verifications(stage) {
      const page = await ledger.listHistory(key(stage), { limit: 1000 });
      return page.items
        .flatMap((entry) => (entry.kind === "verification" ? [entry.verification] : []))
        .sort((a, b) => a.createdAt - b.createdAt);
    },
    async stop() {
      // While the API server is still well: whoever waits for an answer of it would else wait for its time-out.
      sandbox.faults.clear();
      stopForwarder.abort();
      await Promise.all([forwarding, controller?.stop(), functions.stop()]);
      transport.close();
      dynamoDb.destroy();
      sqs.destroy();
      await Promise.all([sandbox.stop(), queueServer.stop(), database.stop()]);
    },
  };
}

/** An AnalysisTemplate's spec whose measurements come out as listed, one after the other at once. */
export function scriptedSpec(outcomes: readonly string[], more: object = {}): Record<string, unknown> {
  return {
    metrics: [
      {
        name: "probe",
        count: outcomes.length,
        interval: "1s",
        provider: { plugin: { [SANDBOX_PLUGIN]: { outcomes, ...more } } },
      },
    ],
  };
}
