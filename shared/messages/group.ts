import { createHash } from "node:crypto";
import { formatStageKey, type StageKey } from "../domain/identity.ts";

const MAX_GROUP = 128;

/**
 * The SQS message group of a Stage, so that Stages never wait for each other. SQS takes at most 128
 * characters, so a longer key is cut and made unique by its digest.
 */
export function deriveMessageGroup(key: StageKey): string {
  const text = formatStageKey(key);
  if (text.length <= MAX_GROUP) return text;
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 32);
  return `${text.slice(0, MAX_GROUP - digest.length - 1)}-${digest}`;
}

/**
 * The SQS deduplication id of a message: a digest of its identity (`source` and `id`), since SQS takes at
 * most 128 characters of a narrower alphabet. A second, legitimate request has another identity.
 */
export function deriveDeduplicationId(message: { readonly source: string; readonly id: string }): string {
  return createHash("sha256")
    .update(JSON.stringify([message.source, message.id]))
    .digest("hex");
}
