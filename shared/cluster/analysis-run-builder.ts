import type { RunIdentity } from "../domain/analysis-run.ts";
import { Fault } from "../domain/fault.ts";
import type { FreightArtifacts } from "../domain/freight.ts";
import { deriveAnalysisRunName, shortenLabel } from "../domain/identity.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import {
  CONTROLLER_INSTANCE_ID_LABEL,
  FREIGHT_COLLECTION_LABEL,
  PROMOTION_ANNOTATION,
  STAGE_ANNOTATION,
  STAGE_LABEL,
  VERIFICATION_ANNOTATION,
} from "./annotations.ts";
import { mergeArguments } from "./argument-merging.ts";
import type { HeldFreight } from "./held-artifacts.ts";
import type { PlainObject } from "./plain-object.ts";
import { MAX_IDENTITY_BYTES } from "./run-identity.ts";
import { type FetchedTemplate, flattenTemplates, orderTemplates } from "./template-flattening.ts";

export { readArtifacts } from "./artifact-reader.ts";
export { isSameRun } from "./run-identity.ts";
export { findNestedReferences } from "./template-flattening.ts";

/** Everything that an AnalysisRun is made of. */
export interface AnalysisRunParts {
  readonly stage: StageSnapshot;
  readonly identity: RunIdentity;
  /** Every template that the Stage names and every one nested in them; see `findNestedReferences`. */
  readonly templates: readonly FetchedTemplate[];
  /** The members of `identity.collection`, as they are in the cluster. */
  readonly freights: readonly {
    readonly name: string;
    readonly uid: string;
    /** Counts where the Stage's snapshot has none: it came from an older forwarder, or they were too many for it. */
    readonly artifacts?: FreightArtifacts;
  }[];
  /** The Argo Rollouts controller that is to take the run; empty for the one without an instance id. */
  readonly controllerInstanceId?: string;
  /** Name of the Promotion behind the verification, where there is one. */
  readonly promotionAnnotation?: string;
}

/**
 * Builds the AnalysisRun of a verification: the same parts give the same manifest, name included. A Stage whose
 * `spec.verification` names no template gets a run without metrics, which Argo Rollouts then ends with Error, as it does
 * for Kargo. `warnings` are for the record and an Event.
 *
 * @throws Fault `Permanent` naming the object and the field of whatever makes the run impossible.
 */
export function buildAnalysisRun(parts: AnalysisRunParts): {
  readonly run: PlainObject;
  readonly warnings: readonly string[];
} {
  const { stage, identity } = parts;
  if (stage.verification === undefined) {
    throw new Fault("Permanent", `Stage ${stage.project}/${stage.name}: spec.verification is missing`);
  }
  const template = flattenTemplates(orderTemplates(stage.verification.analysisTemplates, parts.templates));
  const { args, warnings } = mergeArguments(template.args, stage, findHeldFreight(parts));
  const run = {
    apiVersion: "argoproj.io/v1alpha1",
    kind: "AnalysisRun",
    metadata: {
      name: deriveAnalysisRunName(stage.name, identity.id, identity.collection.id),
      namespace: stage.project,
      labels: buildLabels(parts, stage.verification.labels),
      annotations: buildAnnotations(parts, stage.verification.annotations),
      ownerReferences: buildOwnerReferences(parts),
    },
    spec: {
      metrics: template.metrics,
      ...(template.dryRun.length === 0 ? {} : { dryRun: template.dryRun }),
      ...(template.measurementRetention.length === 0
        ? {}
        : { measurementRetention: template.measurementRetention }),
      ...(args.length === 0 ? {} : { args }),
    },
  };
  return { run, warnings };
}

/** The Freight that is verified, with what it consists of as far as anybody said. */
function findHeldFreight({ stage, identity, freights }: AnalysisRunParts): HeldFreight[] {
  const { collection } = identity;
  // The snapshot tells of what the Stage holds now, which need not be what is verified.
  const told = stage.current?.id === collection.id ? (stage.artifacts ?? []) : [];
  return collection.freight.map(({ name, origin }) => ({
    name,
    origin,
    artifacts:
      told.find((each) => each.origin === origin) ?? freights.find((each) => each.name === name)?.artifacts,
  }));
}

/** Later ones win, so a Stage cannot give its runs the labels that say whose they are. */
function buildLabels(parts: AnalysisRunParts, own: Readonly<Record<string, string>>): Record<string, string> {
  const { stage, identity, controllerInstanceId } = parts;
  return {
    ...own,
    [STAGE_LABEL]: shortenLabel(stage.name),
    [FREIGHT_COLLECTION_LABEL]: identity.collection.id,
    ...(controllerInstanceId ? { [CONTROLLER_INSTANCE_ID_LABEL]: controllerInstanceId } : {}),
  };
}

function buildAnnotations(
  parts: AnalysisRunParts,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const { stage, identity, promotionAnnotation } = parts;
  const json = JSON.stringify(identity);
  if (Buffer.byteLength(json) > MAX_IDENTITY_BYTES) {
    throw new Fault(
      "Permanent",
      `Stage ${stage.project}/${stage.name}: its ${identity.collection.freight.length} Freight do not fit into the annotation ${VERIFICATION_ANNOTATION}`,
    );
  }
  const isShortened = shortenLabel(stage.name) !== stage.name;
  const annotations: Record<string, string> = {
    ...own,
    ...(promotionAnnotation ? { [PROMOTION_ANNOTATION]: promotionAnnotation } : {}),
    [STAGE_ANNOTATION]: stage.name,
    [VERIFICATION_ANNOTATION]: json,
  };
  if (!isShortened) delete annotations[STAGE_ANNOTATION];
  return annotations;
}

/** One for each Freight, in the collection's order; the Stage is no owner, so a run outlives it as with Kargo. */
function buildOwnerReferences({ stage, identity, freights }: AnalysisRunParts): PlainObject[] {
  const uids = new Map(freights.map((freight) => [freight.name, freight.uid]));
  return identity.collection.freight.map(({ name }) => {
    const uid = uids.get(name);
    if (uid === undefined || uid === "") {
      throw new Fault(
        "Permanent",
        `Freight ${stage.project}/${name}, held by Stage ${stage.name}, does not exist`,
      );
    }
    return { apiVersion: "kargo.akuity.io/v1alpha1", kind: "Freight", name, uid, blockOwnerDeletion: false };
  });
}
