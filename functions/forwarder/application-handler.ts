import type { ApplicationSnapshot } from "../../shared/cluster/application-reader.ts";
import type { Cluster } from "../../shared/cluster/cluster.ts";
import { buildMalformedEvent } from "../../shared/cluster/verification-events.ts";
import { isGlob } from "../../shared/domain/authorized-stages.ts";
import { isFault } from "../../shared/domain/fault.ts";
import type { Log, Meter } from "../../shared/runtime/telemetry.ts";
import {
  type ApplicationTrace,
  type createApplicationTraces,
  type KnownStage,
  planWakeUps,
  readNews,
} from "./application-trace.ts";
import type { Origin, Outgoing } from "./outgoing.ts";
import type { ReflectorEvent } from "./reflector.ts";

export interface ApplicationHandlerOptions {
  readonly origin: Origin;
  readonly cluster: Cluster;
  readonly traces: ReturnType<typeof createApplicationTraces>;
  /** Every Stage, where they have all been seen; undefined while they have not. */
  readonly known: () => readonly KnownStage[] | undefined;
  /** Every Stage, whatever it takes; asked only where a glob cannot do without. */
  readonly listStages: () => Promise<readonly KnownStage[]>;
  readonly log: Log;
  readonly meter: Meter;
}

/** Turns what happens to Applications into messages for the Stages that they name. */
export function createApplicationHandler(options: ApplicationHandlerOptions) {
  return async (
    events: readonly ReflectorEvent<ApplicationTrace>[],
    initial: boolean,
  ): Promise<Outgoing[]> => {
    const outgoing: Outgoing[] = [];
    for (const event of events) {
      if (event.type !== "added" && event.type !== "changed") continue;
      const application = options.traces.take(event.current);
      if (application === undefined) continue;
      const previous = event.type === "changed" ? event.previous : undefined;
      const news = readNews(application, previous, event.current, initial);
      if (news === undefined) continue;
      if (news.isNaming && news.stages.malformed.length > 0) {
        await report(options, application, news.stages.malformed);
      }
      if (!news.wakes) continue;
      const known =
        options.known() ?? (news.stages.patterns.some(isGlob) ? await options.listStages() : undefined);
      outgoing.push(...planWakeUps(options.origin, application, news.stages, known));
    }
    return outgoing;
  };
}

/** Tells of entries that cannot be used, on the Application, where its owner looks. */
async function report(
  { cluster, log, meter, origin }: ApplicationHandlerOptions,
  application: ApplicationSnapshot,
  malformed: readonly string[],
): Promise<void> {
  const { namespace, name } = application;
  meter.count("AuthorizedStagesMalformed", malformed.length);
  log.warn("an Application names Stages in a way that cannot be used", {
    cluster: cluster.name,
    namespace,
    name,
    malformed,
  });
  try {
    await cluster.createEvent(namespace, buildMalformedEvent(application, malformed, origin.now()));
  } catch (error) {
    if (!isFault(error)) throw error;
    log.warn("a Kubernetes Event could not be written", { namespace, name, reasons: error.reasons });
  }
}
