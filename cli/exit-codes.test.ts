import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Fault } from "../shared/domain/fault.ts";
import { CommandError } from "./command-error.ts";
import { describeExitCodes, EXIT_CODES, exitCodeOfError, exitCodeOfPhase } from "./exit-codes.ts";

describe("exit codes", () => {
  it("tells every terminal phase apart", () => {
    const phases = ["Successful", "Failed", "Error", "Aborted", "Inconclusive"] as const;
    expect(phases.map(exitCodeOfPhase)).toEqual([0, 10, 11, 12, 13]);
  });

  it.each([
    [new CommandError("usage", ""), 2],
    [new CommandError("notFound", ""), 4],
    [new CommandError("unreachable", ""), 5],
    [new Fault("Transient", ""), 5],
    [new Fault("Conflict", ""), 5],
    [new Fault("Invalid", ""), 2],
    [new Fault("Permanent", ""), 1],
    [new TypeError("a mistake of ours"), 1],
    ["a text", 1],
  ])("gives %s the code %d", (error, code) => {
    expect(exitCodeOfError(error)).toBe(code);
  });

  it("are no two the same, and all in help and documentation", () => {
    const codes = Object.values(EXIT_CODES);
    expect(new Set(codes).size).toBe(codes.length);
    const documentation = readFileSync(new URL("../docs/cli.md", import.meta.url), "utf8");
    for (const line of describeExitCodes().split("\n").slice(1)) {
      const [, code, meaning] = /^ *(\d+) {2}(.*)$/.exec(line) ?? [];
      expect(documentation).toMatch(new RegExp(`^\\| ${code} +\\| ${meaning} *\\|$`, "m"));
    }
  });
});
