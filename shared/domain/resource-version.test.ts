import { describe, expect, it } from "vitest";
import { Fault, isFault } from "./fault.ts";
import { compareResourceVersions } from "./resource-version.ts";

describe("resourceVersions are ordered as numbers", () => {
  it.each([
    ["9", "10", -1],
    ["100", "10", 1],
    ["7", "007", 0],
    ["18446744073709551615", "18446744073709551614", 1],
  ])("%s against %s", (a, b, order) => {
    expect(compareResourceVersions(a, b)).toBe(order);
  });

  it.each(["", "-1", "1.0", "0x1", " 1", "1e3", "9".repeat(21)])("%j is refused", (text) => {
    expect(() => compareResourceVersions(text, "1")).toThrow(Fault);
  });
});

it("a fault is of one kind and lists each reason", () => {
  const fault = new Fault("Permanent", ["a is wrong", "b is wrong"]);
  expect(fault.message).toBe("a is wrong; b is wrong");
  expect(isFault(fault, "Permanent")).toBe(true);
  expect(isFault(fault, "Transient")).toBe(false);
  expect(isFault(new Error("other"))).toBe(false);
  expect(new Fault("Invalid", "one").reasons).toEqual(["one"]);
});
