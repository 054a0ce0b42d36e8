import type { FreightRequest, FreightStanding } from "../domain/availability.ts";
import { parseDuration } from "../domain/duration.ts";
import { isPlainObject, readList, readPath, readText } from "./plain-object.ts";

/** Reads `spec.requestedFreight`. A soak time that cannot be read is taken for endless: it must not open a gate. */
export function readFreightRequests(stage: unknown): FreightRequest[] {
  return readList(readPath(stage, "spec", "requestedFreight")).map((entry) => {
    const soak = readText(readPath(entry, "sources", "requiredSoakTime"));
    return {
      origin: readOrigin(readPath(entry, "origin")),
      direct: readPath(entry, "sources", "direct") === true,
      stages: readList(readPath(entry, "sources", "stages")).flatMap((name) => readText(name) ?? []),
      all: readPath(entry, "sources", "availabilityStrategy") === "All",
      soak: soak === undefined ? 0 : (parseDuration(soak) ?? Number.POSITIVE_INFINITY),
    };
  });
}

/** Reads what of a Freight's status decides where it may go. */
export function readStanding(freight: unknown): FreightStanding {
  const status = (field: string): [string, unknown][] => {
    const map = readPath(freight, "status", field);
    return isPlainObject(map) ? Object.entries(map) : [];
  };
  return {
    name: readText(readPath(freight, "metadata", "name")) ?? "",
    origin: readOrigin(readPath(freight, "origin")),
    approvedFor: new Set(status("approvedFor").map(([stage]) => stage)),
    verifiedIn: new Map(
      status("verifiedIn").map(([stage, record]) => [
        stage,
        parseDuration(readText(readPath(record, "longestSoak")) ?? "0") ?? 0,
      ]),
    ),
    currentlyIn: new Map(
      status("currentlyIn").flatMap(([stage, record]): [string, number][] => {
        const since = Date.parse(readText(readPath(record, "since")) ?? "");
        return Number.isNaN(since) ? [] : [[stage, since]];
      }),
    ),
  };
}

function readOrigin(origin: unknown): string {
  return `${readText(readPath(origin, "kind")) ?? "Warehouse"}/${readText(readPath(origin, "name")) ?? ""}`;
}
