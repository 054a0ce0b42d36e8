import { toIso } from "../../shared/presentation/document.ts";
import type { ReceivedLetter } from "../../shared/queue/dead-letter.ts";
import type { Redriven } from "../../shared/queue/redrive.ts";
import { shortenId } from "./labels.ts";
import { type Column, formatTable } from "./table.ts";
import { formatAbsolute, formatAge } from "./time.ts";
import type { ViewOptions } from "./views.ts";

/** The document of a dead letter; `body` is the message as it was sent. */
export function toLetter(letter: ReceivedLetter): Readonly<Record<string, unknown>> {
  const { target } = letter;
  return {
    kind: "DeadLetter",
    id: letter.id,
    queue: letter.kind,
    cluster: target?.cluster,
    project: target?.project,
    stage: target?.stage,
    fault: letter.fault,
    reasons: letter.reasons,
    receives: letter.receives,
    since: toIso(letter.since),
    body: letter.body,
  };
}

export function toRedriven({ letter, outcome, message }: Redriven): Readonly<Record<string, unknown>> {
  return { ...toLetter(letter), outcome, message: message === "" ? undefined : message };
}

const COLUMNS: readonly Column[] = [
  { title: "SINCE" },
  { title: "QUEUE" },
  { title: "ID" },
  { title: "PROJECT", least: 8, keep: "both" },
  { title: "STAGE", least: 8, keep: "both" },
  { title: "TRIES" },
  { title: "REASON", least: 20 },
];

export function formatLetters(letters: readonly ReceivedLetter[], options: ViewOptions): string {
  const { wide, now, columns, paint } = options;
  const rows = letters.map((letter) => [
    wide ? formatAbsolute(letter.since) : formatAge(letter.since, now),
    letter.kind,
    wide ? letter.id : shortenId(letter.id),
    letter.target?.project ?? "",
    letter.target?.stage ?? "?",
    letter.receives === undefined ? "" : String(letter.receives),
    `${letter.fault === "Invalid" ? "invalid: " : ""}${letter.reasons.join("; ")}`,
  ]);
  return formatTable(COLUMNS, rows, { columns: wide ? Number.POSITIVE_INFINITY : columns, paint });
}

/** `3 moved, 1 kept, 0 failed`. */
export function formatRedrive(done: readonly Redriven[]): string {
  if (done.length === 0) return "no dead letters to move";
  const count = (outcome: Redriven["outcome"]): number =>
    done.filter((each) => each.outcome === outcome).length;
  return `${count("moved")} moved, ${count("kept")} kept, ${count("failed")} failed`;
}
