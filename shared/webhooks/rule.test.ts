import { describe, expect, it } from "vitest";
import { parseReceivers } from "../../test/harness/webhooks.ts";
import { compileExpression } from "./expression.ts";
import { compileRule } from "./rule.ts";
import { parseValuePath, readText, readValue } from "./value-path.ts";

const DOCUMENT = {
  plain: "uat",
  "dashed-name": 7,
  labels: { "app.kubernetes.io/name": "lanterns", "it's": true },
  list: ["zero", { name: "one" }],
  nothing: null,
};

describe("a path", () => {
  it.each([
    ["$.plain", "uat"],
    ["$.dashed-name", "7"],
    ['$.labels["app.kubernetes.io/name"]', "lanterns"],
    ["$['labels']['app.kubernetes.io/name']", "lanterns"],
    [`$.labels["it's"]`, "true"],
    ["$.list[0]", "zero"],
    ["$.list[1].name", "one"],
    ["$.list[2]", undefined],
    ["$.list.length", undefined],
    ['$.list["0"]', undefined],
    ["$.plain[0]", undefined],
    ["$.nothing", undefined],
    ["$.nothing.more", undefined],
    ["$.labels", undefined],
    ["$.constructor", undefined],
    ["$.labels.toString", undefined],
  ])("%s leads to %s", (text, expected) => {
    const path = parseValuePath(text);
    if (path === undefined) throw new Error("is no path");
    expect(readText(DOCUMENT, path)).toBe(expected);
  });

  it.each([
    "",
    "$",
    "plain",
    "$plain",
    "$.",
    "$.a.",
    "$.a b",
    "$.a[",
    "$.a[-1]",
    "$.a[*]",
    "$..a",
    "$.a['b",
    "$.a[b]",
    "$.ä",
    `$${".a".repeat(21)}`,
    `$.${"a".repeat(300)}`,
  ])("%s is none", (text) => expect(parseValuePath(text)).toBeUndefined());

  it("finds a key that JSON has and JavaScript inherits, and only then", () => {
    const path = parseValuePath("$.__proto__.x");
    if (path === undefined) throw new Error("is no path");
    expect(readValue({}, path)).toBeUndefined();
    expect(readValue(JSON.parse('{"__proto__":{"x":1}}'), path)).toBe(1);
  });
});

describe("a condition", () => {
  const holds = (condition: object): boolean => {
    const [receiver] = parseReceivers([
      {
        ...{ name: "any", type: "generic", secrets: ["a"] },
        signature: { header: "X", algorithm: "sha256", encoding: "hex" },
        rules: [{ name: "r", command: "verify", project: "p", stage: "s", when: [condition] }],
      },
    ]);
    const [rule] = receiver?.rules ?? [];
    if (rule === undefined) throw new Error("no rule");
    const occurrence = { event: undefined, document: DOCUMENT, identity: "x" };
    return compileRule(rule)(occurrence, { receiver: "any", clusters: ["c"], now: 0 }) !== undefined;
  };

  it.each<[condition: object, expected: boolean]>([
    [{ field: "$.plain", equals: "uat" }, true],
    [{ field: "$.plain", equals: "UAT" }, false],
    [{ field: "$.dashed-name", equals: 7 }, true],
    [{ field: "$.dashed-name", equals: "7" }, false],
    [{ field: "$.absent", equals: "undefined" }, false],
    [{ field: "$.plain", in: ["dev", "uat"] }, true],
    [{ field: "$.plain", in: ["dev"] }, false],
    [{ field: "$.plain", matches: "u[a-z]+" }, true],
    [{ field: "$.plain", matches: "a" }, false],
    [{ field: "$.plain", matches: "dev|ua" }, false],
    [{ field: "$.dashed-name", matches: "7" }, false],
    [{ field: "$.plain", exists: true }, true],
    [{ field: "$.plain", exists: false }, false],
    [{ field: "$.nothing", exists: false }, true],
    [{ field: "$.absent", exists: false }, true],
    [{ field: "$.constructor", exists: true }, false],
  ])("%j: %s", (condition, expected) => expect(holds(condition)).toBe(expected));
});

describe("an expression", () => {
  it.each(["(a+)+b", "(a|a)*b", "(.*)*(.*)*(.*)*x", "(a?){100}a{100}b"])(
    "%s, which would keep a backtracking engine for ever, is through with at once",
    (pattern) => {
      const matches = compileExpression(pattern);
      const started = performance.now();
      expect(matches("a".repeat(4096))).toBe(false);
      expect(performance.now() - started).toBeLessThan(1_000);
    },
  );

  it("matches no text that is longer than anybody needs", () => {
    expect(compileExpression("a*")("a".repeat(4097))).toBe(false);
  });
});
