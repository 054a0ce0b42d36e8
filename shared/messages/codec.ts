import type { AnalysisRunSnapshot } from "../domain/analysis-run.ts";
import { Fault } from "../domain/fault.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import {
  formatType,
  type Message,
  type MessageData,
  type MessageKind,
  messageSchema,
  type ObservedRun,
  type ObservedStage,
} from "./schema.ts";

/** Largest body that is looked at, in bytes: what SQS itself accepts. */
export const MAX_MESSAGE_BYTES = 1_048_576;
/** Largest body that is sent, in bytes: SQS counts a message's attributes too, and a dead letter has some. */
const MAX_SENT_BYTES = 1_000_000;
const MAX_REASONS = 20;

/**
 * Reads a message body for the queue of the given kind.
 *
 * @throws Fault `Invalid`, with one reason for each thing that is wrong, each naming the field.
 */
export function decodeMessage(body: string, kind: MessageKind): Message {
  if (Buffer.byteLength(body) > MAX_MESSAGE_BYTES) {
    throw new Fault("Invalid", `the message is larger than ${MAX_MESSAGE_BYTES} bytes`);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch (error) {
    throw new Fault(
      "Invalid",
      `the body is not JSON: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  const result = messageSchema.safeParse(parsed);
  if (!result.success) {
    const reasons = result.error.issues
      .slice(0, MAX_REASONS)
      .map((issue) => `${issue.path.length === 0 ? "message" : issue.path.join(".")}: ${issue.message}`);
    throw new Fault("Invalid", reasons);
  }
  const message = result.data;
  if (message.type !== formatType(kind)) {
    throw new Fault("Invalid", `type: ${message.type} does not belong in the ${kind} queue`);
  }
  assertConsistent(message.data);
  return message;
}

/** The snapshot must be of the Stage that the message is for, or a forged one could act on another. */
function assertConsistent(data: MessageData): void {
  const { observed } = data;
  if (observed === undefined || observed.kind === "Template") return;
  const stage = observed.kind === "Stage" ? observed.name : observed.stage;
  const reasons: string[] = [];
  if (observed.project !== data.project) {
    reasons.push(`data.observed.project: ${observed.project} is not data.project ${data.project}`);
  }
  if (stage !== data.stage) {
    reasons.push(`data.observed: ${observed.kind} is of Stage ${stage}, not of data.stage ${data.stage}`);
  }
  if (reasons.length > 0) throw new Fault("Invalid", reasons);
}

/** Builds a message. `id` together with `source` is its identity: the same request sent again has the same. */
export function buildMessage(
  kind: MessageKind,
  envelope: { readonly id: string; readonly source: string; readonly time: Date },
  data: MessageData,
): Message {
  return {
    specversion: "1.0",
    id: envelope.id,
    source: envelope.source,
    type: formatType(kind) as Message["type"],
    time: envelope.time.toISOString(),
    datacontenttype: "application/json",
    data,
  };
}

/**
 * The message as it may be sent. A snapshot that would make it larger than SQS takes is left out; the handler then looks
 * at the object itself, as it does for everybody who sends none.
 */
export function fitMessage(message: Message): Message {
  const { observed, ...data } = message.data;
  if (observed === undefined || Buffer.byteLength(JSON.stringify(message)) <= MAX_SENT_BYTES) return message;
  return { ...message, data };
}

/** A Stage as a message carries it. */
export function observeStage(stage: StageSnapshot): ObservedStage {
  return { kind: "Stage", ...stage } as ObservedStage;
}

/** An AnalysisRun as a message carries it; `phaseChanged` as the sender knows it. */
export function observeRun(run: AnalysisRunSnapshot, phaseChanged: boolean): ObservedRun {
  return { kind: "AnalysisRun", ...run, phaseChanged } as ObservedRun;
}
