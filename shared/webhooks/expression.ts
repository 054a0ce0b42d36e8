import { RE2JS } from "re2js";

/** Longer texts match nothing: matching takes linear time, but not none. */
const MAX_MATCHED = 4096;

/** What is wrong with a regular expression; undefined for one that can be used. */
export function findExpressionFault(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * Asks whether an expression in RE2's syntax matches a whole text: no sender can make one hang, and `prod` does not match
 * `nonprod`.
 */
export function compileExpression(pattern: string): (text: string) => boolean {
  const expression = RE2JS.compile(pattern);
  return (text) => text.length <= MAX_MATCHED && expression.matches(text);
}
