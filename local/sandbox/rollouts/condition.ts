import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../objects.ts";

/**
 * A `successCondition` or `failureCondition`: the part of the expr language that conditions use, read by a
 * parser of our own, so that nothing in a template is ever run as code.
 *
 * Literals, `result`, `.field`, `[index]`, `+ - * / %`, comparisons, `in`, `&& || !` (also as words),
 * `len asInt asFloat isNaN isInf isNil default`, and `all any none` with `#` for the element.
 */
type Evaluate = (scope: Scope) => unknown;

interface Scope {
  readonly result: unknown;
  readonly element?: unknown;
}

const TOKEN =
  /\s*(?:(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([A-Za-z_]\w*)|(==|!=|<=|>=|&&|\|\||[-+*/%<>!()[\]{}.,#]))/y;

interface Token {
  readonly kind: "number" | "string" | "name" | "sign" | "end";
  readonly text: string;
}

function tokenise(text: string): readonly Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const start = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (match === null) throw new Error(`unrecognized character in expression at ${start}`);
    const [, number, string, name, sign] = match;
    if (number !== undefined) tokens.push({ kind: "number", text: number });
    else if (string !== undefined) tokens.push({ kind: "string", text: string });
    else if (name !== undefined) tokens.push({ kind: "name", text: name });
    else tokens.push({ kind: "sign", text: sign ?? "" });
  }
  return [...tokens, { kind: "end", text: "EOF" }];
}

class Parser {
  readonly #tokens: readonly Token[];
  #position = 0;

  constructor(text: string) {
    this.#tokens = tokenise(text);
  }

  parse(): Evaluate {
    const evaluate = this.#or();
    if (this.#peek().kind !== "end") throw new Error(`unexpected token ${this.#peek().text}`);
    return evaluate;
  }

  #peek(): Token {
    return this.#tokens[this.#position] ?? { kind: "end", text: "EOF" };
  }

  #next(): Token {
    const token = this.#peek();
    this.#position += 1;
    return token;
  }

  #take(...texts: readonly string[]): string | undefined {
    const token = this.#peek();
    if (token.kind === "string" || !texts.includes(token.text)) return undefined;
    this.#position += 1;
    return token.text;
  }

  #expect(text: string): void {
    if (this.#take(text) === undefined) throw new Error(`unexpected token ${this.#peek().text}`);
  }

  #or(): Evaluate {
    let left = this.#and();
    while (this.#take("||", "or") !== undefined) {
      const [a, b] = [left, this.#and()];
      left = (scope) => asBoolean(a(scope)) || asBoolean(b(scope));
    }
    return left;
  }

  #and(): Evaluate {
    let left = this.#comparison();
    while (this.#take("&&", "and") !== undefined) {
      const [a, b] = [left, this.#comparison()];
      left = (scope) => asBoolean(a(scope)) && asBoolean(b(scope));
    }
    return left;
  }

  #comparison(): Evaluate {
    let left = this.#sum();
    for (;;) {
      const sign = this.#take("==", "!=", "<=", ">=", "<", ">", "in");
      if (sign === undefined) return left;
      const [a, b] = [left, this.#sum()];
      left = (scope) => compare(sign, a(scope), b(scope));
    }
  }

  #sum(): Evaluate {
    let left = this.#product();
    for (;;) {
      const sign = this.#take("+", "-");
      if (sign === undefined) return left;
      const [a, b] = [left, this.#product()];
      left = (scope) => calculate(sign, a(scope), b(scope));
    }
  }

  #product(): Evaluate {
    let left = this.#unary();
    for (;;) {
      const sign = this.#take("*", "/", "%");
      if (sign === undefined) return left;
      const [a, b] = [left, this.#unary()];
      left = (scope) => calculate(sign, a(scope), b(scope));
    }
  }

  #unary(): Evaluate {
    const sign = this.#take("!", "not", "-");
    if (sign === undefined) return this.#postfix();
    const inner = this.#unary();
    return sign === "-" ? (scope) => calculate("-", 0, inner(scope)) : (scope) => !asBoolean(inner(scope));
  }

  #postfix(): Evaluate {
    let value = this.#primary();
    for (;;) {
      const sign = this.#take(".", "[");
      if (sign === undefined) return value;
      const inner = value;
      if (sign === ".") {
        const name = this.#next().text;
        value = (scope) => readMember(inner(scope), name);
      } else {
        const index = this.#or();
        this.#expect("]");
        value = (scope) => readMember(inner(scope), index(scope));
      }
    }
  }

  #primary(): Evaluate {
    const token = this.#next();
    if (token.kind === "number") {
      const number = Number(token.text);
      return () => number;
    }
    if (token.kind === "string") {
      const text = token.text.slice(1, -1).replace(/\\(.)/g, "$1");
      return () => text;
    }
    if (token.kind === "name") return this.#name(token.text);
    if (token.text === "#") return (scope) => scope.element;
    if (token.text === "(") {
      const inner = this.#or();
      this.#expect(")");
      return inner;
    }
    if (token.text === "[") {
      const items = this.#list("]");
      return (scope) => items.map((item) => item(scope));
    }
    throw new Error(`unexpected token ${token.text}`);
  }

  #name(name: string): Evaluate {
    if (name === "true" || name === "false") return () => name === "true";
    if (name === "nil" || name === "null") return () => null;
    if (this.#take("(") === undefined) {
      if (name !== "result") throw new Error(`unknown name ${name}`);
      return (scope) => scope.result;
    }
    if (name === "all" || name === "any" || name === "none") return this.#quantifier(name);
    const args = this.#list(")");
    return (scope) =>
      call(
        name,
        args.map((arg) => arg(scope)),
      );
  }

  #quantifier(name: "all" | "any" | "none"): Evaluate {
    const items = this.#or();
    this.#expect(",");
    const braced = this.#take("{") !== undefined;
    const predicate = this.#or();
    if (braced) this.#expect("}");
    this.#expect(")");
    return (scope) => {
      const list = items(scope);
      if (!Array.isArray(list)) throw new Error(`builtin ${name} takes only array`);
      const test = (element: unknown): boolean => asBoolean(predicate({ ...scope, element }));
      if (name === "all") return list.every(test);
      return list.some(test) === (name === "any");
    };
  }

  #list(end: string): readonly Evaluate[] {
    const items: Evaluate[] = [];
    if (this.#take(end) !== undefined) return items;
    do items.push(this.#or());
    while (this.#take(",") !== undefined);
    this.#expect(end);
    return items;
  }
}

function asBoolean(value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw new Error(`expected bool, but got ${describe(value)}`);
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return "nil";
  if (Array.isArray(value)) return "[]interface {}";
  // Go's names, since these texts end in messages that users of Argo Rollouts know.
  return { number: "float64", object: "map[string]interface {}" }[typeof value as string] ?? typeof value;
}

function compare(sign: string, a: unknown, b: unknown): boolean {
  if (sign === "==") return isDeepStrictEqual(a ?? null, b ?? null);
  if (sign === "!=") return !isDeepStrictEqual(a ?? null, b ?? null);
  if (sign === "in") {
    if (Array.isArray(b)) return b.some((item) => isDeepStrictEqual(item, a));
    if (isRecord(b)) return typeof a === "string" && Object.hasOwn(b, a);
    throw new Error(`invalid operation: ${describe(a)} in ${describe(b)}`);
  }
  const both =
    (typeof a === "number" && typeof b === "number") || (typeof a === "string" && typeof b === "string");
  if (!both) throw new Error(`invalid operation: ${describe(a)} ${sign} ${describe(b)}`);
  if (sign === "<") return a < b;
  if (sign === "<=") return a <= b;
  return sign === ">" ? a > b : a >= b;
}

function calculate(sign: string, a: unknown, b: unknown): number | string {
  if (sign === "+" && typeof a === "string" && typeof b === "string") return a + b;
  if (typeof a !== "number" || typeof b !== "number") {
    throw new Error(`invalid operation: ${describe(a)} ${sign} ${describe(b)}`);
  }
  if (sign === "+") return a + b;
  if (sign === "-") return a - b;
  if (sign === "*") return a * b;
  return sign === "/" ? a / b : a % b;
}

function readMember(value: unknown, key: unknown): unknown {
  if (Array.isArray(value)) {
    if (typeof key !== "number" || !Number.isInteger(key)) throw new Error("array index must be an integer");
    const index = key < 0 ? value.length + key : key;
    if (index < 0 || index >= value.length) {
      throw new Error(`index out of range: ${key} (array length is ${value.length})`);
    }
    return value[index];
  }
  if (isRecord(value)) return Object.hasOwn(value, String(key)) ? value[String(key)] : null;
  throw new Error(`cannot fetch ${String(key)} from ${describe(value)}`);
}

function call(name: string, args: readonly unknown[]): unknown {
  const [first, second] = args;
  switch (name) {
    case "len":
      if (typeof first === "string" || Array.isArray(first)) return first.length;
      if (isRecord(first)) return Object.keys(first).length;
      throw new Error(`invalid argument for len (type ${describe(first)})`);
    case "asInt":
    case "asFloat": {
      const number = typeof first === "string" && first.trim() !== "" ? Number(first) : first;
      if (typeof number !== "number" || Number.isNaN(number)) {
        throw new Error(`${name}() not supported on ${describe(first)}`);
      }
      return name === "asInt" ? Math.trunc(number) : number;
    }
    case "isNaN":
      return Number.isNaN(first);
    case "isInf":
      return first === Number.POSITIVE_INFINITY || first === Number.NEGATIVE_INFINITY;
    case "isNil":
      return first === null || first === undefined;
    case "default":
      return first === null || first === undefined ? second : first;
    default:
      throw new Error(`unknown name ${name}`);
  }
}

/** Evaluates a condition on a measured value. @throws Error when it cannot be read, or is not about this value. */
export function evaluateCondition(condition: string, result: unknown): boolean {
  return asBoolean(new Parser(condition).parse()({ result }));
}

/**
 * What a measured value means by the metric's conditions. Neither: Successful. Only one: it decides. Both:
 * failure first, and Inconclusive when neither holds.
 *
 * @throws Error when a condition cannot be evaluated.
 */
export function judge(
  metric: { readonly successCondition?: string; readonly failureCondition?: string },
  result: unknown,
): "Successful" | "Failed" | "Inconclusive" {
  const hold = (name: "successCondition" | "failureCondition"): boolean | undefined => {
    const condition = metric[name] ?? "";
    if (condition === "") return undefined;
    try {
      return evaluateCondition(condition, result);
    } catch (error) {
      throw new Error(
        `could not evaluate ${name} "${condition}": ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  };
  const success = hold("successCondition");
  const failure = hold("failureCondition");
  if (success === undefined) return failure === true ? "Failed" : "Successful";
  if (failure === undefined) return success ? "Successful" : "Failed";
  if (failure) return "Failed";
  return success ? "Successful" : "Inconclusive";
}
