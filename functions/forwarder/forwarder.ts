import { STAGE_LABEL } from "../../shared/cluster/annotations.ts";
import { createCluster } from "../../shared/cluster/cluster.ts";
import type { ClusterPolicy } from "../../shared/domain/policy.ts";
import type { MessageQueue } from "../../shared/queue/message-queue.ts";
import { createApplicationHandler } from "./application-handler.ts";
import { type ApplicationTrace, createApplicationTraces, type KnownStage } from "./application-trace.ts";
import { coalesce, type Origin, type Outgoing, sendAll } from "./outgoing.ts";
import type { Reflector, ReflectorEvent } from "./reflector.ts";
import { createRunTraces, planRunDeletion, planRunMessage } from "./run-trace.ts";
import { createStageDirectory } from "./stage-directory.ts";
import { createStageTraces, planStageMessages, type StageTrace } from "./stage-trace.ts";
import { planTemplateMessages, type TemplateTrace, traceTemplate } from "./template-trace.ts";
import { createWatches, keyOf, type WatchOptions } from "./watches.ts";

export interface ForwarderOptions extends WatchOptions {
  readonly policy: ClusterPolicy;
  readonly queue: MessageQueue;
  /** Ids of the verifications that the ledger has open now; asked anew for each page of the first list of runs. */
  readonly loadOpen: () => Promise<ReadonlySet<string>>;
}

export interface Forwarder {
  /** Works until the signal is aborted. @throws what a handler threw that is not a passing fault. */
  run(signal: AbortSignal): Promise<void>;
  /** By resource: everything up to here has been accepted by SQS. Grows only. */
  resourceVersions(): Record<string, string>;
  /** When each resource's watch last showed a sign of life; for liveness probes and metrics. */
  lastActivity(): Record<string, number | undefined>;
  /** True once every resource has been listed or resumed. */
  isSynced(): boolean;
}

const STAGES = "stages";
const RUNS = "analysisruns";
const APPLICATIONS = "applications";
const TEMPLATES = {
  analysistemplates: "AnalysisTemplate",
  clusteranalysistemplates: "ClusterAnalysisTemplate",
} as const;
type TemplateResource = keyof typeof TEMPLATES;
const STAGES_PATH = "/apis/kargo.akuity.io/v1alpha1/stages";
const NONE: ReadonlySet<string> = new Set();

/**
 * Turns what changes in a cluster into messages. One reflector a resource; each hands over its changes in order and
 * waits until SQS has accepted what they ask for before it advances.
 */
export function createForwarder(options: ForwarderOptions): Forwarder {
  const { clock, log, meter } = options;
  const origin: Origin = {
    cluster: options.cluster,
    source: `tallyman/forwarder/${options.cluster}`,
    now: () => new Date(clock.now()),
  };
  let signal = AbortSignal.abort();

  async function forward(outgoing: readonly Outgoing[]): Promise<void> {
    const messages = coalesce(outgoing);
    if (messages.length === 0) return;
    await sendAll(messages, { queue: options.queue, clock, random: options.random, log, signal });
    meter.count("ForwarderMessages", messages.length);
    log.info("messages sent", { cluster: options.cluster, count: messages.length });
  }

  /** True until the first complete list; a resumed watch has no such list. */
  const listing: Record<string, boolean> = {
    [STAGES]: options.checkpoint === undefined,
    [RUNS]: options.checkpoint === undefined,
  };
  for (const resource of [APPLICATIONS, ...Object.keys(TEMPLATES)]) {
    listing[resource] = options.checkpoint?.resourceVersions[resource] === undefined;
  }

  function noteSynced(resource: string, events: readonly ReflectorEvent<unknown>[]): void {
    if (events.some((event) => event.type === "synced")) listing[resource] = false;
  }

  const stageTraces = createStageTraces(options.policy);
  async function handleStages(
    events: readonly ReflectorEvent<ReturnType<typeof stageTraces.project>>[],
  ): Promise<void> {
    const outgoing: Outgoing[] = [];
    for (const event of events) {
      if (event.type !== "added" && event.type !== "changed") continue;
      const stage = stageTraces.take(event.current);
      if (stage === undefined) continue;
      const previous = event.type === "changed" ? event.previous : undefined;
      outgoing.push(
        ...planStageMessages(
          origin,
          stage,
          previous,
          event.current,
          listing[STAGES] === true,
          options.policy,
        ),
      );
    }
    await forward(outgoing);
    noteSynced(STAGES, events);
  }

  const runTraces = createRunTraces();
  async function handleRuns(
    events: readonly ReflectorEvent<ReturnType<typeof runTraces.project>>[],
  ): Promise<void> {
    const outgoing: (Outgoing | undefined)[] = [];
    // Asked after the page was read: a list may come long after the start, and what has begun meanwhile is open too.
    const open = listing[RUNS] ? await options.loadOpen() : NONE;
    for (const event of events) {
      if (event.type === "deleted") {
        outgoing.push(planRunDeletion(origin, event.previous, event.resourceVersion));
      } else if (event.type === "added" || event.type === "changed") {
        const run = runTraces.take(event.current);
        const previous = event.type === "changed" ? event.previous : undefined;
        if (run !== undefined) {
          outgoing.push(
            planRunMessage(
              origin,
              run,
              previous,
              listing[RUNS] === true,
              (id) => open.has(id),
              options.policy,
            ),
          );
        }
      }
    }
    await forward(outgoing.filter((each) => each !== undefined));
    noteSynced(RUNS, events);
  }

  const applicationTraces = createApplicationTraces();
  const toKnownStage = (key: string, { isRegular, templates }: StageTrace): KnownStage => {
    const [project = "", name = ""] = key.split("/");
    return { project, name, isRegular, templates };
  };
  const directory = createStageDirectory({
    transport: options.transport,
    path: STAGES_PATH,
    clock,
    random: options.random,
    read: (object) => {
      try {
        return toKnownStage(keyOf(object), stageTraces.project(object));
      } catch {
        return undefined; // Told of by the reflector.
      }
    },
  });
  /** Every Stage, where they have all been seen. */
  const knownStages = (): KnownStage[] | undefined =>
    stages.state().complete
      ? [...stages.entries()].map(([key, trace]) => toKnownStage(key, trace))
      : undefined;
  const planApplications = createApplicationHandler({
    origin,
    cluster: createCluster(options.cluster, options.transport),
    traces: applicationTraces,
    known: knownStages,
    listStages: () => directory.list(signal),
    log,
    meter,
  });
  async function handleApplications(events: readonly ReflectorEvent<ApplicationTrace>[]): Promise<void> {
    await forward(await planApplications(events, listing[APPLICATIONS] === true));
    noteSynced(APPLICATIONS, events);
  }

  async function handleTemplates(
    resource: TemplateResource,
    events: readonly ReflectorEvent<TemplateTrace>[],
  ): Promise<void> {
    const changes = events.filter((event) => event.type === "changed" || event.type === "added");
    if (listing[resource] !== true && changes.length > 0) {
      const users = knownStages() ?? (await directory.list(signal));
      const all = templates.flatMap(({ reflector }) => [...reflector.entries()].map(([, trace]) => trace));
      await forward(changes.flatMap(({ current }) => planTemplateMessages(origin, current, all, users)));
    }
    noteSynced(resource, events);
  }

  const { watch, watchOptional } = createWatches(options);
  const stages = watch(STAGES, {
    path: STAGES_PATH,
    project: stageTraces.project,
    handler: handleStages,
  });
  const runs = watch(RUNS, {
    path: "/apis/argoproj.io/v1alpha1/analysisruns",
    labelSelector: STAGE_LABEL,
    project: runTraces.project,
    handler: handleRuns,
  });
  const applications = watchOptional(APPLICATIONS, {
    project: applicationTraces.project,
    handler: handleApplications,
  });
  const templates = (Object.keys(TEMPLATES) as TemplateResource[]).map((resource) => ({
    resource,
    reflector: watchOptional(resource, {
      project: (object) => traceTemplate(TEMPLATES[resource], object),
      handler: (events) => handleTemplates(resource, events),
    }),
  }));
  /** Without these a forwarder is no use. */
  const needed: Record<string, Reflector<unknown>> = { [STAGES]: stages, [RUNS]: runs };
  const reflectors: Record<string, Reflector<unknown>> = { ...needed, [APPLICATIONS]: applications };
  for (const { resource, reflector } of templates) reflectors[resource] = reflector;

  return {
    async run(until) {
      signal = until;
      // One that fails must stop the other: half a forwarder would look alive.
      const failure = new AbortController();
      const both = AbortSignal.any([until, failure.signal]);
      await Promise.all(
        Object.values(reflectors).map((reflector) =>
          reflector.run(both).catch((error: unknown) => {
            failure.abort();
            if (!until.aborted) throw error;
          }),
        ),
      );
    },
    resourceVersions() {
      const versions: Record<string, string> = { ...options.checkpoint?.resourceVersions };
      for (const [resource, reflector] of Object.entries(reflectors)) {
        const { resourceVersion } = reflector.state();
        if (resourceVersion !== undefined) versions[resource] = resourceVersion;
      }
      return versions;
    },
    lastActivity: () =>
      Object.fromEntries(
        Object.entries(needed).map(([resource, reflector]) => [resource, reflector.state().lastActivityAt]),
      ),
    isSynced: () => Object.values(needed).every((reflector) => reflector.state().synced),
  };
}
