import type { TemplateReference } from "./stage.ts";

/** A template as a verification used it, or as it is now. */
export interface TemplateState extends TemplateReference {
  /** `metadata.generation`: grows with each change of the spec; 0 where it is not known. */
  readonly generation: number;
  /** Of its spec: two templates with one hash verify alike. */
  readonly hash: string;
}

/** That templates have changed since a verification was made with them. */
export interface TemplateDrift {
  /** When it was noticed, milliseconds since the epoch. */
  readonly at: number;
  /** The templates that have changed, as they are now. */
  readonly templates: readonly TemplateState[];
}

/** `AnalysisTemplate/smoke`. */
export function formatTemplate({ kind, name }: TemplateReference): string {
  return `${kind}/${name}`;
}

/**
 * Which of the templates that a verification used are no longer what they were. `current` may be some of them only: of
 * the others, what was known of them before (`known`) still holds. One that was changed back is as it was.
 */
export function findDrift(
  used: readonly TemplateState[],
  known: readonly TemplateState[],
  current: readonly TemplateState[],
): readonly TemplateState[] {
  const now = new Map([...known, ...current].map((template) => [formatTemplate(template), template]));
  return used.flatMap((template) => {
    const found = now.get(formatTemplate(template));
    return found === undefined || found.hash === template.hash ? [] : [found];
  });
}

/** True when two findings say the same. */
export function isSameDrift(a: readonly TemplateState[], b: readonly TemplateState[]): boolean {
  return describeDrift(a) === describeDrift(b);
}

/** `AnalysisTemplate/smoke@3f2a…`, one for each: what a request to repeat because of it is known by. */
export function describeDrift(templates: readonly TemplateState[]): string {
  return templates
    .map((template) => `${formatTemplate(template)}@${template.hash}`)
    .sort()
    .join(",");
}
