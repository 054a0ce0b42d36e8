import type { FreightCollection } from "../domain/freight.ts";
import { readPath, readText } from "./plain-object.ts";

/** A Promotion that has brought its Freight to a Stage. */
export interface SucceededPromotion {
  readonly name: string;
  readonly stage: string;
  readonly collection: FreightCollection;
  /** Milliseconds since the epoch; absent where the object does not say. */
  readonly finishedAt?: number | undefined;
}

/** Projects a Promotion object; `undefined` for one that did not succeed, or does not say what it brought. */
export function readSucceededPromotion(object: unknown): SucceededPromotion | undefined {
  const name = readText(readPath(object, "metadata", "name"));
  const stage = readText(readPath(object, "spec", "stage"));
  const id = readText(readPath(object, "status", "freightCollection", "id"));
  if (readPath(object, "status", "phase") !== "Succeeded") return undefined;
  if (name === undefined || stage === undefined || id === undefined) return undefined;
  const items = readPath(object, "status", "freightCollection", "items");
  const freight = Object.entries(typeof items === "object" && items !== null ? items : {}).flatMap(
    ([origin, item]) => {
      const freightName = readText(readPath(item, "name"));
      return freightName === undefined ? [] : [{ name: freightName, origin }];
    },
  );
  const finishedAt = Date.parse(readText(readPath(object, "status", "finishedAt")) ?? "");
  return { name, stage, collection: { id, freight }, ...(Number.isNaN(finishedAt) ? {} : { finishedAt }) };
}
