import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fault, isFault } from "../domain/fault.ts";
import type { ExpressionScope } from "./expression-evaluation.ts";
import { evaluateTemplate } from "./expressions.ts";

const scope: ExpressionScope = {
  ctx: { project: "shop", stage: "test" },
  vars: new Map<string, ReturnType<typeof evaluateTemplate> | Fault>([
    ["region", "eu-west-1"],
    ["count", 5],
    ["flags", { beta: "on", list: [1] }],
    ["empty", ""],
    ["long", "a".repeat(2000)],
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
    ["the other delimiters", `$${"{%"} ctx.stage %}`, "test"],
    ["both delimiters in one text", `${wrap("ctx.project")}/$${"{%"}'}}'%}`, "shop/}}"],
    ["a condition", wrap('ctx.stage == "test" ? "yes" : "no"'), "yes"],
    ["nested conditions", wrap('1 > 2 ? "a" : 2 > 1 ? "b" : "c"'), "b"],
    ["conditions in words", wrap('not (true and false) or false ? "a" : "b"'), "a"],
    ["a branch that is not taken is not evaluated", wrap('true ? "a" : vars.nope'), "a"],
    ["arithmetic by rank", wrap("quote(1 + 2 * 3 - 4 / 2 % 3)"), "5"],
    ["membership in a list", wrap('ctx.stage in ["test", "qa"] ? "a" : "b"'), "a"],
    ["membership among keys", wrap('"beta" in vars.flags ? "a" : "b"'), "a"],
    ["comparisons of texts", wrap('"a" < "b" && "b" >= "b" ? "a" : "b"'), "a"],
    ["parts of a text", wrap('ctx.stage startsWith "te" && ctx.stage contains "es" ? "a" : "b"'), "a"],
    ["?? ranks above +", wrap('"a" + nil ?? "b"'), "ab"],
    ["optional access", wrap("ctx?.stage"), "test"],
    ["optional access to nothing", wrap('nil?.a.b.c ?? "none"'), "none"],
    ["the first characters", wrap("vars.region[:2]"), "eu"],
    ["the last characters", wrap("quote(vars.region[-2:])"), "-1"],
    ["characters between", wrap("vars.region[ 3 : 3 + 4 ]"), "west"],
    ["an element", wrap('split(vars.region, "-")[-1] + "x"'), "1x"],
    ["a condition in brackets", wrap('vars.flags[true ? "beta" : "x"]'), "on"],
    ["functions on texts", wrap('upper(trimPrefix(trim(" v1a "), "v")) + lower("B")'), "1Ab"],
    ["replace and join", wrap('replace("a.b.c", ".", "-") + join(["x", "y"], "/")'), "a-b-cx/y"],
    ["length and text of a number", wrap('"n" + string(len("abc"))'), "n3"],
    [
      "asJSON() sorts keys, escapes as Go does and ends its lines",
      wrap("asJSON(vars.flags)"),
      '{\n  "beta": "on",\n  "list": [\n    1\n  ]\n}\n',
    ],
    ["quote() escapes as Go does", wrap('quote(["<"])'), '["\\u003c"]'],
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
    ["a computed name that is none", wrap("ctx[vars.region]"), "eu-west-1 is not defined"],
    ["a list in brackets", wrap("ctx[[1]]"), "brackets"],
    ["a method call", wrap('ctx.stage.constructor("x")'), "not supported"],
    ["quote() without an argument", wrap("quote()"), "one argument"],
    ["quote() with two", wrap("quote(1, 2)"), "one argument"],
    ["an operator of JavaScript's", wrap("1 === 1"), "Expected expression after =="],
    ["a bitwise operator", wrap("1 | 1"), "Unexpected"],
    ["a comparison of different kinds", wrap('1 == "1"'), "compared"],
    ["a condition that is none", wrap('"yes" ? "a" : "b"'), "true or false"],
    ["a division by zero", wrap("1 / 0"), "not a number"],
    ["the text of a large number", wrap("string(1000000)"), "below a million"],
    ["a negative zero", wrap("quote(0 * -1.5)"), "negative zero"],
    ["a remainder of fractions", wrap("1.5 % 1"), "operator %"],
    ["a difference of texts", wrap('"b" - "a"'), "operator -"],
    ["a list's element that is not there", wrap('split("a", "/")[1]'), "has no 1"],
    ["a cut through letters of several bytes", wrap('"é"[:1]'), "ASCII"],
    ["upper case beyond ASCII", wrap('upper("ß")'), "ASCII"],
    ["a replacement that explodes", wrap('replace(vars.long, "a", vars.long)'), "longer"],
    ["escapes that double with each call", wrap(`${"quote(".repeat(40)}'"'${")".repeat(40)}`), "longer"],
    ["text plus number", wrap('"a" + 1'), "two texts or two numbers"],
    ["two expressions", wrap("1 2"), "more than one"],
    ["nothing at all", wrap(" "), "empty"],
    ["a syntax error", wrap('"a'), "Unclosed quote"],
    ["a missing end", `a $${"{{"} ctx.stage`, "is missing"],
    ["a missing end of the other delimiters", `$${"{%"} ctx.stage }}`, "is missing"],
    ["an escape that would be dropped in silence", wrap('"\\u0041"'), "escape"],
    ["a number that is not exact", wrap("12345678901234567890"), "too large"],
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
    "constructor",
    "prototype",
    "imageFrom",
    "commitFrom",
    "warehouse",
    "semverParse",
    "split",
    "asJSON",
    "Annotations",
    "IncMinor",
    "'r'",
    "?.",
    "??",
    " in ",
    "==",
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
          if (!/\$\{[{%]/.test(template)) expect(value).toBe(template);
          expect(JSON.stringify(value)).not.toContain("${{");
          expect(JSON.stringify(value)).not.toContain("${%");
          expect(JSON.stringify(value)).not.toContain("[native code]");
        } catch (error) {
          expect(isFault(error, "Permanent"), String(error)).toBe(true);
        }
      },
    ),
    { numRuns: 2000 },
  );
});
