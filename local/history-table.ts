import { stripVTControlCharacters, styleText } from "node:util";
import type { Verification } from "../shared/domain/verification.ts";
import type { Ledger } from "../shared/ledger/ledger.ts";
import { type FreightNames, formatCause, formatDuration, formatPhase, formatTime } from "./live-view.ts";

/** A Project's verifications in the order they were started, as a table. */
export async function formatHistory(
  ledger: Ledger,
  cluster: string,
  project: string,
  names: FreightNames,
): Promise<string> {
  const page = await ledger.listActivity(cluster, project, { limit: 200 });
  const verifications = page.items
    .flatMap((entry) => (entry.kind === "verification" ? [entry.verification] : []))
    .sort((a, b) => a.createdAt - b.createdAt);
  const rows = await Promise.all(
    verifications.map(async (verification) => [
      formatTime(verification.createdAt),
      verification.key.stage,
      await names.format(verification),
      formatPhase(verification.phase),
      formatDuration(verification),
      verification.id.slice(0, 8),
      describe(verification),
    ]),
  );
  return formatTable(["STARTED", "STAGE", "FREIGHT", "PHASE", "TOOK", "ID", "WHY"], rows);
}

function describe(verification: Verification): string {
  const { message } = verification;
  return [formatCause(verification), message].filter((part) => part !== "").join("; ");
}

function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const width = (text: string): number => stripVTControlCharacters(text).trimEnd().length;
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => width(row[column] ?? ""))),
  );
  const format = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.trimEnd() + " ".repeat((widths[column] ?? 0) - width(cell)))
      .join("  ")
      .trimEnd();
  return [styleText("bold", format(head)), ...rows.map(format)].join("\n");
}
