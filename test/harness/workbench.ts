import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { createForwarder, type Forwarder } from "../../functions/forwarder/forwarder.ts";
import { createCluster } from "../../shared/cluster/cluster.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import { Fault } from "../../shared/domain/fault.ts";
import type { StageKey } from "../../shared/domain/identity.ts";
import { type ClusterPolicy, DEFAULT_POLICY } from "../../shared/domain/policy.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import { createLedger, type Ledger } from "../../shared/ledger/ledger.ts";
import { MESSAGE_KINDS, type Message, type MessageKind } from "../../shared/messages/schema.ts";
import { handleAbort, handleReverify, handleVerify } from "../../shared/operations/message.ts";
import { type SweepReport, sweepCluster } from "../../shared/operations/sweep.ts";
import type { World } from "../../shared/operations/world.ts";
import { MESSAGE_BACKOFF } from "../../shared/runtime/backoff.ts";
import { createBatchHandler, type Delivery } from "../../shared/runtime/batch.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import { silentLog, silentMeter } from "../../shared/runtime/telemetry.ts";
import type { RunningEngine } from "../engines/dynamodb-engines.ts";
import { createVirtualClock, type VirtualClock } from "../engines/virtual-clock.ts";
import { createVirtualQueue, type Disorder, type VirtualQueue } from "../engines/virtual-queue.ts";
import { createKargoActor, type KargoActor } from "./kargo-actor.ts";

export const PROJECT = "lighthouse";

/** Where the cluster is, once as Tallyman sees it and once as everybody else does. */
export interface Premises {
  readonly engine: RunningEngine;
  readonly cluster: string;
  readonly transport: KubernetesTransport;
  readonly others: KubernetesTransport;
  readonly disorder?: Disorder | undefined;
  readonly policy?: ClusterPolicy | undefined;
}

/**
 * The real forwarder, operations and ledger against a Kubernetes API and a DynamoDB engine. Only the queue is a
 * model, in virtual time, so that a test decides what is delivered when.
 */
export interface Workbench {
  readonly clock: VirtualClock;
  readonly queue: VirtualQueue;
  readonly ledger: Ledger;
  readonly world: World;
  readonly kargo: KargoActor;
  readonly forwarder: Forwarder;
  /** Delivers until nothing is left, going on in time over what is delayed; at most `maxMs` of virtual time. */
  drain(maxMs?: number): Promise<void>;
  /** Delivers what comes until `holds`; fails after `withinMs` of real time. */
  until(what: string, holds: () => Promise<boolean>, withinMs?: number): Promise<void>;
  sweep(): Promise<SweepReport>;
  /** A Stage's verifications, oldest first. */
  verifications(stage: string): Promise<Verification[]>;
  key(stage: string): StageKey;
  /** Replaces what handles messages, to break it on purpose. */
  wrap(kind: MessageKind, wrapper: (process: Process) => Process): void;
  stop(): Promise<void>;
}

export type Process = (message: Message, delivery: Delivery) => Promise<void>;

/** Assembles the parts and starts the forwarder. */
export function assembleWorkbench({
  engine,
  cluster,
  transport,
  others,
  disorder,
  policy = DEFAULT_POLICY,
}: Premises): Workbench {
  const clock = createVirtualClock();
  const api = createCluster(cluster, transport);
  const ledger = createLedger(engine.client, engine.table);
  const queue = createVirtualQueue(clock, cluster, disorder);
  const world: World = {
    ledger,
    clock,
    log: silentLog,
    meter: silentMeter,
    findPolicy: () => policy,
    findCluster(name) {
      if (name === cluster) return api;
      throw new Fault(
        "Invalid",
        `data.cluster: ${name} is none of this installation's clusters (${cluster})`,
      );
    },
  };
  const forwarder = createForwarder({
    cluster,
    policy,
    transport,
    queue,
    clock: systemClock,
    random: Math.random,
    log: silentLog,
    meter: silentMeter,
    loadOpen: async () => new Set((await ledger.listOpen(cluster)).items.map((v) => v.id)),
    reflector: { backoffBaseMs: 5, backoffCapMs: 20 },
  });
  const kargo = createKargoActor(others, PROJECT, clock);
  const stop = new AbortController();
  const work = forwarder.run(stop.signal);

  const keyOf = (message: Message): StageKey => {
    const { cluster: named = cluster, project, stage } = message.data;
    return { cluster: named, project, stage };
  };
  const processes: Record<MessageKind, Process> = {
    verify: (message, delivery) => handleVerify(world, keyOf(message), message, delivery),
    reverify: (message, delivery) => handleReverify(world, keyOf(message), message, delivery),
    abort: (message, delivery) => handleAbort(world, keyOf(message), message, delivery),
  };
  const handlers = Object.fromEntries(
    MESSAGE_KINDS.map((kind) => [
      kind,
      createBatchHandler({
        kind,
        process: (message, delivery) => processes[kind](message, delivery),
        queue,
        log: silentLog,
        meter: silentMeter,
        backoff: MESSAGE_BACKOFF,
        maxReceives: 20,
        random: () => 0.5,
      }),
    ]),
  ) as Record<MessageKind, (event: SQSEvent) => Promise<SQSBatchResponse>>;

  async function deliverAll(): Promise<boolean> {
    let any = false;
    for (let more = true; more; ) {
      more = false;
      for (const kind of MESSAGE_KINDS) {
        while (await queue.deliver(kind, handlers[kind])) {
          more = true;
          any = true;
        }
      }
    }
    return any;
  }

  async function drain(maxMs = 3_600_000): Promise<void> {
    const end = clock.now() + maxMs;
    for (;;) {
      await deliverAll();
      const next = queue.nextVisibleAt();
      if (next === undefined || next > end) return;
      clock.advance(Math.max(1, next - clock.now()));
    }
  }

  return {
    clock,
    queue,
    ledger,
    world,
    kargo,
    forwarder,
    drain,
    async until(what, holds, withinMs = 30_000) {
      const end = Date.now() + withinMs;
      for (;;) {
        await drain();
        if (await holds()) return;
        if (Date.now() > end) throw new Error(`did not come true within ${withinMs} ms: ${what}`);
        await systemClock.sleep(20);
      }
    },
    sweep: () => sweepCluster(world, cluster),
    async verifications(stage) {
      const page = await ledger.listHistory({ cluster, project: PROJECT, stage }, { limit: 1000 });
      return page.items
        .flatMap((entry) => (entry.kind === "verification" ? [entry.verification] : []))
        .sort((a, b) => a.createdAt - b.createdAt);
    },
    key: (stage) => ({ cluster, project: PROJECT, stage }),
    wrap(kind, wrapper) {
      processes[kind] = wrapper(processes[kind]);
    },
    async stop() {
      stop.abort();
      await work;
    },
  };
}
