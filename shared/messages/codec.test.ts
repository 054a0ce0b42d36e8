import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, expectTypeOf, it } from "vitest";
import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import { Fault, isFault } from "../domain/fault.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import { buildMessage, decodeMessage, MAX_MESSAGE_BYTES } from "./codec.ts";
import { deriveDeduplicationId, deriveMessageGroup } from "./group.ts";
import type { MessageKind, ObservedRun, ObservedStage } from "./schema.ts";

const valid = {
  specversion: "1.0",
  id: "1",
  source: "test/pier",
  type: "dev.tallyman.verify",
  data: { project: "harbour", stage: "dev" },
};

function reasonsFor(message: unknown, kind: MessageKind = "verify"): readonly string[] {
  try {
    decodeMessage(typeof message === "string" ? message : JSON.stringify(message), kind);
  } catch (error) {
    if (isFault(error, "Invalid")) return error.reasons;
    throw error;
  }
  return [];
}

describe("a message", () => {
  it("carries what the domain decides on (checked by the compiler)", () => {
    expectTypeOf<ObservedStage>().toExtend<StageSnapshot>();
    expectTypeOf<ObservedRun>().toExtend<AnalysisRunSnapshot>();
  });

  it("of the documentation is valid", () => {
    const text = readFileSync(join(import.meta.dirname, "../../docs/messages.md"), "utf8");
    const [, example = ""] = /```json\n([\s\S]*?)```/.exec(text) ?? [];
    expect(reasonsFor(example, "reverify")).toEqual([]);
  });

  it("may carry extension attributes, as CloudEvents has them", () => {
    expect(reasonsFor({ ...valid, traceparent: "00-1-2-01" })).toEqual([]);
  });

  it.each([
    [
      "a misspelt key in data",
      { ...valid, data: { ...valid.data, verificationID: "x" } },
      /data: .*verificationID/,
    ],
    ["no data", { ...valid, data: undefined }, /^data: .*expected object/],
    [
      "a Project that is no DNS label",
      { ...valid, data: { ...valid.data, project: "Harbour" } },
      /^data\.project: must be a DNS label/,
    ],
    [
      "a Stage that is no name",
      { ...valid, data: { ...valid.data, stage: "../x" } },
      /^data\.stage: must be a Kubernetes object name/,
    ],
    ["another version", { ...valid, specversion: "0.3" }, /^specversion: /],
    ["an unknown type", { ...valid, type: "dev.tallyman.dance" }, /^type: /],
    ["an empty id", { ...valid, id: "" }, /^id: /],
    ["a time that is none", { ...valid, time: "yesterday" }, /^time: /],
    ["a list", [], /expected object/],
    ["null", null, /expected object/],
  ])("with %s is refused, naming the field", (_title, message, expected) => {
    expect(reasonsFor(message).join("\n")).toMatch(expected);
  });

  it("that is not JSON is refused with the parser's words", () => {
    expect(reasonsFor("{oops")[0]).toMatch(/^the body is not JSON: /);
  });

  it("in another kind's queue is refused", () => {
    expect(reasonsFor(valid, "abort")).toEqual([
      "type: dev.tallyman.verify does not belong in the abort queue",
    ]);
  });

  it("larger than SQS takes is refused unread", () => {
    expect(reasonsFor("x".repeat(MAX_MESSAGE_BYTES + 1))[0]).toMatch(/larger than/);
  });

  it("whose snapshot is of another Stage is refused: it would act on a Stage it was not sent for", () => {
    const observed = {
      kind: "AnalysisRun",
      uid: "u",
      project: "harbour",
      name: "r",
      resourceVersion: "1",
      stage: "prod",
      phase: "",
      terminating: false,
      deleted: false,
      metrics: [],
      omittedMetrics: 0,
    };
    expect(reasonsFor({ ...valid, data: { ...valid.data, observed } })[0]).toContain("is of Stage prod");
  });

  it("survives its way through the queue", () => {
    fc.assert(
      fc.property(
        fc.constantFrom<MessageKind>("verify", "abort", "reverify"),
        fc.string({ minLength: 1, maxLength: 256 }),
        fc.string({ minLength: 1, maxLength: 512 }),
        (kind, id, actor) => {
          const message = buildMessage(
            kind,
            { id, source: "test", time: new Date(0) },
            { ...valid.data, actor },
          );
          expect(decodeMessage(JSON.stringify(message), kind)).toEqual(message);
        },
      ),
    );
  });

  it("of any shape is decoded or refused as Invalid, never anything else (10,000 of them)", () => {
    const leaf = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constantFrom("__proto__", "constructor", 1e308, -0, ""),
    );
    const shaped = fc.record(
      {
        specversion: fc.oneof(fc.constant("1.0"), leaf),
        id: leaf,
        source: leaf,
        type: fc.oneof(fc.constant("dev.tallyman.verify"), leaf),
        data: fc.oneof(
          leaf,
          fc.record({ project: leaf, stage: leaf, observed: leaf, __proto__: leaf }, { requiredKeys: [] }),
        ),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        fc.oneof(
          shaped.map((each) => JSON.stringify(each)),
          fc.string(),
          fc.string({ unit: "binary" }),
        ),
        (body) => {
          try {
            decodeMessage(body, "verify");
          } catch (error) {
            expect(error).toBeInstanceOf(Fault);
            expect((error as Fault).kind).toBe("Invalid");
            expect((error as Fault).reasons.length).toBeGreaterThan(0);
          }
        },
      ),
      { numRuns: 10_000 },
    );
    expect(Object.prototype).not.toHaveProperty("polluted");
  });
});

describe("what SQS is told", () => {
  const letters = "abcdefghijklmnopqrstuvwxyz0123456789-".split("");
  const name = (max: number) =>
    fc.array(fc.constantFrom(...letters), { minLength: 1, maxLength: max }).map((each) => each.join(""));
  const key = fc.record({ cluster: name(63), project: name(63), stage: name(253) });

  it("groups are at most 128 characters and never shared by two Stages", () => {
    fc.assert(
      fc.property(key, key, (a, b) => {
        const [x, y] = [deriveMessageGroup(a), deriveMessageGroup(b)];
        expect(x.length).toBeLessThanOrEqual(128);
        expect(x === y).toBe(JSON.stringify(Object.values(a)) === JSON.stringify(Object.values(b)));
      }),
    );
  });

  it("the deduplication id is the message's identity, source and id together", () => {
    expect(deriveDeduplicationId({ source: "a", id: "bc" })).not.toBe(
      deriveDeduplicationId({ source: "ab", id: "c" }),
    );
    expect(deriveDeduplicationId({ source: "a", id: "b" })).toBe(
      deriveDeduplicationId({ source: "a", id: "b" }),
    );
  });
});
