import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatDuration, parseDuration } from "./duration.ts";

describe("a duration", () => {
  it.each([
    ["30m", 1800],
    ["1h30m", 5400],
    ["90s", 90],
    ["1.5h", 5400],
    ["0", 0],
    ["0s", 0],
  ])("%s is %i seconds", (text, seconds) => {
    expect(parseDuration(text)).toBe(seconds);
  });

  it.each(["", "30", "5 minutes", "-5m", "1d", "m", "1h30", "PT30M", "1e3s", `${"9".repeat(40)}s`])(
    "%j is none",
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );

  it("is read back as it was written", () => {
    fc.assert(
      fc.property(fc.nat(10_000_000), (seconds) => {
        expect(parseDuration(formatDuration(seconds))).toBe(seconds);
      }),
    );
  });
});
