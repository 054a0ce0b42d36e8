import { describe, expect, it } from "vitest";
import type { StoredObject } from "./objects.ts";
import { findKind, type ResourceKind } from "./resources.ts";
import { formatAge, formatTable } from "./tables.ts";

const NOW = new Date("2026-06-01T12:00:00Z");

function makeObject(kind: string, fields: object): StoredObject {
  return {
    apiVersion: "v1",
    kind,
    metadata: {
      name: "dev",
      uid: "u",
      resourceVersion: "7",
      creationTimestamp: "2026-06-01T11:57:00Z",
    },
    ...fields,
  };
}

function rowsOf(resource: ResourceKind, object: StoredObject): unknown {
  const options = { include: "None", metadata: {}, withColumns: true, now: NOW } as const;
  const table = JSON.parse(formatTable(resource, [object], options));
  const names: string[] = table.columnDefinitions.map((column: { name: string }) => column.name);
  return Object.fromEntries(names.map((name, index) => [name, table.rows[0].cells[index]]));
}

describe("table", () => {
  it("shows of a Stage what it holds and how it is", () => {
    const stage = findKind("kargo.akuity.io/v1alpha1", "Stage") as ResourceKind;
    const conditions = [
      { type: "Verified", status: "Unknown" },
      { type: "Ready", status: "False", message: "Freight is being verified" },
    ];
    const status = { freightSummary: "1/2 Fulfilled", health: { status: "Healthy" }, conditions };
    expect(rowsOf(stage, makeObject("Stage", { spec: { shard: "east" }, status }))).toEqual({
      Name: "dev",
      Shard: "east",
      "Current Freight": "1/2 Fulfilled",
      Health: "Healthy",
      Ready: "False",
      Verified: "Unknown",
      Status: "Freight is being verified",
      Age: "3m",
    });
  });

  it("has empty cells for what is not there", () => {
    const run = findKind("argoproj.io/v1alpha1", "AnalysisRun") as ResourceKind;
    expect(rowsOf(run, makeObject("AnalysisRun", {}))).toEqual({ Name: "dev", Status: "", Age: "3m" });
  });
});

describe("formatAge", () => {
  it.each([
    [0, "0s"],
    [119, "119s"],
    [120, "2m"],
    [190, "3m10s"],
    [11 * 60, "11m"],
    [3 * 3600 + 60, "3h1m"],
    [9 * 3600, "9h"],
    [50 * 3600, "2d2h"],
    [20 * 86_400, "20d"],
    [800 * 86_400, "2y70d"],
  ])("of %i seconds is %s", (seconds, expected) => {
    const since = new Date(NOW.getTime() - seconds * 1000).toISOString();
    expect(formatAge(since, NOW)).toBe(expected);
  });

  it("does not know the age of nonsense", () => {
    expect(formatAge("soon", NOW)).toBe("<unknown>");
  });
});
