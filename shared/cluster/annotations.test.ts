import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readAnnotationRequest } from "./annotations.ts";

const V1 = "0f7c7a52-3f0e-5a5e-9a55-52d7c2a2b6aa";

describe("a reverify or abort annotation asks for a verification", () => {
  it.each([
    ["a bare id", V1, { id: V1 }],
    ["an object with an id", `{"id":"${V1}"}`, { id: V1 }],
    [
      "an object with actor and control plane flag",
      `{"id":"${V1}","actor":"email:ada@example.test","controlPlane":true}`,
      { id: V1, actor: "email:ada@example.test", controlPlane: true },
    ],
    ["keys in any case, as Go decodes them", `{"ID":"${V1}","Actor":"ada"}`, { id: V1, actor: "ada" }],
    ["unknown keys beside it", `{"id":"${V1}","colour":{"a":1}}`, { id: V1 }],
    ["a null actor, which Go leaves alone", `{"id":"${V1}","actor":null}`, { id: V1 }],
    ["digits only: the raw value is the id", "123", { id: "123" }],
    ["another JSON scalar: the raw value is the id", "true", { id: "true" }],
    ["a JSON text: the raw value, quotes and all, is the id", '"abc"', { id: '"abc"' }],
    ["text that is not trimmed", ` ${V1} `, { id: ` ${V1} ` }],
    ["broken JSON, which is a bare id", '{"id":', { id: '{"id":' }],
  ])("%s", (_title, value, expected) => {
    expect(readAnnotationRequest(value)).toEqual({ kind: "request", request: { ...expected, value } });
  });
});

describe("a reverify or abort annotation asks for nothing", () => {
  it.each([
    ["absent", undefined],
    ["empty", ""],
    ["null", "null"],
    ["an empty object", "{}"],
    ["an object with an actor only", '{"actor":"x"}'],
    ["an object with a numeric id", '{"id":5}'],
    ["an object with an empty id", '{"id":""}'],
    ["an id on the prototype", '{"__proto__":{"id":"x"}}'],
  ])("%s", (_title, value) => {
    expect(readAnnotationRequest(value)).toEqual({ kind: "none" });
  });
});

describe("a reverify or abort annotation is rejected with a reason", () => {
  it.each([
    ["a list", "[]", "list"],
    ["an actor that is no text", `{"id":"${V1}","actor":5}`, "actor"],
    ["a control plane flag that is no boolean", `{"id":"${V1}","controlPlane":"yes"}`, "controlPlane"],
    ["a value above 4,096 characters", "x".repeat(4097), "4096"],
    ["a bare id above 256 characters", "x".repeat(257), "256"],
    ["an id above 256 characters", JSON.stringify({ id: "x".repeat(257) }), "256"],
  ])("%s", (_title, value, reason) => {
    expect(readAnnotationRequest(value)).toEqual({
      kind: "rejected",
      reason: expect.stringContaining(reason),
    });
  });
});

it("whatever the value, a reading comes back and a request stays within its bounds", async () => {
  await fc.assert(
    fc.property(fc.oneof(fc.string({ maxLength: 300 }), fc.json()), (value) => {
      const reading = readAnnotationRequest(value);
      if (reading.kind !== "request") return;
      expect(reading.request.value).toBe(value);
      expect(reading.request.id.length).toBeGreaterThan(0);
      expect(reading.request.id.length).toBeLessThanOrEqual(256);
    }),
    { numRuns: 300 },
  );
});
