import {
  type AnalysisRunParts,
  buildAnalysisRun,
  findNestedReferences,
  isSameRun,
  readArtifacts,
} from "../cluster/analysis-run-builder.ts";
import { TEMPLATES_ANNOTATION } from "../cluster/annotations.ts";
import type { Cluster, KubernetesObject } from "../cluster/cluster.ts";
import { readTemplateState, readUsedTemplates } from "../cluster/template-reader.ts";
import type { RunIdentity } from "../domain/analysis-run.ts";
import { Fault } from "../domain/fault.ts";
import { formatStageKey, type StageKey } from "../domain/identity.ts";
import type { StageSnapshot, TemplateReference } from "../domain/stage.ts";
import type { TemplateState } from "../domain/template-drift.ts";

/** More templates than this in one verification is a loop or a mistake. */
const MAX_TEMPLATES = 100;

export interface MadeRun {
  readonly created: boolean;
  readonly object: KubernetesObject;
  readonly warnings: readonly string[];
  /** Of what the run was made, as it says itself. */
  readonly templates: readonly TemplateState[];
}

/**
 * Creates a verification's AnalysisRun, or adopts the one that an earlier try created: its name follows from
 * the verification's id.
 *
 * @throws Fault `Permanent` when it cannot be built or is refused for good; the object and field are named.
 */
export async function makeAnalysisRun(
  cluster: Cluster,
  key: StageKey,
  stage: StageSnapshot,
  identity: RunIdentity,
  controllerInstanceId: string | undefined,
): Promise<MadeRun> {
  const templates = await fetchTemplates(cluster, key.project, stage.verification?.analysisTemplates ?? []);
  const freights: AnalysisRunParts["freights"][number][] = [];
  for (const { name } of identity.collection.freight) {
    const freight = await cluster.getFreight(key.project, name);
    const uid = readUid(freight);
    if (uid === undefined) {
      throw new Fault(
        "Permanent",
        `Freight ${key.project}/${name}, held by Stage ${key.stage}, does not exist`,
      );
    }
    freights.push({ name, uid, artifacts: readArtifacts(freight) });
  }
  const { run, warnings } = buildAnalysisRun({
    stage,
    identity,
    templates,
    freights,
    ...(controllerInstanceId === undefined ? {} : { controllerInstanceId }),
    ...(identity.promotion === "" ? {} : { promotionAnnotation: identity.promotion }),
  });
  const used = templates.map(({ reference, object }) => readTemplateState(reference, object));
  const result = await cluster.createAnalysisRun(key.project, withTemplates(run as KubernetesObject, used));
  if (!result.created && !isSameRun(result.object, identity)) {
    throw new Fault(
      "Permanent",
      `an AnalysisRun of another origin has the name that verification ${identity.id} of Stage ${formatStageKey(key)} needs; delete it and reverify`,
    );
  }
  // An earlier try may have made it of templates that have changed since.
  return { ...result, warnings, templates: readUsedTemplates(result.object) };
}

/** On the run itself, so that whoever adopts it knows. */
function withTemplates(run: KubernetesObject, used: readonly TemplateState[]): KubernetesObject {
  const metadata = run.metadata as { readonly annotations?: Readonly<Record<string, string>> };
  const annotations = { ...metadata.annotations, [TEMPLATES_ANNOTATION]: JSON.stringify(used) };
  return { ...run, metadata: { ...metadata, annotations } };
}

/** The templates that the Stage names and, through them, the nested ones. */
async function fetchTemplates(
  cluster: Cluster,
  project: string,
  references: readonly TemplateReference[],
): Promise<{ reference: TemplateReference; object: unknown }[]> {
  const found = new Map<string, { reference: TemplateReference; object: unknown }>();
  const queue = [...references];
  for (let reference = queue.shift(); reference !== undefined; reference = queue.shift()) {
    const id = `${reference.kind}/${reference.name}`;
    if (found.has(id)) continue;
    if (found.size >= MAX_TEMPLATES) {
      throw new Fault(
        "Permanent",
        `more than ${MAX_TEMPLATES} templates are nested below this Stage's verification`,
      );
    }
    const object = await cluster.getTemplate(project, reference);
    if (object === undefined) {
      const where = reference.kind === "AnalysisTemplate" ? `${project}/${reference.name}` : reference.name;
      throw new Fault("Permanent", `${reference.kind} ${where} does not exist`);
    }
    found.set(id, { reference, object });
    queue.push(...findNestedReferences(object));
  }
  return [...found.values()];
}

function readUid(freight: KubernetesObject | undefined): string | undefined {
  const metadata = freight?.metadata as { uid?: unknown } | undefined;
  return typeof metadata?.uid === "string" ? metadata.uid : undefined;
}
