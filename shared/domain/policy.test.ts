import { describe, expect, it } from "vitest";
import { findLimit, findOtherShard } from "./policy.ts";

describe("a limit", () => {
  it.each([
    ["the Stage's own", { deadline: 60 }, { deadline: 600 }, 60],
    ["the installation's, where the Stage says nothing", {}, { deadline: 600 }, 600],
    ["none, where the Stage wants none", { deadline: 0 }, { deadline: 600 }, undefined],
    ["none, where nobody says anything", {}, {}, undefined],
  ])("is %s", (_what, stage, policy, expected) => {
    expect(findLimit("deadline", stage, policy)).toBe(expected);
  });
});

describe("a shard", () => {
  it.each([
    ["anything is ours where no shard is configured", "blue", undefined, true],
    ["its own Stages are", "blue", "blue", true],
    ["another shard's are not", "green", "blue", false],
    ["unlabelled ones are not a named shard's", undefined, "blue", false],
    ["unlabelled ones are the default installation's", undefined, "", true],
    ["labelled ones are not the default installation's", "blue", "", false],
  ])("%s", (_what, actual, configured, ours) => {
    const stage = actual === undefined ? {} : { shard: actual };
    expect(findOtherShard(stage, configured === undefined ? {} : { shard: configured }) === undefined).toBe(
      ours,
    );
  });
});
