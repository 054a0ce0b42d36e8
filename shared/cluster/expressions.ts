import type jsep from "jsep";
import { Fault } from "../domain/fault.ts";
import { type ExpressionScope, evaluateToText } from "./expression-evaluation.ts";
import { MAX_RESULT } from "./expression-functions.ts";
import { parseExpression } from "./expression-parser.ts";
import type { JsonValue } from "./expression-values.ts";

/**
 * Texts with Kargo's expressions in them: expr-lang between `${{` and `}}`, or `${%` and `%}`. Supported is what
 * docs/verification-arguments.md lists. All else is refused by name: an expression that was passed on unevaluated would
 * become an argument of a verification that means nothing.
 */
const DELIMITERS = [
  { open: "${{", close: "}}" },
  { open: "${%", close: "%}" },
] as const;
const MAX_EXPRESSION = 4096;

/** True when a text holds an expression; without one it is literal, and `"42"` stays a text. */
export function hasExpression(text: string): boolean {
  return DELIMITERS.some(({ open }) => text.includes(open));
}

/**
 * Evaluates a text with expressions in it, as Kargo does: the results take the expressions' places, and what comes
 * of it is a number, boolean or other JSON value if it can be read as one, unless it stands in quotes.
 *
 * @throws Fault `Permanent` that names `owner` (for example `argument "url"`) and the expression.
 */
export function evaluateTemplate(template: string, scope: ExpressionScope, owner: string): JsonValue {
  if (!hasExpression(template)) return template;
  let result = "";
  let rest = template;
  for (let next = findOpening(rest); next !== undefined; next = findOpening(rest)) {
    const { start, open, close } = next;
    const end = rest.indexOf(close, start + open.length);
    if (end < 0) throw refuse(owner, rest.slice(start, start + 80), `\`${close}\` is missing`);
    const shown = rest.slice(start, end + close.length);
    const source = rest.slice(start + open.length, end);
    result += rest.slice(0, start) + evaluateExpression(source, scope, (why) => refuse(owner, shown, why));
    if (result.length > MAX_RESULT)
      throw refuse(owner, template, `the result is longer than ${MAX_RESULT} characters`);
    rest = rest.slice(end + close.length);
  }
  result += rest;
  if (hasExpression(result)) throw refuse(owner, template, "the result would itself be an expression");
  const value = readResult(result);
  // What JSON escapes hide in the result comes to light only now.
  if (hasExpression(typeof value === "string" ? value : JSON.stringify(value))) {
    throw refuse(owner, template, "the result would itself be an expression");
  }
  return value;
}

/** The first opening delimiter of either kind. */
function findOpening(text: string) {
  const found = DELIMITERS.map((delimiter) => ({ start: text.indexOf(delimiter.open), ...delimiter }));
  return found.filter(({ start }) => start >= 0).sort((a, b) => a.start - b.start)[0];
}

function evaluateExpression(source: string, scope: ExpressionScope, refuse: (why: string) => Fault): string {
  if (source.length > MAX_EXPRESSION) throw refuse(`it is longer than ${MAX_EXPRESSION} characters`);
  let tree: jsep.Expression;
  try {
    tree = parseExpression(source);
  } catch (error) {
    throw refuse(error instanceof Error ? error.message : String(error));
  }
  return evaluateToText(tree, scope, refuse);
}

/** What Go's `strconv.ParseFloat` and `ParseBool` take for a number or boolean. */
const NUMBER =
  /^([+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan|[+-]?0x[0-9a-f_]*\.?[0-9a-f_]*p[+-]?\d+)$/i;
const TRUE = new Set(["1", "t", "T", "TRUE", "true", "True"]);
const FALSE = new Set(["0", "f", "F", "FALSE", "false", "False"]);

function readResult(result: string): JsonValue {
  const hasNewline = result.endsWith("\n");
  const text = hasNewline ? result.slice(0, -1) : result;
  const newline = hasNewline ? "\n" : "";
  if (text.length > 1 && text.startsWith('"') && text.endsWith('"')) return text.slice(1, -1) + newline;
  if (NUMBER.test(text)) return Number(text);
  if (TRUE.has(text)) return true;
  if (FALSE.has(text)) return false;
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text + newline;
  }
}

function refuse(owner: string, expression: string, why: string): Fault {
  const shown = expression.length > 200 ? `${expression.slice(0, 200)}…` : expression;
  return new Fault("Permanent", `${owner}: the expression ${shown} cannot be evaluated: ${why}`);
}
