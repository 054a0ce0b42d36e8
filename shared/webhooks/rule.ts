import { isFault } from "../domain/fault.ts";
import { deriveWebhookRequestId } from "../domain/identity.ts";
import { buildMessage, decodeMessage } from "../messages/codec.ts";
import type { MessageKind } from "../messages/schema.ts";
import { compileCondition } from "./condition.ts";
import type { Occurrence } from "./occurrence.ts";
import type { ReceiverRule } from "./receiver.ts";
import { fillTemplate, parseTemplate, type Template, toLine } from "./template.ts";

/** What a rule asks for: a message in the making. */
export interface Command {
  /** The request's, and the message's. */
  readonly id: string;
  readonly rule: string;
  readonly kind: MessageKind;
  /** ISO 8601. */
  readonly time: string;
  readonly data: CommandData;
}

export interface CommandData {
  readonly cluster?: string;
  readonly project: string;
  readonly stage: string;
  readonly verificationId?: string;
  readonly actor: string;
  readonly reason?: string;
}

/** A rule that matched and could not say what it asks for. */
export interface Refusal {
  readonly rule: string;
  readonly reasons: readonly string[];
}

export interface RuleContext {
  readonly receiver: string;
  /** The installation's clusters, first the one of messages that name none. */
  readonly clusters: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Asks a rule about an occurrence; undefined when it does not match. */
export type Rule = (occurrence: Occurrence, context: RuleContext) => Command | Refusal | undefined;

/** CloudEvents `source` of a receiver's messages. */
const sourceOf = (receiver: string): string => `tallyman/webhook/${receiver}`;

const ACTOR_LIMIT = 512;
const REASON_LIMIT = 1024;
/** What stands where a Stage's name should may be long. */
const SHOWN = 300;

/** A rule of a validated configuration, ready to be asked. */
export function compileRule(settings: ReceiverRule): Rule {
  const conditions = settings.when.map(compileCondition);
  const { name, events, command: kind } = settings;
  const target = compileFields(settings, ["cluster", "project", "stage", "verificationId"]);
  const words = compileFields(settings, ["actor", "reason"]);

  return (occurrence, { receiver, clusters, now }) => {
    const { event, document, identity } = occurrence;
    if (events !== undefined && (event === undefined || !events.includes(event))) return undefined;
    if (!conditions.every((holds) => holds(document))) return undefined;
    const found = fillAll(target, document);
    if (found.missing.length > 0) return { rule: name, reasons: found.missing };
    const spoken = fillAll(words, document).values;
    const reason = toLine(spoken.reason ?? "", REASON_LIMIT);
    const { cluster, project = "", stage = "", verificationId } = found.values;
    const data: CommandData = {
      ...(cluster === undefined ? {} : { cluster }),
      project,
      stage,
      ...(verificationId === undefined ? {} : { verificationId }),
      actor: toLine(spoken.actor ?? "", ACTOR_LIMIT) || `webhook:${receiver}`,
      ...(reason === "" ? {} : { reason }),
    };
    const command: Command = {
      id: deriveWebhookRequestId(receiver, name, identity),
      rule: name,
      kind,
      time: new Date(now).toISOString(),
      data,
    };
    const reasons = findFaults(command, receiver);
    if (cluster !== undefined && !clusters.includes(cluster)) {
      reasons.push(`data.cluster: ${cluster} is none of this installation's clusters`);
    }
    return reasons.length === 0
      ? command
      : { rule: name, reasons: reasons.map((each) => toLine(each, SHOWN)) };
  };
}

/** The message that a command becomes; the same each time. */
export function toMessage({ id, kind, time, data }: Command, receiver: string) {
  return buildMessage(kind, { id, source: sourceOf(receiver), time: new Date(time) }, data);
}

/** The message contract decides, as it does for everybody who sends one. */
function findFaults(command: Command, receiver: string): string[] {
  try {
    decodeMessage(JSON.stringify(toMessage(command, receiver)), command.kind);
    return [];
  } catch (error) {
    if (isFault(error, "Invalid")) return [...error.reasons];
    throw error;
  }
}

type Field = "cluster" | "project" | "stage" | "verificationId" | "actor" | "reason";

function compileFields(
  settings: ReceiverRule,
  fields: readonly Field[],
): readonly (readonly [Field, Template])[] {
  return fields.flatMap((field) => {
    const text = settings[field];
    if (text === undefined) return [];
    const template = parseTemplate(text);
    if (typeof template === "string") throw new Error(`${field} was not validated: ${template}`);
    return [[field, template] as const];
  });
}

function fillAll(fields: readonly (readonly [Field, Template])[], document: object) {
  const values: Partial<Record<Field, string>> = {};
  const missing: string[] = [];
  for (const [field, template] of fields) {
    const filled = fillTemplate(template, document);
    values[field] = filled.text;
    missing.push(...filled.missing.map((path) => `${field}: there is no text at ${path}`));
  }
  return { values, missing };
}
