import { createHash } from "node:crypto";
import { findNestedReferences } from "../../shared/cluster/template-flattening.ts";
import { readTemplateState } from "../../shared/cluster/template-reader.ts";
import type { TemplateReference } from "../../shared/domain/stage.ts";
import { formatTemplate, type TemplateState } from "../../shared/domain/template-drift.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { Origin, Outgoing } from "./outgoing.ts";

/** What is remembered of a template: enough to tell that it changed, and which others it nests. */
export interface TemplateTrace extends TemplateState {
  /** `""` for a template of the cluster. */
  readonly project: string;
  readonly nests: readonly TemplateReference[];
}

/** Reads a template as the API server sends it. */
export function traceTemplate(kind: TemplateReference["kind"], object: unknown): TemplateTrace {
  const { metadata } = object as { metadata: { namespace?: string; name: string } };
  return {
    ...readTemplateState({ kind, name: metadata.name }, object),
    project: metadata.namespace ?? "",
    nests: findNestedReferences(object),
  };
}

/** A Stage as the forwarder knows it, with the templates that it names. */
export interface TemplateUser {
  readonly project: string;
  readonly name: string;
  /** `AnalysisTemplate/smoke`. */
  readonly templates: readonly string[];
}

/** The messages for every Stage that a template's change concerns, by the templates that nest it too. */
export function planTemplateMessages(
  origin: Origin,
  changed: TemplateTrace,
  templates: Iterable<TemplateTrace>,
  stages: Iterable<TemplateUser>,
): Outgoing[] {
  const { kind, name, generation, hash, project } = changed;
  const users = findUsers(changed, [...templates]);
  const id = createHash("sha1")
    .update(JSON.stringify([kind, project, name, generation, hash]))
    .digest("hex");
  return [...stages]
    .filter((stage) => project === "" || stage.project === project)
    .filter((stage) => stage.templates.some((used) => users.has(used)))
    .map((stage) => ({
      kind: "verify",
      message: buildMessage(
        "verify",
        {
          id: `${id}:${stage.project}/${stage.name}`.slice(0, 256),
          source: origin.source,
          time: origin.now(),
        },
        {
          cluster: origin.cluster,
          project: stage.project,
          stage: stage.name,
          observed: { kind: "Template", template: kind, name, generation, hash },
        },
      ),
    }));
}

/** The template itself and all that nest it, directly or through others. */
function findUsers(changed: TemplateTrace, templates: readonly TemplateTrace[]): ReadonlySet<string> {
  const users = new Set([formatTemplate(changed)]);
  for (let size = 0; size < users.size; ) {
    size = users.size;
    for (const template of templates) {
      const isNear =
        changed.project === "" || template.project === "" || template.project === changed.project;
      if (isNear && template.nests.some((nested) => users.has(formatTemplate(nested)))) {
        users.add(formatTemplate(template));
      }
    }
  }
  return users;
}
