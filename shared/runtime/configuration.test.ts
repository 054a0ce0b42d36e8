import { describe, expect, it } from "vitest";
import { isFault } from "../domain/fault.ts";
import { readConfiguration } from "./configuration.ts";

const complete = {
  TALLYMAN_TABLE: "ledger",
  TALLYMAN_VERIFY_QUEUE_URL: "http://q/verify",
  TALLYMAN_VERIFY_DLQ_URL: "http://q/verify-dlq",
  TALLYMAN_ABORT_QUEUE_URL: "http://q/abort",
  TALLYMAN_ABORT_DLQ_URL: "http://q/abort-dlq",
  TALLYMAN_REVERIFY_QUEUE_URL: "http://q/reverify",
  TALLYMAN_REVERIFY_DLQ_URL: "http://q/reverify-dlq",
  TALLYMAN_CLUSTERS: JSON.stringify([{ name: "harbour", server: "https://10.0.0.1:6443" }]),
};

function reasonsFor(env: Record<string, string | undefined>): string {
  try {
    readConfiguration(env);
  } catch (error) {
    if (isFault(error, "Invalid")) return error.reasons.join("\n");
    throw error;
  }
  return "";
}

describe("the configuration", () => {
  it("has sensible defaults for what need not be said", () => {
    expect(readConfiguration(complete)).toMatchObject({
      table: "ledger",
      maxReceives: 20,
      backoff: { base: 1, cap: 60 },
    });
  });

  it("names every variable that is missing, all at once", () => {
    expect(reasonsFor({}).split("\n")).toHaveLength(8);
    expect(reasonsFor({})).toContain("TALLYMAN_ABORT_DLQ_URL: is not set");
  });

  it.each([
    ["not JSON", "{", /TALLYMAN_CLUSTERS: is not JSON/],
    ["no list", "{}", /TALLYMAN_CLUSTERS/],
    ["an empty list", "[]", /TALLYMAN_CLUSTERS/],
    ["a misspelt key", JSON.stringify([{ name: "a", server: "https://x", tokn: "t" }]), /tokn/],
    [
      "a name that is none",
      JSON.stringify([{ name: "A/B", server: "https://x" }]),
      /TALLYMAN_CLUSTERS\.0\.name: must be a DNS label/,
    ],
    [
      "without an address",
      JSON.stringify([{ name: "a", token: "t" }]),
      /TALLYMAN_CLUSTERS\.0: has no server/,
    ],
    [
      "proving who we are in two ways",
      JSON.stringify([{ name: "a", server: "https://x", token: "t", eks: { cluster: "a" } }]),
      /TALLYMAN_CLUSTERS\.0: has token and eks; leave one/,
    ],
    [
      "with two addresses",
      JSON.stringify([{ name: "a", server: "https://x", kubeconfigSecret: "s" }]),
      /TALLYMAN_CLUSTERS\.0: has a server beside its kubeconfig/,
    ],
    [
      "a name twice",
      JSON.stringify([
        { name: "a", server: "https://x" },
        { name: "a", server: "https://y" },
      ]),
      /a is used twice/,
    ],
  ])("refuses clusters that are %s", (_title, clusters, expected) => {
    expect(reasonsFor({ ...complete, TALLYMAN_CLUSTERS: clusters })).toMatch(expected);
  });

  it("refuses a number that is none", () => {
    expect(reasonsFor({ ...complete, TALLYMAN_MAX_RECEIVES: "many" })).toBe(
      "TALLYMAN_MAX_RECEIVES: many is not a positive number",
    );
  });

  it("keeps everything for ever, or for whole days of which there are at least 30", () => {
    expect(readConfiguration(complete).retentionDays).toBeUndefined();
    expect(readConfiguration({ ...complete, TALLYMAN_RETENTION_DAYS: "365" }).retentionDays).toBe(365);
    for (const days of ["29", "30.5", "soon", "-365"]) {
      expect(reasonsFor({ ...complete, TALLYMAN_RETENTION_DAYS: days })).toBe(
        `TALLYMAN_RETENTION_DAYS: ${days} is not a whole number of at least 30`,
      );
    }
  });
});
