import { compileExpression } from "./expression.ts";
import type { Condition } from "./receiver.ts";
import { parseValuePath, readValue } from "./value-path.ts";

/** A condition, ready to be asked of documents. */
export function compileCondition({ field, ...test }: Condition): (document: unknown) => boolean {
  const path = parseValuePath(field);
  if (path === undefined) throw new Error(`${field} was not validated`);
  const read = (document: unknown): unknown => readValue(document, path);
  if (test.exists !== undefined) return (document) => isThere(read(document)) === test.exists;
  if (test.matches !== undefined) {
    const matches = compileExpression(test.matches);
    return (document) => {
      const value = read(document);
      return typeof value === "string" && matches(value);
    };
  }
  const wanted: readonly unknown[] = test.in ?? [test.equals];
  // By type too: the text "1" is not the number.
  return (document) => wanted.includes(read(document));
}

/** JSON senders write null where there is nothing. */
function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}
