import { describe, expect, it } from "vitest";
import { refusalOf } from "./refusal.ts";

describe("which answers only a new list can cure", () => {
  it.each<[string, number, unknown, boolean]>([
    ["410", 410, {}, true],
    ["reason Expired", 500, { reason: "Expired" }, true],
    ["reason Gone", 500, { reason: "Gone" }, true],
    ["a version the server cannot read", 400, { message: "invalid resource version" }, true],
    [
      "a version from the future",
      504,
      { details: { causes: [{ reason: "ResourceVersionTooLarge" }] } },
      true,
    ],
    ["500", 500, {}, false],
    ["503 in text", 503, "no upstream", false],
    ["429", 429, { reason: "TooManyRequests" }, false],
    ["401", 401, {}, false],
    ["403", 403, {}, false],
    ["404, before the resource type is installed", 404, {}, false],
    ["an ERROR event without a code", 0, null, false],
  ])("%s: %#", (_, status, body, expired) => {
    const refusal = refusalOf("GET /stages", { status, body }, 0);
    expect(refusal).toMatchObject({ kind: "Transient", expired });
  });

  it("says what was asked and what the server or a proxy answered", () => {
    expect(
      refusalOf("GET /stages", { status: 403, body: { message: "stages is forbidden" } }, 0).message,
    ).toBe("GET /stages: answered with 403: stages is forbidden");
    expect(refusalOf("GET /stages", { status: 502, body: "  bad gateway\n" }, 0).message).toContain(
      "bad gateway",
    );
  });
});

describe("Retry-After", () => {
  it.each([
    ["soon", 0],
    ["-5", 0],
    ["Thu, 01 Jan 1970 00:00:07 GMT", 7_000],
    ["1", 1_000],
    ["1e9", 300_000],
  ])("%j is %d ms", (retryAfter, expected) => {
    expect(refusalOf("GET /stages", { status: 429, body: {}, retryAfter }, 0).retryAfterMs).toBe(expected);
  });
});
