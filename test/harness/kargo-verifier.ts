import { readStage } from "../../shared/cluster/stage-reader.ts";
import type { KubernetesTransport } from "../../shared/cluster/transport.ts";
import type { Clock } from "../../shared/runtime/clock.ts";

type Json = Record<string, unknown>;

interface Entry {
  readonly id: string;
  readonly phase: string;
  readonly actor?: string;
  readonly message?: string;
  readonly startTime?: string;
  readonly finishTime?: string;
  readonly analysisRun?: { readonly name: string; readonly namespace: string; readonly phase: string };
}

interface StageObject {
  readonly metadata: { readonly resourceVersion: string };
  readonly status: {
    readonly freightHistory: readonly {
      readonly id: string;
      readonly verificationHistory?: readonly Entry[];
    }[];
    readonly lastPromotion?: { readonly name: string };
  };
}

const TERMINAL = ["Successful", "Failed", "Error", "Aborted", "Inconclusive"];

/**
 * Kargo's own verifier, as far as somebody beside it can tell: ids of its own, one run at a time, only the newest
 * verification of the current Freight is followed, an abort is entered as `Failed` at once, annotations stay for ever.
 */
export interface KargoVerifier {
  /** One reconcile pass over a Stage. */
  reconcile(stage: string): Promise<void>;
}

export function createKargoVerifier(
  transport: KubernetesTransport,
  project: string,
  clock: Clock,
): KargoVerifier {
  let runs = 0;
  let ids = 0;
  const stagePath = (name: string) => `/apis/kargo.akuity.io/v1alpha1/namespaces/${project}/stages/${name}`;
  const runPath = `/apis/argoproj.io/v1alpha1/namespaces/${project}/analysisruns`;
  const now = () => new Date(clock.now()).toISOString();

  async function send(method: "GET" | "POST" | "PATCH", path: string, body?: unknown): Promise<Json> {
    const response = await transport.request({ method, path, ...(body === undefined ? {} : { body }) });
    if (response.status >= 300) throw new Error(`${method} ${path}: ${response.status}`);
    return response.body as Json;
  }

  async function push(name: string, stage: StageObject, entry: Entry): Promise<void> {
    const [current, ...older] = stage.status.freightHistory;
    const entries = current?.verificationHistory ?? [];
    const known = entries.some((each) => each.id === entry.id);
    const verificationHistory = known
      ? entries.map((each) => (each.id === entry.id ? entry : each))
      : [entry, ...entries].slice(0, 10);
    await send("PATCH", `${stagePath(name)}/status`, {
      status: { freightHistory: [{ ...current, verificationHistory }, ...older] },
    });
  }

  async function start(name: string, stage: StageObject, actor: string | undefined): Promise<void> {
    const collection = stage.status.freightHistory[0]?.id ?? "";
    const run = `${name}.01jd${String(++runs).padStart(22, "0")}.${collection.slice(0, 7)}`;
    await send("POST", runPath, {
      apiVersion: "argoproj.io/v1alpha1",
      kind: "AnalysisRun",
      metadata: {
        name: run,
        labels: { "kargo.akuity.io/stage": name, "kargo.akuity.io/freight-collection": collection },
        annotations: { "kargo.akuity.io/promotion": stage.status.lastPromotion?.name ?? "" },
      },
      spec: { metrics: [] },
    });
    await push(name, stage, {
      // Kargo's are random; the same story has to have the same ones.
      id: `00000000-0000-4000-8000-${String(++ids).padStart(12, "0")}`,
      phase: "Pending",
      startTime: now(),
      finishTime: now(), // As it is: even what is pending has one.
      ...(actor === undefined ? {} : { actor }),
      analysisRun: { name: run, namespace: project, phase: "" },
    });
  }

  return {
    async reconcile(name) {
      const object = await send("GET", stagePath(name));
      const stage = object as unknown as StageObject;
      const { abort, reverify, currentPromotion, health } = readStage(object);
      const [current] = stage.status.freightHistory ?? [];
      if (current === undefined || currentPromotion !== undefined) return;
      const newest = current.verificationHistory?.[0];
      if (newest !== undefined && !TERMINAL.includes(newest.phase)) {
        if (abort?.id === newest.id) {
          await send("PATCH", `${runPath}/${newest.analysisRun?.name}`, { spec: { terminate: true } });
          await push(name, stage, {
            ...newest,
            phase: "Failed",
            message: "Verification aborted by user",
            finishTime: now(),
          });
          return;
        }
        const run = (await send("GET", `${runPath}/${newest.analysisRun?.name}`)) as {
          status?: { phase?: string; message?: string; completedAt?: string };
        };
        const { phase = "", message, completedAt } = run.status ?? {};
        await push(name, stage, {
          ...newest,
          phase,
          ...(message === undefined ? {} : { message }),
          ...(completedAt === undefined ? {} : { finishTime: completedAt }),
          analysisRun: { name: newest.analysisRun?.name ?? "", namespace: project, phase },
        });
        return;
      }
      const isAsked = newest !== undefined && reverify?.id === newest.id;
      if (newest !== undefined && !isAsked) return;
      if (health !== "Healthy") return;
      await start(name, stage, isAsked ? reverify?.actor : undefined);
    },
  };
}
