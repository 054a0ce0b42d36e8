import { describe, expect, it } from "vitest";
import { evaluateCondition, judge } from "./condition.ts";

describe("evaluateCondition", () => {
  it.each([
    ["result == 1", 1, true],
    ["result != 'ok'", "ok", false],
    ["result >= 0.95", 0.97, true],
    ["result[0] < 0.05 && result[1] > 2", [0.01, 3], true],
    ["result.ok || result.maybe", { ok: false, maybe: true }, true],
    ["!(result == 'a' or result == 'b')", "c", true],
    ["not (result > 3)", 2, true],
    ["result in ['a', 'b']", "b", true],
    ["len(result) == 0 || result[0] <= 1", [], true],
    ["all(result, # > 1)", [2, 3], true],
    ["all(result, {# > 2})", [2, 3], false],
    ["any(result, {#.code == 200})", [{ code: 500 }, { code: 200 }], true],
    ["none(result, # < 0)", [1], true],
    ["asFloat(result) > 0.5", "0.7", true],
    ["asInt(result) == 7", "7", true],
    ["isNil(result) || result > 1", null, true],
    ["default(result, 0) == 0", null, true],
    ["result * 2 + 1 == 7", 3, true],
    ["-result < 0", 3, true],
    ["result['a b'] == 1", { "a b": 1 }, true],
    ["result[-1] == 3", [1, 3], true],
    ["result % 2 == 1", 3, true],
    ["!isNaN(result) && !isInf(result)", 1, true],
  ])("%s of %j is %s", (condition, result, expected) => {
    expect(evaluateCondition(condition, result)).toBe(expected);
  });

  it.each([
    ["result", 1, "expected bool"],
    ["result >", 1, "unexpected token"],
    ["result > 1 1", 1, "unexpected token"],
    ["result > 'a'", 1, "invalid operation"],
    ["result[3] > 1", [1], "index out of range"],
    ["result.a.b == 1", {}, "cannot fetch"],
    ["process.exit(1)", 1, "unknown name process"],
    ["constructor('x')", 1, "unknown name constructor"],
    ["result; 1", 1, "unrecognized character"],
    ["all(result, # > 1)", 1, "takes only array"],
    ["", 1, "unexpected token"],
  ])("%s of %j is an error", (condition, result, message) => {
    expect(() => evaluateCondition(condition, result)).toThrow(message);
  });

  it("sees a value's own fields and nothing of its prototype", () => {
    expect(evaluateCondition("result.constructor == nil", {})).toBe(true);
  });
});

describe("judge", () => {
  it.each([
    [{}, "Successful"],
    [{ successCondition: "result > 1" }, "Successful"],
    [{ successCondition: "result > 9" }, "Failed"],
    [{ failureCondition: "result > 1" }, "Failed"],
    [{ failureCondition: "result > 9" }, "Successful"],
    [{ successCondition: "result > 1", failureCondition: "result > 1" }, "Failed"],
    [{ successCondition: "result > 9", failureCondition: "result > 9" }, "Inconclusive"],
  ])("of 5 by %j is %s", (metric, expected) => {
    expect(judge(metric, 5)).toBe(expected);
  });

  it("says which condition cannot be evaluated", () => {
    expect(() => judge({ successCondition: "result >" }, 5)).toThrow(
      'could not evaluate successCondition "result >"',
    );
  });
});
