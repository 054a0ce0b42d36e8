import { toObject } from "../../shared/presentation/document.ts";
import type { Finding, Level } from "../doctor/finding.ts";
import { type Style, toLine, wrap } from "./text.ts";
import type { ViewOptions } from "./views.ts";

const LOOKS: Readonly<Record<Level, Style>> = { ok: "green", warn: "yellow", fail: "red" };
const INDENT = "      ";

/** `level` of the whole is that of its worst check. */
export function toDiagnosis(findings: readonly Finding[]): object {
  const levels = findings.map(({ level }) => level);
  const worst = levels.includes("fail") ? "fail" : levels.includes("warn") ? "warn" : "ok";
  return toObject({ kind: "Diagnosis", level: worst, checks: findings });
}

/** A line a finding, and below it what to do. */
export function formatFindings(findings: readonly Finding[], { columns, paint, wide }: ViewOptions): string {
  const room = (wide ? Number.POSITIVE_INFINITY : columns) - INDENT.length;
  const count = (level: Level): number => findings.filter((each) => each.level === level).length;
  const lines = findings.flatMap(({ level, subject, message, advice }) => {
    const [first = "", ...rest] = wrap(toLine(`${subject}: ${message}`), room);
    return [
      `${paint(LOOKS[level], level.padEnd(4))}  ${first}`,
      ...rest.map((line) => INDENT + line),
      ...(advice === undefined ? [] : wrap(`→ ${advice}`, room).map((line) => INDENT + line)),
    ];
  });
  return [...lines, "", `${count("ok")} ok, ${count("warn")} warn, ${count("fail")} fail`].join("\n");
}
