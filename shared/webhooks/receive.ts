import { createHash, randomBytes } from "node:crypto";
import { Fault, isFault } from "../domain/fault.ts";
import type { DeliveryStore } from "../ledger/deliveries.ts";
import { MESSAGE_KINDS } from "../messages/schema.ts";
import type { MessageQueue } from "../queue/message-queue.ts";
import type { Log, MetricName } from "../runtime/telemetry.ts";
import { type Answer, answerAccepted, answerProblem } from "./answer.ts";
import { readOccurrences } from "./occurrence.ts";
import type { ReceiverSettings } from "./receiver.ts";
import { type Command, compileRule, type Refusal, type Rule, toMessage } from "./rule.ts";
import { type Authentic, authenticate, findScheme, type Scheme, type SignedRequest } from "./signature.ts";

/** The largest body that is taken, in bytes. */
export const MAX_BODY_BYTES = 262_144;
/** More than this many commands in one delivery are a mistake, and would not fit its record. */
const MAX_COMMANDS = 50;
/** Seconds after which a sender that had no luck may come again. */
const RETRY_AFTER = 5;

/** A request to a receiver. */
export interface WebhookRequest extends SignedRequest {
  readonly receiver: string;
}

/** A receiver's keys, at least one. `fresh` wants what is in the secrets now, as far as that may be asked again. */
export type KeySource = (fresh: boolean) => Promise<readonly Buffer[]>;

/** A receiver, ready to receive. */
export interface Receiver {
  readonly name: string;
  readonly type: ReceiverSettings["type"];
  readonly scheme: Scheme;
  readonly rules: readonly Rule[];
  readonly keys: KeySource;
}

export function createReceiver(
  settings: ReceiverSettings,
  findKeys: (scheme: Scheme) => KeySource,
): Receiver {
  const { name, type } = settings;
  const scheme = findScheme(settings);
  const rules = settings.rules.map((each) => compileRule(each));
  return { name, type, scheme, rules, keys: findKeys(scheme) };
}

/** What receiving needs of the world. */
export interface WebhookPorts {
  readonly receivers: readonly Receiver[];
  readonly deliveries: DeliveryStore;
  readonly queue: Pick<MessageQueue, "send">;
  /** The installation's clusters, first the one of messages that name none. */
  readonly clusters: readonly string[];
  readonly now: () => number;
  readonly log: Log;
  /** Counts for a receiver; of those that do not exist there is one, `unknown`. */
  readonly count: (name: MetricName, receiver: string, value?: number) => void;
  /** Whether AWS said that it was too much, rather than that it could not. */
  readonly isThrottled: (error: unknown) => boolean;
}

/** Stands in for a receiver that does not exist, so that its requests go the same way. Nobody has its key. */
const nobody: Receiver = {
  name: "unknown",
  type: "generic",
  scheme: {
    kind: "hmac",
    header: "X-Signature",
    algorithm: "sha256",
    encoding: "hex",
    prefix: "",
    several: false,
    content: "{body}",
    idHeader: undefined,
    timestampHeader: undefined,
    tolerance: 0,
    key: "text",
  },
  rules: [],
  keys: (() => {
    const key = randomBytes(32);
    return async () => [key];
  })(),
};

/**
 * Receives deliveries: know the sender, read, ask the rules, enter the commands into the ledger, send them. Entered
 * before sent: whatever comes later with the same identity gets what was decided first, and sends it again, which the
 * messages' ids make harmless. So neither a crash nor two copies at once make a second command, and no crash loses one
 * (docs/decisions/0004-deliveries-are-entered-before-they-are-sent.md).
 */
export function createWebhooks(ports: WebhookPorts): (request: WebhookRequest) => Promise<Answer> {
  const receivers = new Map(ports.receivers.map((each) => [each.name, each]));
  return async (request) => {
    const receiver = receivers.get(request.receiver) ?? nobody;
    try {
      return await receive(ports, receiver, request);
    } catch (error) {
      return answerFault(ports, receiver, error);
    }
  };
}

async function receive(ports: WebhookPorts, receiver: Receiver, request: WebhookRequest): Promise<Answer> {
  const { log, count } = ports;
  const { name } = receiver;
  if (request.body.byteLength > MAX_BODY_BYTES) {
    count("WebhooksRejected", name);
    return answerProblem("too-large", `the body is larger than ${MAX_BODY_BYTES} bytes`);
  }
  const authentic = await recognize(receiver, request, ports.now());
  if (receiver === nobody) {
    count("WebhooksRejected", name);
    return answerProblem("not-found", "there is no such receiver");
  }
  if (authentic === undefined) {
    count("WebhooksRejected", name);
    log.warn("a webhook's sender could not be recognized", { receiver: name });
    return answerProblem("unauthenticated", "the request does not show who sent it", {
      "www-authenticate": 'Webhook realm="tallyman"',
    });
  }
  const identity = identify(authentic, request.body);
  const { commands, refusals } = decide(ports, receiver, request, identity);
  for (const refusal of refusals) {
    log.warn("a webhook's rule matched and could not say what it asks for", { receiver: name, ...refusal });
  }
  if (refusals.length > 0) count("WebhookCommandsRefused", name, refusals.length);
  if (commands.length === 0) {
    count("WebhooksUnmatched", name);
    return answerAccepted([], refusals);
  }
  const record = { receiver: name, identity, content: commands };
  const { content, isNew } = await ports.deliveries.enter(record, ports.now());
  for (const kind of MESSAGE_KINDS) {
    const messages = content.filter((each) => each.kind === kind).map((each) => toMessage(each, name));
    if (messages.length > 0) await ports.queue.send(kind, messages);
  }
  count(isNew ? "WebhooksAccepted" : "WebhooksRepeated", name);
  log.info("webhook accepted", { receiver: name, isNew, requests: content.map(({ id }) => id) });
  return answerAccepted(content, refusals);
}

/** A signature that does not fit may be made with a secret that is newer than what is known of it. */
async function recognize(
  { scheme, keys }: Receiver,
  request: SignedRequest,
  now: number,
): Promise<Authentic | undefined> {
  return (
    authenticate(scheme, request, await keys(false), now) ??
    authenticate(scheme, request, await keys(true), now)
  );
}

/**
 * What tells a delivery from others: its id, where that is signed; else its body. An id that is not signed could be put
 * on a body that somebody overheard, and make it new, or on another's, and make that old.
 */
function identify({ id }: Authentic, body: Uint8Array): string {
  return id === undefined ? `sha256:${createHash("sha256").update(body).digest("hex")}` : `id:${id}`;
}

function decide(ports: WebhookPorts, receiver: Receiver, request: SignedRequest, identity: string) {
  const context = { receiver: receiver.name, clusters: ports.clusters, now: ports.now() };
  const commands = new Map<string, Command>();
  const refusals: Refusal[] = [];
  for (const occurrence of readOccurrences(receiver.type, request, identity)) {
    for (const ask of receiver.rules) {
      const result = ask(occurrence, context);
      if (result === undefined) continue;
      if ("reasons" in result) refusals.push(result);
      else commands.set(result.id, result);
    }
  }
  if (commands.size + refusals.length > MAX_COMMANDS) {
    throw new Fault(
      "Invalid",
      `the delivery asks for more than ${MAX_COMMANDS} things; send them in smaller groups`,
    );
  }
  return { commands: [...commands.values()], refusals };
}

function answerFault({ log, count, isThrottled }: WebhookPorts, { name }: Receiver, error: unknown): Answer {
  if (isFault(error, "Invalid")) {
    count("WebhooksRejected", name);
    log.warn("a webhook's body cannot be used", { receiver: name, reasons: error.reasons });
    return answerProblem("invalid-request", error.message);
  }
  count("WebhooksDeferred", name);
  if (!isFault(error)) {
    log.error("a webhook met an error that nobody foresaw", { receiver: name, error });
    return answerProblem("unforeseen", "the request could not be worked on");
  }
  log.error("a webhook could not be worked on; its sender may try again", {
    receiver: name,
    reasons: error.reasons,
  });
  const problem = isThrottled(error) ? "too-many-requests" : "try-again";
  return answerProblem(problem, "the request could not be worked on; it may be sent again", {
    "retry-after": String(RETRY_AFTER),
  });
}
