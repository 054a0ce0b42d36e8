import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isGlob, matchStages, parseAuthorizedStages } from "./authorized-stages.ts";

const at = (text: string) => {
  const [project = "", name = ""] = text.split("/");
  return { project, name };
};
const KNOWN = ["shop/dev", "shop/qa", "shop/prod", "mill/dev", "mill/dev-eu"].map(at);
const resolve = (value: string) =>
  matchStages(parseAuthorizedStages(value).patterns, KNOWN).map(({ project, name }) => `${project}/${name}`);

describe("an authorized-stage annotation", () => {
  it.each([
    ["names one Stage", "shop:dev", ["shop/dev"]],
    ["names several, with blanks and empty entries", " shop:dev , shop : qa,, ", ["shop/dev", "shop/qa"]],
    ["names one twice, which is once", "shop:dev,shop:dev", ["shop/dev"]],
    ["names one that is not known, which blocks no other", "gone:x,shop:dev", ["shop/dev"]],
    ["has a glob for the Stage", "shop:*", ["shop/dev", "shop/qa", "shop/prod"]],
    ["has a glob for the Project", "*:dev", ["shop/dev", "mill/dev"]],
    ["has a glob within a name", "mill:d*v-*u", ["mill/dev-eu"]],
    ["has stars only", "*:**", KNOWN.map(({ project, name }) => `${project}/${name}`)],
    ["has characters that other globs know, which are literal", "shop:[dq]*,shop:de?", []],
    ["has a second colon, which belongs to the Stage", "shop:dev:x", []],
  ])("%s", (_what, value, expected) => {
    expect(resolve(value)).toEqual(expected);
    expect(parseAuthorizedStages(value).malformed).toEqual([]);
  });

  it.each([
    ["without a colon", "shop/dev", /"shop\/dev" is not of the form project:stage/],
    ["without a Project", ":dev", /":dev" is not/],
    ["without a Stage", "shop: ", /"shop:" is not/],
    ["that is empty", "", /no Stage is named/],
    ["of commas only", " , ,", /no Stage is named/],
  ])("%s is reported", (_what, value, reason) => {
    expect(parseAuthorizedStages(value).malformed).toEqual([expect.stringMatching(reason)]);
  });

  it("with a malformed entry counts for its good ones", () => {
    const value = "shop,shop:dev,:x,mill:dev";
    expect(resolve(value)).toEqual(["shop/dev", "mill/dev"]);
    expect(parseAuthorizedStages(value).malformed).toHaveLength(2);
  });

  it("never breaks, whatever it holds: every entry is taken or named (10,000 values)", () => {
    const part = fc.string({ unit: "binary", maxLength: 30 });
    const value = fc.oneof(
      part,
      fc
        .array(fc.tuple(part, fc.constantFrom(":", ",", " ", "*", "::", ""), part), { maxLength: 20 })
        .map((each) => each.flat().join(",")),
      fc.constantFrom(
        "*".repeat(10_000),
        `${"*a".repeat(5_000)}:${"*b".repeat(5_000)}`,
        "__proto__:constructor",
      ),
    );
    fc.assert(
      fc.property(value, (text) => {
        const { patterns, malformed } = parseAuthorizedStages(text);
        const entries = text.split(",").filter((entry) => entry.trim() !== "").length;
        expect(patterns.length + malformed.length).toBe(Math.max(1, entries));
        for (const stage of matchStages(patterns, KNOWN)) expect(KNOWN).toContain(stage);
      }),
      { numRuns: 10_000 },
    );
  });

  it("matches a glob as a regular expression would", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "b", "-"), maxLength: 8 });
    const glob = fc.string({ unit: fc.constantFrom("a", "b", "*"), minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(text, glob, (name, stage) => {
        const pattern = { project: "p", stage };
        const expected = new RegExp(`^${stage.replaceAll("*", ".*")}$`).test(name);
        expect(matchStages([pattern], [{ project: "p", name }]).length > 0).toBe(expected);
        expect(isGlob(pattern)).toBe(stage.includes("*"));
      }),
    );
  });
});
