import jsep from "jsep";

/**
 * The grammar: that of expr-lang as far as it is supported, on a parser made for JavaScript's. The operators are told
 * apart and ranked as expr-lang does; what is not listed does not parse.
 */
jsep.removeAllBinaryOps();
jsep.removeAllUnaryOps();
const RANKS: readonly (readonly string[])[] = [
  ["||", "or"],
  ["&&", "and"],
  ["==", "!=", "<", ">", "<=", ">=", "in", "contains", "startsWith", "endsWith"],
  ["+", "-"],
  ["*", "/", "%"],
  // Above arithmetic, unlike in JavaScript.
  ["??"],
];
for (const [rank, operators] of RANKS.entries()) {
  for (const operator of operators) jsep.addBinaryOp(operator, rank + 1);
}
for (const operator of ["-", "!", "not"]) jsep.addUnaryOp(operator);

// `text[from:to]`: as the property of a MemberExpression, of type `Slice`.
jsep.hooks.add("gobble-expression", function (env) {
  if (!this.expr.slice(0, this.index).trimEnd().endsWith("[")) return;
  const isAt = (character: string): boolean => {
    this.gobbleSpaces();
    return this.char === character;
  };
  const from = isAt(":") ? undefined : this.gobbleBinaryExpression();
  if (isAt(":")) {
    this.index += 1;
    env.node = { type: "Slice", from, to: isAt("]") ? undefined : this.gobbleBinaryExpression() };
  } else if (from !== undefined) {
    env.node = from;
  }
});

/**
 * Parses one expression.
 *
 * @throws Error that says what is wrong and where.
 */
export function parseExpression(source: string): jsep.Expression {
  return jsep(source);
}
