import type { Command, Refusal } from "./rule.ts";

/** What the sender is told, as plain as API Gateway takes it. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A delivery that was understood: what it asks for, and which rules matched without being able to say. */
export function answerAccepted(commands: readonly Command[], refusals: readonly Refusal[]): Answer {
  const requests = commands.map(({ id, rule, kind, data: { cluster, project, stage } }) => ({
    id,
    rule,
    command: kind,
    ...(cluster === undefined ? {} : { cluster }),
    project,
    stage,
  }));
  return answer(202, "application/json", {
    requests,
    ...(refusals.length === 0 ? {} : { refused: refusals }),
  });
}

const PROBLEMS = {
  "invalid-request": { status: 400, title: "The request is not valid" },
  unauthenticated: { status: 401, title: "The sender is not known" },
  "not-found": { status: 404, title: "There is no such receiver" },
  "method-not-allowed": { status: 405, title: "The method is not known here" },
  "too-large": { status: 413, title: "The request is too large" },
  "too-many-requests": { status: 429, title: "Too much at once" },
  unforeseen: { status: 500, title: "Something went wrong here" },
  "try-again": { status: 503, title: "Not possible at the moment" },
} as const;

export type WebhookProblem = keyof typeof PROBLEMS;

/** An answer that is no acceptance: an RFC 9457 problem. Says nothing about secrets or signatures. */
export function answerProblem(
  problem: WebhookProblem,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const { status, title } = PROBLEMS[problem];
  const body = { type: `https://tallyman.dev/problems/${problem}`, title, status, detail };
  return answer(status, "application/problem+json", body, headers);
}

function answer(
  status: number,
  type: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    headers: { "content-type": type, "cache-control": "no-store", ...headers },
    body: JSON.stringify(body),
  };
}
