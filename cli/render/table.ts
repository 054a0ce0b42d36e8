import { cut, measure, type Paint, type Style, toLine } from "./text.ts";

export interface Column {
  readonly title: string;
  /** Set on columns that may be cut: to no less than this. */
  readonly least?: number;
  /** What is kept when it is cut: of names both ends, of texts the start (default). */
  readonly keep?: "start" | "both";
}

/** A cell's text and how to colour it. */
export type Cell = string | { readonly text: string; readonly style: Style };

const GAP = "  ";

/**
 * A table with a line of titles. Where it would be wider than `columns`, columns that may be cut are cut, the
 * widest first and names last; a column without any text is left out.
 */
export function formatTable(
  definition: readonly Column[],
  rows: readonly (readonly Cell[])[],
  options: { readonly columns: number; readonly paint: Paint },
): string {
  const texts = rows.map((row) => row.map((cell) => toLine(textOf(cell))));
  const shown = definition.flatMap((column, index) =>
    texts.some((row) => row[index]) || rows.length === 0 ? [{ column, index }] : [],
  );
  const widths = shown.map(({ column, index }) =>
    Math.max(column.title.length, ...texts.map((row) => measure(row[index] ?? ""))),
  );
  shrink(
    widths,
    shown.map(({ column }) => column),
    options.columns - GAP.length * (shown.length - 1),
  );
  const format = (cells: readonly string[], styles: readonly (Style | undefined)[]): string => {
    const parts = shown.map(({ column }, position) => {
      const width = widths[position] ?? 0;
      const text = cut(cells[position] ?? "", width, column.keep);
      const padding = position === shown.length - 1 ? "" : " ".repeat(width - measure(text));
      const style = styles[position];
      return (style === undefined ? text : options.paint(style, text)) + padding;
    });
    return parts.join(GAP).trimEnd();
  };
  const head = options.paint(
    "bold",
    format(
      shown.map(({ column }) => column.title),
      [],
    ),
  );
  const body = rows.map((row, number) =>
    format(
      shown.map(({ index }) => texts[number]?.[index] ?? ""),
      shown.map(({ index }) => styleOf(row[index])),
    ),
  );
  return [head, ...body].join("\n");
}

const textOf = (cell: Cell): string => (typeof cell === "string" ? cell : cell.text);
const styleOf = (cell: Cell | undefined): Style | undefined =>
  cell === undefined || typeof cell === "string" ? undefined : cell.style;

/** Names up to this stay whole as long as a text beside them can give way. */
const NAME_COLUMNS = 20;

/** Cuts what is long first, then texts, then names. */
function shrink(widths: number[], columns: readonly Column[], room: number): void {
  const limits: ((column: Column) => number | undefined)[] = [
    ({ least }) => (least === undefined ? undefined : Math.max(least, NAME_COLUMNS)),
    ({ least, keep }) => (keep === "both" ? undefined : least),
    ({ least }) => least,
  ];
  for (const limit of limits) cutWidest(widths, columns.map(limit), room);
}

function cutWidest(widths: number[], least: readonly (number | undefined)[], room: number): void {
  let excess = widths.reduce((sum, width) => sum + width, 0) - room;
  while (excess > 0) {
    let widest = -1;
    for (const [index, width] of widths.entries()) {
      const limit = least[index];
      if (limit === undefined || width <= limit) continue;
      if (widest < 0 || width > (widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess--;
  }
}
