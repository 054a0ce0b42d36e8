import type { Cluster } from "../cluster/cluster.ts";
import { readTemplateState } from "../cluster/template-reader.ts";
import { findDrift, formatTemplate, isSameDrift, type TemplateState } from "../domain/template-drift.ts";
import type { StageRecord } from "../domain/verification.ts";
import type { ClusterSight } from "./cluster-sight.ts";
import { noteTemplates } from "./template-drift.ts";
import type { World } from "./world.ts";

/** Templates that changed while nobody watched; only where a Stage's latest verification used any. */
export async function lookAtTemplates(
  world: World,
  cluster: Cluster,
  records: readonly StageRecord[],
  sight: ClusterSight,
): Promise<boolean> {
  const users = records.filter(({ latest }) => latest?.templates !== undefined);
  if (users.length === 0) return false;
  const states = await readTemplates(cluster);
  let any = false;
  for (const { key, latest } of users) {
    const current = (latest?.templates ?? []).flatMap((used) => {
      const place = used.kind === "AnalysisTemplate" ? `${key.project}/` : "";
      return states.get(`${place}${formatTemplate(used)}`) ?? [];
    });
    const drift = findDrift(latest?.templates ?? [], [], current);
    const isAsked = sight.stages.get(`${key.project}/${key.stage}`)?.onTemplateChange === "reverify";
    const isKnown = isSameDrift(drift, latest?.drift ?? []);
    if (isKnown && !(isAsked && drift.length > 0)) continue;
    any = (await noteTemplates(world, key, current, false)) || any;
  }
  return any;
}

/** By `project/kind/name`, or `kind/name` for those of the cluster. */
async function readTemplates(cluster: Cluster): Promise<ReadonlyMap<string, TemplateState>> {
  const states = new Map<string, TemplateState>();
  for (const kind of ["AnalysisTemplate", "ClusterAnalysisTemplate"] as const) {
    for await (const { items } of cluster.listTemplates(kind)) {
      for (const object of items) {
        const { namespace, name = "" } = object.metadata as { namespace?: string; name?: string };
        const state = readTemplateState({ kind, name }, object);
        states.set(`${namespace === undefined ? "" : `${namespace}/`}${formatTemplate(state)}`, state);
      }
    }
  }
  return states;
}
