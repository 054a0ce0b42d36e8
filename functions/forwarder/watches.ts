import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import type { Checkpoint } from "../../shared/ledger/checkpoint.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Log, Meter } from "../../shared/runtime/telemetry.ts";
import {
  createReflector,
  type Reflector,
  type ReflectorConfig,
  type ReflectorOptions,
  type ReflectorTrouble,
} from "./reflector.ts";
import { Refusal } from "./refusal.ts";

/** What every watch of a cluster has in common. */
export interface WatchOptions {
  readonly cluster: string;
  readonly transport: KubernetesTransport;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  readonly meter: Meter;
  /** Where an earlier forwarder stopped; without it everything is listed first. */
  readonly checkpoint?: Checkpoint | undefined;
  readonly reflector?: ReflectorOptions;
}

/** A cluster may have no Argo CD, or not let us watch it; there is no hurry then. Milliseconds. */
const OPTIONAL_BACKOFF_CAP_MS = 300_000;

type Own<T> = Pick<ReflectorConfig<T>, "project" | "handler">;
type Watched<T> = Own<T> & Pick<ReflectorConfig<T>, "path" | "labelSelector">;

/** The two kinds of watch that a forwarder has, each going on from the checkpoint where there is one. */
export function createWatches(options: WatchOptions) {
  const { cluster, log, meter } = options;
  const tellTrouble = ({ during, fault, retryInMs }: ReflectorTrouble): void =>
    log.warn("the watch is interrupted", { cluster, during, retryInMs, reasons: fault.reasons });

  /** A resource without which a forwarder is no use. */
  function watch<T>(
    resource: string,
    config: Watched<T>,
    more: Partial<ReflectorConfig<T>> = {},
  ): Reflector<T> {
    const resourceVersion = options.checkpoint?.resourceVersions[resource];
    return createReflector({
      transport: options.transport,
      clock: options.clock,
      random: options.random,
      key: keyOf,
      ...(options.reflector === undefined ? {} : { options: options.reflector }),
      onInvalid(identity, error) {
        meter.count("ForwarderInvalidObjects");
        log.warn("an object cannot be used and is skipped", { cluster, identity, error });
      },
      onTrouble: tellTrouble,
      ...(resourceVersion === undefined ? {} : { resume: { resourceVersion } }),
      ...config,
      ...more,
    });
  }

  /** A resource of Argo's that a cluster may lack, or not let us watch. It is said once, and tried again now and then. */
  function watchOptional<T>(resource: string, config: Own<T>): Reflector<T> {
    let saidWhy = "";
    const path = `/apis/argoproj.io/v1alpha1/${resource}`;
    const backoffCapMs = options.reflector?.backoffCapMs ?? OPTIONAL_BACKOFF_CAP_MS;
    return watch(
      resource,
      { ...config, path },
      {
        options: { ...options.reflector, backoffCapMs },
        onTrouble(trouble) {
          const why = trouble.fault.message;
          if (!(trouble.fault instanceof Refusal)) return tellTrouble(trouble);
          if (why !== saidWhy) log.info("a resource is not watched for now", { cluster, resource, why });
          saidWhy = why;
        },
      },
    );
  }

  return { watch, watchOptional };
}

/** `namespace/name`; the namespace is empty for objects of the cluster. */
export function keyOf(object: unknown): string {
  const { metadata } = object as { metadata: { namespace?: string; name: string } };
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}
