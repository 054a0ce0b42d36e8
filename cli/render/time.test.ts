import { describe, expect, it } from "vitest";
import { formatAbsolute, formatAge, formatDuration, parseDuration } from "./time.ts";

const [S, M, H, D] = [1000, 60_000, 3_600_000, 86_400_000];

describe("times", () => {
  it.each([
    [-5 * S, "now"],
    [999, "now"],
    [59 * S, "59s ago"],
    [2 * M, "2m ago"],
    [59 * M, "59m ago"],
    [47 * H, "47h ago"],
    [90 * D, "90d ago"],
  ])("tells %d ms as %s", (passed, text) => {
    expect(formatAge(10 * D * 100, 10 * D * 100 + passed)).toBe(text);
  });

  it.each([
    [0, "<1s"],
    [9 * S, "9s"],
    [M, "1m"],
    [90 * S, "1m30s"],
    [2 * H + 5 * M, "2h5m"],
    [3 * D + 4 * H, "3d4h"],
  ])("tells a duration of %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it.each([
    ["90s", 90 * S],
    ["10m", 10 * M],
    ["1h30m", 90 * M],
    ["10", undefined],
    ["-1m", undefined],
    ["0s", undefined],
    ["ten minutes", undefined],
  ])("reads %s", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it("is absolute in UTC where asked", () => {
    expect(formatAbsolute(Date.UTC(2030, 0, 2, 3, 4, 5))).toBe("2030-01-02 03:04:05Z");
  });
});
