import { parseValuePath, readText, type ValuePath } from "./value-path.ts";

/** Text with places for values of a document: `rollout of {{ $.ref }}`; or one path alone; or just text. */
export interface Template {
  readonly parts: readonly (string | ValuePath)[];
}

const PLACE = /\{\{([^{}]*)\}\}/;

/**
 * Reads a template. A text that begins with `$` is a path and nothing else, so that a misspelt one is not taken for text.
 *
 * @returns the template, or what is wrong with it.
 */
export function parseTemplate(text: string): Template | string {
  if (text.startsWith("$")) {
    const path = parseValuePath(text);
    return path === undefined ? describePath(text) : { parts: [path] };
  }
  const parts: (string | ValuePath)[] = [];
  // Every second piece stood in braces.
  for (const [index, piece] of text.split(PLACE).entries()) {
    if (index % 2 === 0) {
      if (/\{\{|\}\}/.test(piece)) return "has a {{ or }} without the other; write {{ $.path.to.value }}";
      if (piece !== "") parts.push(piece);
      continue;
    }
    const path = parseValuePath(piece.trim());
    if (path === undefined) return describePath(piece.trim());
    parts.push(path);
  }
  return { parts };
}

/** What is wrong with a text that should be a path. */
export function describePath(text: string): string {
  return `${text} is not a path; write for example $.deployment.environment or $.labels["app.kubernetes.io/name"]`;
}

/** The text, or undefined when it has places and is no constant. */
export function constantOf(template: Template): string | undefined {
  const texts = template.parts.filter((part) => typeof part === "string");
  return texts.length === template.parts.length ? texts.join("") : undefined;
}

/** A template filled in, with the paths at which the document holds no text, number or boolean. */
export function fillTemplate(
  template: Template,
  document: unknown,
): { readonly text: string; readonly missing: readonly string[] } {
  const missing: string[] = [];
  const text = template.parts.map((part) => {
    if (typeof part === "string") return part;
    const value = readText(document, part);
    if (value === undefined) missing.push(part.text);
    return value ?? "";
  });
  return { text: text.join(""), missing };
}

/** Control characters, and those that turn the direction of text round: a log or a terminal must show what is there. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu;

/** Foreign text for people to read: one line of well-formed Unicode, at most `limit` UTF-16 units. */
export function toLine(text: string, limit: number): string {
  const cut = text
    .slice(0, 4 * limit)
    .replace(UNPRINTABLE, " ")
    .trim()
    .slice(0, limit);
  return cut.toWellFormed();
}
