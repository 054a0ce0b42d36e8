import type { Message as SqsMessage } from "@aws-sdk/client-sqs";
import { type FaultKind, isFault } from "../domain/fault.ts";
import { decodeMessage } from "../messages/codec.ts";
import { deriveMessageGroup } from "../messages/group.ts";
import type { MessageKind } from "../messages/schema.ts";

/**
 * Message attributes of a dead letter that a worker wrote; one that SQS moved by its redrive policy has none of
 * them. `redriven` is what a redrive writes on the message that it sends.
 */
export const LETTER_ATTRIBUTES = {
  reasons: "reasons",
  fault: "fault",
  receives: "receives",
  messageId: "messageId",
  group: "group",
  redriven: "redriven",
} as const;

/** The Stage that a dead letter was for, as far as its body can be read. */
export interface LetterTarget {
  readonly cluster: string | undefined;
  readonly project: string;
  readonly stage: string;
}

/** A dead letter as it was received: it is in flight, and nobody else sees it until it is given back. */
export interface ReceivedLetter {
  readonly kind: MessageKind;
  /** The id that the message had in its own queue, which the worker's log lines name. */
  readonly id: string;
  /** The id that it has as a dead letter. */
  readonly letterId: string;
  readonly receiptHandle: string;
  readonly body: string;
  /** The message group to which it goes back. */
  readonly group: string;
  /** Whether others may stand behind it in its group, and are not handed out while it is in flight. */
  readonly hidesOthers: boolean;
  /** When it became a dead letter, milliseconds since the epoch. */
  readonly since: number;
  /** Receives before a worker gave it up; undefined where SQS did. */
  readonly receives: number | undefined;
  /** Undefined where SQS gave it up: no worker lived long enough to say. */
  readonly fault: FaultKind | undefined;
  readonly reasons: readonly string[];
  readonly target: LetterTarget | undefined;
}

const FAULTS: readonly FaultKind[] = ["Invalid", "Permanent", "Transient", "Conflict"];

/** Reads a dead letter; whatever is in it, it is one, so that it can be shown and moved. */
export function readLetter(kind: MessageKind, message: SqsMessage, defaultCluster: string): ReceivedLetter {
  const attribute = (name: keyof typeof LETTER_ATTRIBUTES): string | undefined =>
    message.MessageAttributes?.[LETTER_ATTRIBUTES[name]]?.StringValue;
  const body = message.Body ?? "";
  const target = readTarget(body);
  const said = attribute("fault");
  const reasons = readReasons(attribute("reasons"));
  const byWorker = reasons !== undefined;
  const receives = Number(attribute("receives"));
  const letterId = message.MessageId ?? "";
  const own = target && deriveMessageGroup({ ...target, cluster: target.cluster ?? defaultCluster });
  const id = attribute("messageId") ?? letterId;
  return {
    kind,
    id,
    letterId,
    receiptHandle: message.ReceiptHandle ?? "",
    body,
    group: attribute("group") ?? own ?? message.Attributes?.MessageGroupId ?? "none",
    hidesOthers: message.Attributes?.MessageGroupId !== id,
    since: Number(message.Attributes?.SentTimestamp) || 0,
    receives: byWorker && Number.isSafeInteger(receives) && receives > 0 ? receives : undefined,
    fault: FAULTS.find((each) => each === said) ?? (isDecodable(body, kind) ? undefined : "Invalid"),
    reasons: reasons ?? ["no worker said why: SQS moved it after its limit of receives"],
    target,
  };
}

/** A sentence a line; undefined for a letter without any, which is one that SQS moved. */
function readReasons(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  try {
    const list: unknown = JSON.parse(text);
    if (Array.isArray(list)) return list.map(String);
  } catch {
    // Written by another hand; it is shown as it is.
  }
  return [text];
}

function readTarget(body: string): LetterTarget | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return undefined;
  }
  const data = (parsed as { data?: Record<string, unknown> } | null)?.data;
  const { cluster, project, stage } = data ?? {};
  if (typeof project !== "string" || typeof stage !== "string") return undefined;
  return { cluster: typeof cluster === "string" ? cluster : undefined, project, stage };
}

/** A body that cannot be decoded comes back at once, whoever gave it up. */
function isDecodable(body: string, kind: MessageKind): boolean {
  try {
    decodeMessage(body, kind);
    return true;
  } catch (error) {
    if (isFault(error, "Invalid")) return false;
    throw error;
  }
}
