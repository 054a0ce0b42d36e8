import type jsep from "jsep";
import { Fault } from "../domain/fault.ts";
import { callFunction, callMethod, MAX_RESULT } from "./expression-functions.ts";
import {
  Absent,
  formatJson,
  isMap,
  isNil,
  type JsonValue,
  Structure,
  type Value,
} from "./expression-values.ts";
import type { Holdings } from "./held-artifacts.ts";

/** What an expression can see. Only own properties count. */
export interface ExpressionScope {
  readonly ctx: { readonly project: string; readonly stage: string };
  readonly vars: ReadonlyMap<string, JsonValue | Fault>;
  /** The Freight that is verified; without it, the functions that look into it are refused. */
  readonly holdings?: Holdings | undefined;
}

/** Makes the fault out of the reason; the argument and the expression are in it already. */
type Refuse = (why: string) => Fault;

/**
 * Evaluates a parsed expression to text: a text as it is, any other value as JSON. Strict where expr-lang is: no value
 * is turned into another type on its way.
 */
export function evaluateToText(tree: jsep.Expression, scope: ExpressionScope, refuse: Refuse): string {
  try {
    const value = evaluate(tree, scope, refuse);
    return typeof value === "string" ? value : formatJson(value);
  } catch (error) {
    if (error instanceof Absent) throw refuse(error.why);
    if (error instanceof RangeError) throw refuse("it is nested too deeply");
    throw error;
  }
}

function evaluate(node: jsep.Expression, scope: ExpressionScope, refuse: Refuse): Value {
  switch (node.type) {
    case "Literal":
      return readLiteral(node as jsep.Literal, refuse);
    case "Identifier":
      return readName((node as jsep.Identifier).name, scope, refuse);
    case "MemberExpression":
      return readMember(node as jsep.MemberExpression, scope, refuse);
    case "BinaryExpression":
      return combine(node as jsep.BinaryExpression, scope, refuse);
    case "CallExpression":
      return call(node as jsep.CallExpression, scope, refuse);
    case "ConditionalExpression": {
      const { test, consequent, alternate } = node as jsep.ConditionalExpression;
      return evaluate(readCondition(test, scope, refuse) ? consequent : alternate, scope, refuse);
    }
    case "ArrayExpression":
      return (node as jsep.ArrayExpression).elements.map((element): Value => {
        if (element === null) throw refuse("the list has a hole");
        return evaluate(element, scope, refuse);
      });
    case "UnaryExpression": {
      const { operator, argument } = node as jsep.UnaryExpression;
      if (operator !== "-") return !readCondition(argument, scope, refuse);
      const value = evaluate(argument, scope, refuse);
      if (typeof value === "number") return needExact(-value, refuse);
      throw refuse("the operator - is not supported here");
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
  if (typeof value === "number") return needExact(value, refuse);
  if (typeof value === "string" || typeof value === "boolean" || value === null) return value;
  throw refuse("its literal is not supported");
}

function readName(name: string, scope: ExpressionScope, refuse: Refuse): JsonValue {
  if (name === "nil") return null;
  if (name === "ctx") return { ...scope.ctx };
  // `vars` as a whole would hand on variables that nobody asked for.
  if (name === "vars") throw refuse("vars needs the name of a variable");
  throw refuse(`${name} is not defined; there are ctx.project, ctx.stage, vars.NAME and functions`);
}

function readMember(node: jsep.MemberExpression, scope: ExpressionScope, refuse: Refuse): Value {
  if (node.object.type === "Identifier" && (node.object as jsep.Identifier).name === "vars") {
    return readVariable(readKey(node, scope, refuse), scope, refuse);
  }
  const object = evaluate(node.object, scope, refuse);
  if (isNil(object)) return skipOrRefuse(object, node, refuse);
  if (node.computed && node.property.type === "Slice") return slice(object, node.property, scope, refuse);
  const key = readKey(node, scope, refuse);
  if (Array.isArray(object)) {
    const element = typeof key === "number" ? (object as readonly Value[]).at(key) : undefined;
    if (element === undefined) throw refuse(`the list has no ${key}`);
    return element;
  }
  if (object instanceof Structure) {
    const field = typeof key === "string" ? object.fields.get(key) : undefined;
    if (field !== undefined) return field;
    throw refuse(`${object.type} has no field ${key}; it has ${[...object.fields.keys()].join(", ")}`);
  }
  if (typeof key !== "string" || !isMap(object) || !Object.hasOwn(object, key)) {
    throw refuse(`${key} is not defined there`);
  }
  return object[key] as JsonValue;
}

function readVariable(key: string | number, scope: ExpressionScope, refuse: Refuse): JsonValue {
  const value = scope.vars.get(String(key));
  if (value === undefined) throw refuse(`the Stage has no variable ${key}`);
  if (value instanceof Fault) throw refuse(`the variable ${key} cannot be evaluated: ${value.message}`);
  return value;
}

/** A member of what is not there: with `?.` it and the rest of the chain are not there either. */
function skipOrRefuse(object: null | Absent, node: jsep.MemberExpression, refuse: Refuse): Absent {
  if (object instanceof Absent && object.skipped) return object;
  const why = object === null ? "nil has no members" : object.why;
  if (node.optional === true) return new Absent(why, true);
  throw refuse(why);
}

function readKey(node: jsep.MemberExpression, scope: ExpressionScope, refuse: Refuse): string | number {
  if (!node.computed) return (node.property as jsep.Identifier).name;
  const value = evaluate(node.property, scope, refuse);
  if (typeof value === "string" || Number.isInteger(value)) return value as string | number;
  throw refuse("only a text or a whole number may stand in brackets");
}

/** `text[from:to]`, both optional; negative ones count from the end, as do JavaScript's. */
function slice(object: Value, range: jsep.Expression, scope: ExpressionScope, refuse: Refuse): Value {
  const [from, to] = ["from", "to"].map((end) => {
    const node = range[end] as jsep.Expression | undefined;
    if (node === undefined) return undefined;
    const value = evaluate(node, scope, refuse);
    if (typeof value === "number" && Number.isInteger(value)) return value;
    throw refuse("only whole numbers may stand around the colon");
  });
  if (Array.isArray(object)) return (object as readonly Value[]).slice(from, to);
  if (typeof object !== "string") throw refuse("only a text or a list can be cut");
  // Kargo counts bytes.
  if (Buffer.byteLength(object) !== object.length) throw refuse("a text beyond ASCII cannot be cut");
  return object.slice(from, to);
}

function readCondition(node: jsep.Expression, scope: ExpressionScope, refuse: Refuse): boolean {
  const value = evaluate(node, scope, refuse);
  if (typeof value === "boolean") return value;
  throw refuse(value instanceof Absent ? value.why : "a condition must be true or false");
}

function combine(node: jsep.BinaryExpression, scope: ExpressionScope, refuse: Refuse): Value {
  const { operator } = node;
  if (operator === "&&" || operator === "and") {
    return readCondition(node.left, scope, refuse) && readCondition(node.right, scope, refuse);
  }
  if (operator === "||" || operator === "or") {
    return readCondition(node.left, scope, refuse) || readCondition(node.right, scope, refuse);
  }
  const left = evaluate(node.left, scope, refuse);
  if (operator === "??") return isNil(left) ? evaluate(node.right, scope, refuse) : left;
  const right = evaluate(node.right, scope, refuse);
  if (operator === "==") return isEqual(left, right, refuse);
  if (operator === "!=") return !isEqual(left, right, refuse);
  for (const value of [left, right]) if (value instanceof Absent) throw refuse(value.why);
  if (operator === "in") return isIn(left, right, refuse);
  if (typeof left === "number" && typeof right === "number") return calculate(operator, left, right, refuse);
  if (typeof left === "string" && typeof right === "string") return compose(operator, left, right, refuse);
  throw refuse(`\`${operator}\` needs two texts or two numbers`);
}

/** Only what is of one kind can be equal; `nil` can be compared with anything. */
function isEqual(left: Value, right: Value, refuse: Refuse): boolean {
  if (isNil(left) || isNil(right)) return isNil(left) && isNil(right);
  if (typeof left !== typeof right || typeof left === "object") {
    throw refuse("only two texts, two numbers, two booleans or nil can be compared");
  }
  return left === right;
}

function isIn(value: Value, where: Value, refuse: Refuse): boolean {
  if (Array.isArray(where)) return (where as readonly Value[]).some((each) => isEqual(value, each, refuse));
  if (typeof value === "string" && isMap(where)) return Object.hasOwn(where, value);
  throw refuse("`in` needs a list, or a text and a map");
}

function calculate(operator: string, left: number, right: number, refuse: Refuse): number | boolean {
  switch (operator) {
    case "+":
      return needExact(left + right, refuse);
    case "-":
      return needExact(left - right, refuse);
    case "*":
      return needExact(left * right, refuse);
    case "/":
      return needExact(left / right, refuse);
    case "%":
      if (!Number.isInteger(left) || !Number.isInteger(right)) break;
      return needExact(left % right, refuse);
    case "<":
      return left < right;
    case ">":
      return left > right;
    case "<=":
      return left <= right;
    case ">=":
      return left >= right;
  }
  throw refuse(`the operator ${operator} is not supported for these numbers`);
}

function compose(operator: string, left: string, right: string, refuse: Refuse): string | boolean {
  switch (operator) {
    case "+":
      if (left.length + right.length > MAX_RESULT) throw refuse(`it is longer than ${MAX_RESULT} characters`);
      return left + right;
    case "contains":
      return left.includes(right);
    case "startsWith":
      return left.startsWith(right);
    case "endsWith":
      return left.endsWith(right);
  }
  // The order of bytes, which is not that of UTF-16.
  const order = Buffer.compare(Buffer.from(left), Buffer.from(right));
  if (operator === "<") return order < 0;
  if (operator === ">") return order > 0;
  if (operator === "<=") return order <= 0;
  if (operator === ">=") return order >= 0;
  throw refuse(`the operator ${operator} is not supported for texts`);
}

function needExact(value: number, refuse: Refuse): number {
  if (!Number.isFinite(value)) throw refuse("the result is not a number");
  // Whole numbers know no such zero, fractions show it as `-0`; which of them it was is not known any more.
  if (Object.is(value, -0)) throw refuse("the result is a negative zero");
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw refuse(`the number ${value} is too large to be exact`);
  }
  return value;
}

function call(node: jsep.CallExpression, scope: ExpressionScope, refuse: Refuse): Value {
  const { callee } = node;
  // A plain function is looked up among ours by its name; nothing is ever called that an expression came up with.
  if (callee.type === "Identifier") {
    const { name } = callee as jsep.Identifier;
    const args = node.arguments.map((argument) => evaluate(argument, scope, refuse));
    return needShort(callFunction(name, args, scope.holdings, refuse), refuse);
  }
  const method = callee as jsep.MemberExpression;
  if (callee.type !== "MemberExpression" || method.computed)
    throw refuse("the function it calls is not supported");
  const object = evaluate(method.object, scope, refuse);
  if (isNil(object)) return skipOrRefuse(object, method, refuse);
  const args = node.arguments.map((argument) => evaluate(argument, scope, refuse));
  return needShort(callMethod(object, (method.property as jsep.Identifier).name, args, refuse), refuse);
}

/** Escapes within escapes double with each call. */
function needShort(value: Value, refuse: Refuse): Value {
  if (typeof value === "string" && value.length > MAX_RESULT) {
    throw refuse(`it is longer than ${MAX_RESULT} characters`);
  }
  return value;
}
