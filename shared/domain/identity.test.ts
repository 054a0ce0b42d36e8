import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  computeCollectionId,
  deriveAnalysisRunName,
  deriveAnnotationRequestId,
  deriveVerificationId,
  formatStageKey,
  parseStageKey,
  shortenLabel,
} from "./identity.ts";

const UID = "0b5f6a7e-1111-4222-8333-444455556666";
const F1 = computeCollectionId(["f1"]);

describe("FreightCollection ids are Kargo's", () => {
  it.each([
    [["f1"], "c09bb890b096f7306f688cc6d1dad34e7e52a223"],
    [["f1", "f2"], "cf748a44084b477af14b4c36685f5c54dc660488"],
    [["f2", "f1"], "cf748a44084b477af14b4c36685f5c54dc660488"],
    [["319ddec6bbfbd808d499a0357b027e773aa3707f"], "55d452301040a73e9fd05289b1f8ddbec1791222"],
  ])("%j", (names, id) => {
    expect(computeCollectionId(names)).toBe(id);
  });
});

describe("labels are shortened as Kargo does", () => {
  it.each([
    ["test", "test"],
    ["a".repeat(63), "a".repeat(63)],
    [
      "this-is-a-very-long-stage-name-that-exceeds-the-label-length-and-should-be-truncated",
      "this-is-a-very-long-stage-name-that-exceeds-the-label-1c0a17e1",
    ],
    [`${"a".repeat(53)}${"-".repeat(11)}`, `${"a".repeat(53)}-08d4c605`],
  ])("%s", (name, label) => {
    expect(shortenLabel(name)).toBe(label);
  });
});

describe("a verification's id follows from what asked for it", () => {
  // Ids in ledgers hang on these: they must never change.
  it.each([
    [{ kind: "promotion", promotion: "test.01" }, F1, "0e61038a-afa4-5299-9d71-4e768cd6c804"],
    [{ kind: "promotion", promotion: "test.02" }, F1, "3fa2185c-1f48-58a0-b13d-54475176befb"],
    [{ kind: "reverify", of: "v1" }, "x", "aa11ec2f-e9df-5c67-a2ad-71fc03e9777b"],
    [{ kind: "request", requestId: "r1" }, "x", "a17aad90-c5f1-52ad-9424-5367c02c1b63"],
  ] as const)("%j", (cause, collectionId, id) => {
    expect(deriveVerificationId(cause, UID, collectionId)).toBe(id);
  });

  it("another Promotion, collection or Stage is another verification", () => {
    const cause = { kind: "promotion", promotion: "test.01" } as const;
    const ids = [
      deriveVerificationId(cause, UID, F1),
      deriveVerificationId({ ...cause, promotion: "test.02" }, UID, F1),
      deriveVerificationId(cause, UID, computeCollectionId(["f2"])),
      deriveVerificationId(cause, "another", F1),
    ];
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("a reverify of X has one successor, whatever Freight the Stage holds by then", () => {
    const cause = { kind: "reverify", of: "v1" } as const;
    expect(deriveVerificationId(cause, UID, F1)).toBe(deriveVerificationId(cause, UID, "other"));
  });

  it("an annotation seen again is the same request, and an abort is not a reverify", () => {
    expect(deriveAnnotationRequestId("abort", "v1")).toBe("fefdf4c1-36c0-569b-a8b2-dcd5f61665c1");
    expect(deriveAnnotationRequestId("reverify", "v1")).toBe("f1db8e8f-9893-5e4f-b9ec-3772a538993e");
  });
});

describe("an AnalysisRun's name", () => {
  const id = deriveVerificationId({ kind: "promotion", promotion: "test.01" }, UID, F1);

  it("has three parts", () => {
    expect(deriveAnalysisRunName("test", id, F1)).toBe(`test.${id}.c09bb89`);
  });

  it("is a valid object name of at most 253 characters that keeps the id, whatever the Stage is called", async () => {
    const part = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?$/);
    const stage = fc
      .array(part, { minLength: 1, maxLength: 8 })
      .map((parts) => parts.join(".").slice(0, 253));
    await fc.assert(
      fc.property(stage, (name) => {
        const run = deriveAnalysisRunName(name, id, F1);
        expect(run.length).toBeLessThanOrEqual(253);
        expect(run).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
        expect(run.endsWith(`.${id}.c09bb89`)).toBe(true);
      }),
    );
  });
});

it("a Stage's key is read back as it was written", () => {
  const key = { cluster: "main", project: "shop", stage: "test.eu" };
  expect(formatStageKey(key)).toBe("main/shop/test.eu");
  expect(parseStageKey(formatStageKey(key))).toEqual(key);
});
