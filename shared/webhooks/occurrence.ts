import { Fault } from "../domain/fault.ts";
import type { Headers } from "./headers.ts";
import { GITHUB_EVENTS, type ReceiverSettings } from "./receiver.ts";
import type { SignedRequest } from "./signature.ts";

/** One thing that a delivery tells of: the whole of it, or one alert of a group. */
export interface Occurrence {
  /** What rules name in `events`; undefined where the sender has no such thing. */
  readonly event: string | undefined;
  /** What the paths of rules lead into. */
  readonly document: object;
  /** Tells it from every other of this receiver: the same thing told again has the same. */
  readonly identity: string;
}

type GitHubEvent = (typeof GITHUB_EVENTS)[number];

/**
 * Objects at the top of each event's body. The header with the event's name is not signed: without this, the body of one
 * event could be passed off as another, since several of them carry a `workflow_run`.
 */
const GITHUB_SHAPES: Readonly<Record<GitHubEvent, readonly string[]>> = {
  deployment_status: ["deployment_status", "deployment"],
  workflow_run: ["workflow_run", "workflow"],
  check_run: ["check_run"],
  registry_package: ["registry_package"],
};
/** What of it only `deployment_status` may have besides: it names the run that deployed. */
const GITHUB_MARKS = ["deployment_status", "deployment", "workflow_run", "check_run", "registry_package"];

/** More alerts than Alertmanager can tell of in a body that is taken. */
const MAX_ALERTS = 1000;

/**
 * Reads what a delivery tells of. Bodies come from a sender who is known, and are foreign nevertheless.
 *
 * @param delivery the delivery's identity.
 * @throws Fault `Invalid` for a body that is no JSON object, or not one of this sender's.
 */
export function readOccurrences(
  type: ReceiverSettings["type"],
  { headers, body }: SignedRequest,
  delivery: string,
): readonly Occurrence[] {
  const payload = parseBody(body);
  const whole = (event: string | undefined): Occurrence[] => [
    { event, document: payload, identity: delivery },
  ];
  switch (type) {
    case "github":
      return whole(readGitHubEvent(headers, payload));
    case "gitlab":
      return whole(textOf(payload, "object_kind"));
    case "standard-webhooks":
      return whole(textOf(payload, "type"));
    case "alertmanager":
      return readAlerts(payload, delivery);
    case "argocd":
    case "generic":
      return whole(undefined);
  }
}

function parseBody(body: Uint8Array): Record<string, unknown> {
  let payload: unknown;
  try {
    payload = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new Fault(
      "Invalid",
      "the body is not JSON in UTF-8; set the sender's content type to application/json",
    );
  }
  if (!isObject(payload)) throw new Fault("Invalid", "the body is JSON, but not an object");
  return payload;
}

function readGitHubEvent(headers: Headers, payload: Record<string, unknown>): string {
  const event = headers.get("X-GitHub-Event");
  if (event === undefined) throw new Fault("Invalid", "the header X-GitHub-Event is missing");
  const known = GITHUB_EVENTS.find((each) => each === event);
  if (known === undefined) return event;
  const needed = GITHUB_SHAPES[known];
  const isOwn = needed.every((name) => isObject(own(payload, name)));
  const isOther =
    known !== "deployment_status" &&
    GITHUB_MARKS.some((name) => !needed.includes(name) && isObject(own(payload, name)));
  if (!isOwn || isOther) throw new Fault("Invalid", `the body is not one of the event ${known}`);
  return known;
}

/** Each alert for itself, as `$.alert`, beside the group that it came with, `$.group`. */
function readAlerts(payload: Record<string, unknown>, delivery: string): Occurrence[] {
  const alerts = own(payload, "alerts");
  if (!Array.isArray(alerts) || !alerts.every(isObject)) {
    throw new Fault("Invalid", "alerts: must be a list of alerts, as Alertmanager sends it");
  }
  if (alerts.length > MAX_ALERTS) throw new Fault("Invalid", `alerts: must be at most ${MAX_ALERTS}`);
  return alerts.map((alert, index) => {
    const [fingerprint, startsAt, status] = ["fingerprint", "startsAt", "status"].map((name) =>
      textOf(alert, name),
    );
    return {
      event: status,
      document: { alert, group: payload },
      // A group comes again with each alert that joins it: the alert is what happened, not the group.
      identity:
        fingerprint === undefined || startsAt === undefined || status === undefined
          ? JSON.stringify([delivery, index])
          : JSON.stringify(["alert", fingerprint, startsAt, status]),
    };
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function own(object: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** A text of a length that names have. */
function textOf(object: Record<string, unknown>, name: string): string | undefined {
  const value = own(object, name);
  return typeof value === "string" && value.length <= 256 ? value : undefined;
}
