import { Fault } from "../../shared/domain/fault.ts";

// A server that asks for more than this is believed only so far: silence for hours would look like health.
const MAX_RETRY_AFTER_MS = 300_000;
const SHORT_BODY_BYTES = 64 * 1024;

/** The API server answered a list or a watch, and the answer was no. Always worth another try later. */
export class Refusal extends Fault {
  /** The resource version or continue token is not usable any more: only a new list helps. */
  readonly expired: boolean;
  /** The least time to wait that the server asked for, milliseconds; 0 when it asked for none. */
  readonly retryAfterMs: number;

  constructor(message: string, expired: boolean, retryAfterMs: number) {
    super("Transient", message);
    this.expired = expired;
    this.retryAfterMs = retryAfterMs;
  }
}

/** What of an answer says no; `body` is a Kubernetes `Status`, text from a proxy, or nothing. */
export interface RefusedAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly retryAfter?: string | undefined;
}

interface StatusObject {
  readonly code?: unknown;
  readonly reason?: unknown;
  readonly message?: unknown;
  readonly details?: {
    readonly retryAfterSeconds?: unknown;
    readonly causes?: readonly { readonly reason?: unknown }[];
  };
}

/** Turns an answer (or the object of an `ERROR` event) into a refusal. `now` is milliseconds since the epoch. */
export function refusalOf(what: string, answer: RefusedAnswer, now: number): Refusal {
  const status: StatusObject = typeof answer.body === "object" && answer.body !== null ? answer.body : {};
  const text = typeof answer.body === "string" ? answer.body.trim().slice(0, 200) : "";
  const message = typeof status.message === "string" ? status.message : text;
  const fromBody = Number(status.details?.retryAfterSeconds ?? 0) * 1000 || 0;
  const fromHeader = retryAfterMs(answer.retryAfter, now);
  return new Refusal(
    `${what}: answered with ${answer.status}${message === "" ? "" : `: ${message}`}`,
    isExpired(answer.status, status),
    Math.min(Math.max(fromBody, fromHeader, 0), MAX_RETRY_AFTER_MS),
  );
}

/**
 * Besides 410 there are two answers that no repetition cures: a version that the server cannot read (400), and
 * one from the future, which is what a restored etcd makes of the version we hold.
 */
function isExpired(code: number, status: StatusObject): boolean {
  if (code === 410 || code === 400) return true;
  if (status.reason === "Expired" || status.reason === "Gone") return true;
  const causes = status.details?.causes;
  return Array.isArray(causes) && causes.some((cause) => cause?.reason === "ResourceVersionTooLarge");
}

/** Seconds or an HTTP date. */
function retryAfterMs(header: string | undefined, now: number): number {
  if (header === undefined) return 0;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return seconds * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? 0 : date - now;
}

/** Reads the beginning of a refusal's body: a Status object, or what a proxy says instead. */
export async function readRefusedBody(body: AsyncIterable<Buffer>): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > SHORT_BODY_BYTES) break;
  }
  const text = Buffer.concat(chunks).toString("utf8");
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
