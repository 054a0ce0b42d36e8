import { describe, expect, it } from "vitest";
import { type FreightRequest, type FreightStanding, isAvailable } from "./availability.ts";

const NOW = Date.UTC(2030, 0, 1, 11, 6);
const HOUR = 3600;
const ask = (over: Partial<FreightRequest> = {}): FreightRequest => ({
  origin: "Warehouse/lamps",
  direct: false,
  stages: ["dev"],
  all: false,
  soak: 0,
  ...over,
});
const freight = (over: Partial<FreightStanding> = {}): FreightStanding => ({
  name: "f",
  origin: "Warehouse/lamps",
  approvedFor: new Set(),
  verifiedIn: new Map(),
  currentlyIn: new Map(),
  ...over,
});
const verified = (...stages: [string, number][]) => freight({ verifiedIn: new Map(stages) });

describe("Freight is available to a Stage", () => {
  it.each<[string, boolean, FreightRequest, FreightStanding]>([
    ["straight from its Warehouse", true, ask({ direct: true, stages: [] }), freight()],
    [
      "not from a Warehouse that is not requested",
      false,
      ask({ origin: "Warehouse/bells" }),
      verified(["dev", 0]),
    ],
    [
      "when approved, without verification or soak",
      true,
      ask({ soak: HOUR }),
      freight({ approvedFor: new Set(["fan"]) }),
    ],
    ["not when approved for another Stage", false, ask(), freight({ approvedFor: new Set(["prod"]) })],
    ["when verified upstream", true, ask(), verified(["dev", 0])],
    ["not while unverified upstream", false, ask(), freight()],
    ["when verified in one of several", true, ask({ stages: ["dev", "qa"] }), verified(["qa", 0])],
    ["not when one of all is missing", false, ask({ stages: ["dev", "qa"], all: true }), verified(["qa", 0])],
    [
      "when verified in all of all",
      true,
      ask({ stages: ["dev", "qa"], all: true }),
      verified(["qa", 0], ["dev", 0]),
    ],
    ["not without any source", false, ask({ stages: [] }), verified(["dev", 0])],
    ["when a stay that ended was long enough", true, ask({ soak: HOUR }), verified(["dev", HOUR])],
    ["not when a stay that ended was too short", false, ask({ soak: HOUR }), verified(["dev", 600])],
    [
      "when its stay has lasted long enough, however late it was verified",
      true,
      ask({ soak: HOUR }),
      freight({ verifiedIn: new Map([["dev", 0]]), currentlyIn: new Map([["dev", NOW - HOUR * 1000]]) }),
    ],
    [
      "not for a stay without verification",
      false,
      ask({ soak: HOUR }),
      freight({ currentlyIn: new Map([["dev", 0]]) }),
    ],
  ])("%s: %s", (_what, expected, request, standing) => {
    expect(isAvailable("fan", [request], standing, NOW)).toBe(expected);
  });
});
