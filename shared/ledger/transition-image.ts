import { parseStageKey, type StageKey } from "../domain/identity.ts";
import { decodeTransition, type Item, type Transition } from "./items.ts";

/** A change of phase as the table's stream shows it; undefined for every other item. */
export function readTransitionImage(image: Item): (Transition & { readonly key: StageKey }) | undefined {
  if (image.ty?.S !== "p" || image.pk?.S === undefined) return undefined;
  return { ...decodeTransition(image), key: parseStageKey(image.pk.S) };
}

/** What of the table's stream is a change of phase seen for the first time, as an event filter of AWS says it. */
export const TRANSITION_FILTER = { eventName: ["INSERT"], dynamodb: { NewImage: { ty: { S: ["p"] } } } };
