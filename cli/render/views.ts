import type { Combination } from "../../shared/domain/combinations.ts";
import type { RequestRecord, StageRecord, Verification } from "../../shared/domain/verification.ts";
import type { HistoryEntry } from "../../shared/ledger/ledger.ts";
import {
  formatCause,
  formatFreight,
  formatOutcome,
  formatPhase,
  formatRemark,
  formatRequestRemark,
  formatTook,
  shortenId,
  shortenIds,
} from "./labels.ts";
import { type Cell, type Column, formatTable } from "./table.ts";
import type { Paint } from "./text.ts";
import { formatAbsolute, formatAge } from "./time.ts";

/** How a table is to be made. `wide`: whole ids, absolute times, nothing cut. */
export interface ViewOptions {
  readonly now: number;
  readonly columns: number;
  readonly wide: boolean;
  readonly paint: Paint;
}

export interface StageRow {
  readonly record: StageRecord;
  readonly latest?: Verification | undefined;
}

const tableOptions = ({ columns, wide, paint }: ViewOptions) => ({
  columns: wide ? Number.POSITIVE_INFINITY : columns,
  paint,
});

const at = (time: number, { wide, now }: ViewOptions): string =>
  wide ? formatAbsolute(time) : formatAge(time, now);

export function formatStages(rows: readonly StageRow[], allProjects: boolean, options: ViewOptions): string {
  const { wide } = options;
  const columns: Column[] = [
    ...(allProjects ? [{ title: "PROJECT", least: 10, keep: "both" } as const] : []),
    { title: "STAGE", least: 12, keep: "both" },
    { title: "FREIGHT", least: 9 },
    { title: "PHASE" },
    { title: "WHEN" },
    // With the Project there is no room for all.
    ...(allProjects && !wide ? [] : [{ title: "ID" }]),
    { title: "NOTE", least: 10 },
  ];
  const cells = rows.map(({ record, latest }): Cell[] => {
    const held = record.awaiting;
    const freight =
      latest ?? (held === undefined ? undefined : { collection: held.collection, missingOrigins: [] });
    return [
      ...(allProjects ? [record.key.project] : []),
      record.key.stage,
      freight === undefined ? "" : formatFreight(freight, wide),
      latest === undefined ? "" : formatPhase(latest.phase),
      latest === undefined ? "" : at(latest.createdAt, options),
      ...(allProjects && !wide ? [] : [latest === undefined ? "" : wide ? latest.id : shortenId(latest.id)]),
      formatNote(record, latest),
    ];
  });
  return formatTable(columns, cells, tableOptions(options));
}

function formatNote({ awaiting, waiting }: StageRecord, latest: Verification | undefined): string {
  if (awaiting !== undefined)
    return `${formatFreight({ ...awaiting, missingOrigins: [] })} held: ${awaiting.reason}`;
  if (waiting !== undefined) return `request ${shortenId(waiting.requestId)} waits`;
  return latest === undefined ? "" : formatRemark(latest);
}

export function formatHistory(entries: readonly HistoryEntry[], options: ViewOptions): string {
  const columns: Column[] = [
    { title: "WHEN" },
    { title: "ID", least: 8 },
    { title: "FREIGHT", least: 7 },
    { title: "CAUSE", least: 14 },
    { title: "PHASE" },
    { title: "TOOK" },
    { title: "BY / MESSAGE", least: 13 },
  ];
  const cells = entries.map((entry) =>
    entry.kind === "verification"
      ? verificationCells(entry.verification, options)
      : requestCells(entry.request, options),
  );
  return formatTable(columns, cells, tableOptions(options));
}

export function formatCombinations(combinations: readonly Combination[], options: ViewOptions): string {
  const { wide } = options;
  const columns: Column[] = [
    { title: "FREIGHT", least: 15 },
    { title: "EVER PASSED" },
    { title: "LAST" },
    { title: "WHEN" },
    { title: "TRIES" },
    { title: "OUTCOMES", least: 12 },
  ];
  const cells = combinations.map((each): Cell[] => {
    const tries = Object.values(each.phases).reduce((sum, count) => sum + count, 0);
    return [
      formatFreight(each, wide),
      each.everSuccessful ? { text: "yes", style: "green" } : { text: "no", style: "red" },
      formatPhase(each.latest.phase),
      at(each.latest.createdAt, options),
      String(tries),
      Object.entries(each.phases)
        .map(([phase, count]) => `${count} ${phase}`)
        .join(", "),
    ];
  });
  return formatTable(columns, cells, tableOptions(options));
}

function verificationCells(verification: Verification, options: ViewOptions): Cell[] {
  const { wide, now } = options;
  return [
    at(verification.createdAt, options),
    wide ? verification.id : shortenId(verification.id),
    formatFreight(verification, wide),
    formatCause(verification.cause, wide),
    formatPhase(verification.phase),
    formatTook(verification, now),
    wide ? formatRemark(verification) : shortenIds(formatRemark(verification)),
  ];
}

function requestCells(request: RequestRecord, options: ViewOptions): Cell[] {
  const { wide } = options;
  const about = request.target === undefined || !wide ? "" : ` of ${request.target}`;
  return [
    at(request.createdAt, options),
    wide ? request.requestId : shortenId(request.requestId),
    "",
    `asked ${request.kind}${about}`,
    formatOutcome(request.outcome),
    "",
    wide ? formatRequestRemark(request, true) : shortenIds(formatRequestRemark(request, false)),
  ];
}
