import { expect, it } from "vitest";
import { makeKey, makeVerification } from "../../test/integration/ledger/fixtures.ts";
import { summarizeCombinations } from "./combinations.ts";

const KEY = makeKey("dev");
const pair = (front: string, back: string) => [
  { name: front.repeat(40), origin: "Warehouse/front" },
  { name: back.repeat(40), origin: "Warehouse/back" },
];

it("says of each combination of Freight how often it was verified, with what outcome, and what came last", () => {
  const verifications = [
    makeVerification(KEY, "p1", { freight: pair("a", "b"), phase: "Successful", createdAt: 1 }),
    makeVerification(KEY, "p2", { freight: pair("a", "b"), phase: "Failed", createdAt: 3 }),
    makeVerification(KEY, "p3", { freight: pair("a", "c"), phase: "Running", createdAt: 2 }),
  ];
  expect(summarizeCombinations(verifications)).toMatchObject([
    { phases: { Successful: 1, Failed: 1 }, everSuccessful: true, latest: { phase: "Failed" } },
    { phases: { Running: 1 }, everSuccessful: false, latest: { phase: "Running" } },
  ]);
});

it("does not count Freight that was replaced before its verification could start", () => {
  const replaced = {
    ...makeVerification(KEY, "p1", { phase: "Aborted", reason: "Superseded" }),
    run: undefined,
  };
  expect(summarizeCombinations([replaced])).toEqual([]);
});
