import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fault, isFault } from "../domain/fault.ts";
import { type ExpressionScope, evaluateTemplate } from "./expressions.ts";

const scope: ExpressionScope = {
  ctx: { project: "shop", stage: "test" },
  vars: new Map<string, ReturnType<typeof evaluateTemplate> | Fault>([
    ["region", "eu-west-1"],
    ["count", 5],
    ["flags", { beta: "on", list: [1] }],
    ["empty", ""],
    ["broken", new Fault("Permanent", "imageFrom is not supported")],
  ]),
};

/** `${{ body }}`, written so that it cannot be mistaken for a template string. */
const wrap = (body: string): string => `\${{${body}}}`;

describe("an expression comes out as Kargo would have it", () => {
  it.each([
    ["a text without an expression stays a text", "42", "42"],
    ["the Project", wrap(" ctx.project "), "shop"],
    ["the Stage in brackets", wrap("ctx['stage']"), "test"],
    ["a variable", wrap("vars.region"), "eu-west-1"],
    ["a member of a variable", wrap("vars.flags.beta"), "on"],
    ["an empty variable", wrap("vars.empty"), ""],
    [
      "several in one text",
      `https://${wrap("ctx.stage")}.${wrap("vars.region")}.example.test`,
      "https://test.eu-west-1.example.test",
    ],
    ["concatenation", wrap('ctx.project + "-" + ctx.stage'), "shop-test"],
    ["a single-quoted text", wrap("'it'"), "it"],
    ["an escaped newline", wrap('"a\\nb"'), "a\nb"],
    ["parentheses", wrap('("a" + "b") + "c"'), "abc"],
    ["a number is a number", wrap("5"), 5],
    ["a negative number", wrap("-1.5"), -1.5],
    ["a sum", wrap("vars.count + 1"), 6],
    ["a number made of pieces", `1${wrap("vars.count")}`, 15],
    ["a boolean", wrap("true"), true],
    ["one letter that Go takes for a boolean", wrap('"t"'), true],
    ["nothing", wrap("nil"), null],
    ["a list", wrap('"[1, 2]"'), [1, 2]],
    ["quote() makes a number a text", wrap("quote(5)"), "5"],
    ["quote() keeps a text a text", wrap('quote("true")'), "true"],
    ["quote() of a variable", wrap("quote(vars.count)"), "5"],
    ["quotes written around an expression", `"${wrap("5")}"`, "5"],
    ["unsafeQuote() shows its quotes", wrap('unsafeQuote("x")'), '"x"'],
    ["a trailing newline of a YAML block does not make a text of a number", `${wrap("5")}\n`, 5],
    ["a trailing newline stays on a text", `${wrap("ctx.stage")}\n`, "test\n"],
  ])("%s", (_title, template, expected) => {
    expect(evaluateTemplate(template, scope, 'argument "a"')).toEqual(expected);
  });
});

describe("whatever cannot be evaluated is refused by argument and expression", () => {
  it.each([
    ["an unknown function", wrap('imageFrom("r").tag'), "imageFrom"],
    ["an unknown name", wrap("env.HOME"), "env"],
    ["a variable that the Stage has not", wrap("vars.nope"), "nope"],
    ["a variable that cannot be evaluated itself", wrap("vars.broken"), "imageFrom is not supported"],
    ["all variables at once", wrap("vars"), "vars"],
    ["an unknown member", wrap("ctx.meta"), "meta"],
    ["a member of a text", wrap("ctx.stage.length"), "length"],
    ["the prototype", wrap("ctx.__proto__"), "__proto__"],
    ["the prototype in brackets", wrap('ctx["constructor"]'), "constructor"],
    ["the prototype of variables", wrap("vars.constructor"), "constructor"],
    ["a computed name", wrap("ctx[vars.region]"), "brackets"],
    ["a method call", wrap('ctx.stage.constructor("x")'), "not supported"],
    ["quote() without an argument", wrap("quote()"), "one argument"],
    ["quote() with two", wrap("quote(1, 2)"), "one argument"],
    ["another operator", wrap("1 - 1"), "operator -"],
    ["a comparison", wrap("1 == 1"), "operator =="],
    ["a condition", wrap('true ? "a" : "b"'), "ConditionalExpression"],
    ["text plus number", wrap('"a" + 1'), "two texts or two numbers"],
    ["two expressions", wrap("1 2"), "more than one"],
    ["nothing at all", wrap(" "), "empty"],
    ["a syntax error", wrap('"a'), "Unclosed quote"],
    ["a missing end", `a $${"{{"} ctx.stage`, "is missing"],
    ["the other delimiters", `$${"{%"} ctx.stage %}`, "{%"],
    ["an escape that would be dropped in silence", wrap('"\\u0041"'), "escape"],
    ["a number that is not exact", wrap("12345678901234567890"), "too large"],
    ["optional access", wrap("ctx?.stage"), "?."],
    ["this", wrap("this"), "ThisExpression"],
    ["a result that is an expression again", `\${${wrap("'{ ctx.stage }'")}}`, "would itself be"],
    ["an expression of enormous length", wrap(`"${"x".repeat(5000)}"`), "longer"],
    ["parentheses without end", wrap("(".repeat(4000)), "cannot be evaluated"],
  ])("%s", (_title, template, part) => {
    try {
      evaluateTemplate(template, scope, 'argument "a"');
    } catch (error) {
      expect(isFault(error, "Permanent"), String(error)).toBe(true);
      expect(String(error)).toContain('argument "a"');
      expect(String(error)).toContain(part);
      return;
    }
    throw new Error("it was not refused");
  });

  it("a text that doubles with each use ends at the limit", () => {
    const vars = new Map<string, ReturnType<typeof evaluateTemplate>>([["big", "x".repeat(60_000)]]);
    expect(() => evaluateTemplate(wrap("vars.big + vars.big"), { ...scope, vars }, "a")).toThrow(/longer/);
    expect(() => evaluateTemplate(wrap("vars.big").repeat(2), { ...scope, vars }, "a")).toThrow(/longer/);
  });
});

it("whatever the text, a value or Fault Permanent comes out, and never an expression", async () => {
  const piece = fc.constantFrom(
    "${{",
    "}}",
    "${%",
    "%}",
    "ctx",
    ".",
    "stage",
    "vars",
    "quote",
    "(",
    ")",
    '"',
    "'",
    "+",
    "[",
    "]",
    "`",
    "\\",
    " ",
    "1",
    "{",
    "$",
    "__proto__",
    "?",
    ":",
    ",",
    ";",
  );
  await fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(piece, { maxLength: 25 }).map((list) => list.join("")),
      ),
      (template) => {
        try {
          const value = evaluateTemplate(template, scope, "a");
          expect(JSON.stringify(value)).not.toContain("${{");
        } catch (error) {
          expect(isFault(error, "Permanent"), String(error)).toBe(true);
        }
      },
    ),
    { numRuns: 2000 },
  );
});
