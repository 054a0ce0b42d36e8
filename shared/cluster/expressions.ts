import jsep from "jsep";
import { Fault } from "../domain/fault.ts";
import { isPlainObject } from "./plain-object.ts";

/**
 * The part of Kargo's expression language (expr-lang between `${{` and `}}`) that needs nothing but the Stage
 * itself: `ctx.project`, `ctx.stage`, `vars.NAME`, literals, `+`, `quote()` and `unsafeQuote()`. All else is refused by
 * name: an expression that was passed on unevaluated would become an argument of a verification that means nothing.
 */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** What an expression can see. Only own properties count. */
export interface ExpressionScope {
  readonly ctx: { readonly project: string; readonly stage: string };
  readonly vars: ReadonlyMap<string, JsonValue | Fault>;
}

const OPEN = "${{";
const CLOSE = "}}";
const OPEN_ALTERNATIVE = "${%";
const MAX_EXPRESSION = 4096;
/** Longest result, in characters; variables that double each other would else grow without end. */
const MAX_RESULT = 65_536;

/** True when a text holds an expression; without one it is literal, and `"42"` stays a text. */
function hasExpression(text: string): boolean {
  return text.includes(OPEN) || text.includes(OPEN_ALTERNATIVE);
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
  while (hasExpression(rest)) {
    const alternative = rest.indexOf(OPEN_ALTERNATIVE);
    const start = rest.indexOf(OPEN);
    if (alternative >= 0 && (start < 0 || alternative < start)) {
      throw refuse(
        owner,
        rest.slice(alternative, alternative + 80),
        "expressions between `{%` and `%}` are not supported",
      );
    }
    const end = rest.indexOf(CLOSE, start + OPEN.length);
    if (end < 0) throw refuse(owner, rest.slice(start, start + 80), "`}}` is missing");
    result += rest.slice(0, start) + evaluateExpression(rest.slice(start + OPEN.length, end), scope, owner);
    if (result.length > MAX_RESULT)
      throw refuse(owner, template, `the result is longer than ${MAX_RESULT} characters`);
    rest = rest.slice(end + CLOSE.length);
  }
  result += rest;
  if (hasExpression(result)) throw refuse(owner, template, "the result would itself be an expression");
  return readResult(result);
}

/** One expression's result as text: a text as it is, any other value as JSON. */
function evaluateExpression(source: string, scope: ExpressionScope, owner: string): string {
  const shown = `\${{${source}}}`;
  if (source.length > MAX_EXPRESSION)
    throw refuse(owner, shown, `it is longer than ${MAX_EXPRESSION} characters`);
  let tree: jsep.Expression;
  try {
    tree = jsep(source);
  } catch (error) {
    throw refuse(owner, shown, error instanceof Error ? error.message : String(error));
  }
  const value = evaluate(tree, scope, (why) => refuse(owner, shown, why));
  return typeof value === "string" ? value : JSON.stringify(value);
}

type Refuse = (why: string) => Fault;

function evaluate(node: jsep.Expression, scope: ExpressionScope, refuse: Refuse): JsonValue {
  switch (node.type) {
    case "Literal":
      return readLiteral(node as jsep.Literal, refuse);
    case "Identifier":
      return readName((node as jsep.Identifier).name, scope, refuse);
    case "MemberExpression":
      return readMember(node as jsep.MemberExpression, scope, refuse);
    case "BinaryExpression":
      return concatenate(node as jsep.BinaryExpression, scope, refuse);
    case "CallExpression":
      return call(node as jsep.CallExpression, scope, refuse);
    case "UnaryExpression": {
      const { operator, argument } = node as jsep.UnaryExpression;
      const value = operator === "-" ? evaluate(argument, scope, refuse) : undefined;
      if (typeof value === "number") return -value;
      throw refuse(`the operator ${operator} is not supported here`);
    }
    case "Compound":
      throw refuse("it is empty, or more than one expression");
    default:
      throw refuse(`${node.type} is not supported`);
  }
}

function readLiteral(node: jsep.Literal, refuse: Refuse): JsonValue {
  const { value, raw } = node;
  // The parser drops the backslash of an escape that it does not know, which would change the text in silence.
  if (typeof value === "string" && /\\[^nrtbfv\\'"]/.test(raw.replaceAll("\\\\", ""))) {
    throw refuse("its text has an escape that is not supported");
  }
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw refuse(`the number ${raw} is too large to be exact`);
  }
  if (
    typeof value === "string" ||
    typeof value === "number" ||
    typeof value === "boolean" ||
    value === null
  ) {
    return value;
  }
  throw refuse("its literal is not supported");
}

function readName(name: string, scope: ExpressionScope, refuse: Refuse): JsonValue {
  if (name === "nil") return null;
  if (name === "ctx") return { ...scope.ctx };
  // `vars` as a whole would hand on variables that nobody asked for.
  if (name === "vars") throw refuse("vars needs the name of a variable");
  throw refuse(`${name} is not defined; there are ctx.project, ctx.stage and vars.NAME`);
}

function readMember(node: jsep.MemberExpression, scope: ExpressionScope, refuse: Refuse): JsonValue {
  if (node.optional === true) throw refuse("`?.` is not supported");
  const key = readKey(node, refuse);
  if (node.object.type === "Identifier" && (node.object as jsep.Identifier).name === "vars") {
    const value = scope.vars.get(key);
    if (value === undefined) throw refuse(`the Stage has no variable ${key}`);
    if (value instanceof Fault) throw refuse(`the variable ${key} cannot be evaluated: ${value.message}`);
    return value;
  }
  const object: unknown = evaluate(node.object, scope, refuse);
  if (!isPlainObject(object) || !Object.hasOwn(object, key)) throw refuse(`${key} is not defined there`);
  return object[key] as JsonValue;
}

function readKey(node: jsep.MemberExpression, refuse: Refuse): string {
  if (!node.computed) return (node.property as jsep.Identifier).name;
  const { value } = node.property as jsep.Literal;
  if (node.property.type === "Literal" && typeof value === "string") return value;
  throw refuse("only a name or a text may stand in brackets");
}

function concatenate(node: jsep.BinaryExpression, scope: ExpressionScope, refuse: Refuse): JsonValue {
  if (node.operator !== "+") throw refuse(`the operator ${node.operator} is not supported`);
  const left = evaluate(node.left, scope, refuse);
  const right = evaluate(node.right, scope, refuse);
  if (typeof left === "number" && typeof right === "number") return left + right;
  if (typeof left !== "string" || typeof right !== "string")
    throw refuse("`+` needs two texts or two numbers");
  if (left.length + right.length > MAX_RESULT) throw refuse(`it is longer than ${MAX_RESULT} characters`);
  return left + right;
}

function call(node: jsep.CallExpression, scope: ExpressionScope, refuse: Refuse): JsonValue {
  const name = node.callee.type === "Identifier" ? (node.callee as jsep.Identifier).name : undefined;
  if (name !== "quote" && name !== "unsafeQuote") {
    throw refuse(`the function ${name ?? "it calls"} is not supported; there are quote() and unsafeQuote()`);
  }
  const [argument] = node.arguments;
  if (argument === undefined || node.arguments.length !== 1) throw refuse(`${name}() takes one argument`);
  const value = evaluate(argument, scope, refuse);
  const json = JSON.stringify(value);
  // A text in quote() gets its quotes from the escaping itself; everything else is JSON within quotes.
  return name === "quote" && typeof value === "string" ? json : `"${json}"`;
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
