import type { AnalysisRunSnapshot } from "../../shared/domain/analysis-run.ts";
import { isTerminal, readRunPhase } from "../../shared/domain/phase.ts";
import { formatTemplate, type TemplateState } from "../../shared/domain/template-drift.ts";
import type { RequestRecord } from "../../shared/domain/verification.ts";
import type { DescribedVerification } from "../lookup.ts";
import { formatCause, formatFreight, formatOutcome, formatPhase, formatTook } from "./labels.ts";
import { type Cell, formatTable } from "./table.ts";
import { toLine, wrap } from "./text.ts";
import { formatAbsolute, formatAge, formatDuration } from "./time.ts";
import type { ViewOptions } from "./views.ts";

type Field = readonly [label: string, value: Cell | undefined];

const LABEL = 14;

/** Labels and values below each other; fields without a value are left out, long values go on below. */
function formatFields(fields: readonly Field[], { columns, paint }: ViewOptions): string {
  return fields
    .flatMap(([label, value]) => {
      const text = toLine(typeof value === "object" ? value.text : (value ?? ""));
      if (text === "") return [];
      const lines = wrap(text, columns - LABEL);
      const styled = typeof value === "object" ? lines.map((line) => paint(value.style, line)) : lines;
      return styled.map(
        (line, index) => (index === 0 ? `${label}:`.padEnd(LABEL) : " ".repeat(LABEL)) + line,
      );
    })
    .join("\n");
}

const moment = (time: number | undefined, now: number): string =>
  time === undefined ? "" : `${formatAbsolute(time)} (${formatAge(time, now)})`;

/** `AnalysisTemplate/smoke, generation 3 (1f0c52a9b3d4)`. */
const formatTemplateState = (template: TemplateState): string =>
  `${formatTemplate(template)}, generation ${template.generation} (${template.hash})`;

/** Everything about one verification: what it is, how it went, what was measured. */
export function formatDescription(
  { verification, transitions }: DescribedVerification,
  options: ViewOptions,
): string {
  const { now } = options;
  const { key, abort, run } = verification;
  const fields = formatFields(
    [
      ["Verification", verification.id],
      ["Stage", `${key.stage}, Project ${key.project}, cluster ${key.cluster}`],
      ["Phase", formatPhase(verification.phase)],
      ["Reason", verification.reason],
      ["Message", transitions.findLast((each) => each.message !== "")?.message ?? verification.message],
      ["Freight", formatFreight(verification, true)],
      ["Missing", verification.missingOrigins.join(", ")],
      ["Cause", formatCause(verification.cause, true)],
      ["Promotion", verification.cause.kind === "promotion" ? "" : verification.promotion],
      ["Actor", verification.actor],
      ["Templates", (verification.templates ?? []).map(formatTemplateState).join(", ")],
      [
        "Changed since",
        verification.drift === undefined
          ? ""
          : `${verification.drift.templates.map(formatTemplateState).join(", ")}, seen ${moment(verification.drift.at, now)}`,
      ],
      ["AnalysisRun", run === undefined ? "none" : run.name],
      ["Run's phase", run === undefined ? "" : run.phase || "(not touched yet)"],
      ["Created", moment(verification.createdAt, now)],
      ["Started", moment(verification.startedAt, now)],
      ["Finished", moment(verification.finishedAt, now)],
      [isTerminal(verification.phase) ? "Took" : "Taking", formatTook(verification, now)],
      [
        "Abort",
        abort === undefined ? "" : `${moment(abort.at, now)}${abort.actor ? ` by ${abort.actor}` : ""}`,
      ],
      ["Abort reason", abort?.reason],
    ],
    options,
  );
  const seen = transitions.findLast((each) => each.run !== undefined)?.run;
  return [
    fields,
    formatTransitions(transitions, verification.createdAt, options),
    formatMetrics(seen, options),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

function formatTransitions(
  transitions: DescribedVerification["transitions"],
  createdAt: number,
  options: ViewOptions,
): string {
  if (transitions.length === 0) return "";
  const rows = transitions.map((each): Cell[] => [
    formatAbsolute(each.at),
    each.at === createdAt ? "" : formatDuration(Math.max(0, each.at - createdAt)),
    formatPhase(each.phase),
    each.message || (each.reason ?? ""),
  ]);
  const columns = [
    { title: "CHANGED" },
    { title: "AFTER" },
    { title: "PHASE" },
    { title: "MESSAGE", least: 12 },
  ];
  return formatTable(columns, rows, toTable(options));
}

function formatMetrics(run: AnalysisRunSnapshot | undefined, options: ViewOptions): string {
  if (run === undefined || run.metrics.length === 0) return "";
  const rows = run.metrics.map((metric): Cell[] => {
    const phase = readRunPhase(metric.phase);
    const last = metric.measurements.at(-1);
    return [
      metric.name + (metric.dryRun ? " (dry run)" : ""),
      phase === undefined ? metric.phase : formatPhase(phase),
      String(metric.count),
      String(metric.successful),
      String(metric.failed),
      String(metric.inconclusive),
      String(metric.error),
      last?.value ?? "",
      metric.message ?? last?.message ?? "",
    ];
  });
  const columns = [
    { title: "METRIC", least: 12, keep: "both" as const },
    { title: "PHASE" },
    { title: "N" },
    { title: "OK" },
    { title: "FAIL" },
    { title: "INC" },
    { title: "ERR" },
    { title: "LAST", least: 8 },
    { title: "MESSAGE", least: 10 },
  ];
  const table = formatTable(columns, rows, toTable(options));
  if (run.omittedMetrics === 0) return table;
  const measured = run.omittedCounts?.count ?? 0;
  return `${table}\n(${run.omittedMetrics} more metrics, ${measured} measurements, are counted and not kept one by one)`;
}

const toTable = ({ columns, wide, paint }: ViewOptions) => ({
  columns: wide ? Number.POSITIVE_INFINITY : columns,
  paint,
});

/** A request and its fate. */
export function formatRequest(request: RequestRecord, options: ViewOptions): string {
  const { key } = request;
  return formatFields(
    [
      ["Request", request.requestId],
      ["Asked for", request.kind],
      ["Stage", `${key.stage}, Project ${key.project}, cluster ${key.cluster}`],
      ["Outcome", formatOutcome(request.outcome)],
      ["Message", request.message],
      ["About", request.target],
      ["Verification", request.verificationId],
      ["Actor", request.actor],
      ["Reason", request.reason],
      ["Asked", moment(request.createdAt, options.now)],
    ],
    options,
  );
}
