import fc from "fast-check";
import { createPatch } from "rfc6902";
import { describe, expect, it } from "vitest";
import { ApiError } from "./api-status.ts";
import { applyJsonPatch, mergePatch } from "./patches.ts";

const json = fc.jsonValue({ maxDepth: 3 });

function codeOf(action: () => unknown): number | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    if (error instanceof ApiError) return error.status.code;
    throw error;
  }
}

describe("merge patch", () => {
  it.each([
    [{ a: "b" }, { a: "c" }, { a: "c" }],
    [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
    [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
    [{ a: ["b"] }, { a: "c" }, { a: "c" }],
    [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
    [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: "b", c: null }, { a: "b" }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])("of %j with %j is %j, as RFC 7386 says", (target, patch, expected) => {
    expect(mergePatch(target, patch)).toEqual(expected);
  });

  it("changes neither target nor patch, and applied twice changes nothing more", () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const [before, given] = [JSON.stringify(target), JSON.stringify(patch)];
        const once = mergePatch(target, patch);
        expect(mergePatch(once, patch)).toEqual(once);
        expect([JSON.stringify(target), JSON.stringify(patch)]).toEqual([before, given]);
      }),
    );
  });

  it("does not let a patch reach a prototype", () => {
    const patched = mergePatch({}, JSON.parse('{"__proto__":{"polluted":true}}'));
    expect(Object.getPrototypeOf(patched)).toBe(Object.prototype);
    expect({}).not.toHaveProperty("polluted");
  });
});

describe("JSON patch", () => {
  it("leads from any document to any other by their difference", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), json), fc.dictionary(fc.string(), json), (from, to) => {
        // Keys of prototypes are out of rfc6902's reach on purpose.
        fc.pre(!JSON.stringify([from, to]).includes("__proto__"));
        const before = JSON.stringify(from);
        expect(JSON.stringify(sorted(applyJsonPatch(from, createPatch(from, to))))).toBe(
          JSON.stringify(sorted(to)),
        );
        expect(JSON.stringify(from)).toBe(before);
      }),
    );
  });

  it.each([
    ["a failing test", [{ op: "test", path: "/a", value: 2 }], 422],
    ["removing what is not there", [{ op: "remove", path: "/b" }], 422],
    ["replacing what is not there", [{ op: "replace", path: "/b", value: 1 }], 422],
    ["adding below what is not there", [{ op: "add", path: "/b/c", value: 1 }], 422],
    ["an unknown operation", [{ op: "append", path: "/a" }], 422],
    ["no list", { op: "remove", path: "/a" }, 400],
  ])("refuses %s", (_, patch, code) => {
    expect(codeOf(() => applyJsonPatch({ a: 1 }, patch))).toBe(code);
  });
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => [key, sorted(inner)]);
}
