import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { type Column, formatTable } from "./table.ts";
import { createPaint, cut, measure, toLine, wrap } from "./text.ts";

const plain = createPaint(false);
const COLUMNS: Column[] = [
  { title: "NAME", least: 12, keep: "both" },
  { title: "WHEN" },
  { title: "NOTE", least: 10 },
];

describe("formatTable", () => {
  it("fits 80 columns by cutting the widest of the columns that may be cut", () => {
    const name = `checkout-${"very-".repeat(12)}long-eu`;
    const table = formatTable(COLUMNS, [[name, "12s ago", "x".repeat(200)]], { columns: 80, paint: plain });
    const [, row = ""] = table.split("\n");
    expect(measure(row)).toBe(80);
    expect(row).toMatch(/^checkout-very-.*….*long-eu {2}12s ago {2}x+…$/);
  });

  it("cuts nothing without a limit, and leaves out a column that says nothing", () => {
    const table = formatTable(COLUMNS, [["dev", "", "x".repeat(200)]], { columns: Infinity, paint: plain });
    expect(table).toBe(`NAME  NOTE\ndev   ${"x".repeat(200)}`);
  });

  it("stands in columns whether coloured or not, and with letters of double width", () => {
    const rows = [
      [{ text: "✔ 港湾", style: "green" as const }, "1s ago", "a"],
      ["dev", "10s ago", "b"],
    ];
    const colored = formatTable(COLUMNS, rows, { columns: 80, paint: createPaint(true) });
    expect(colored).toContain("\u001b[32m✔ 港湾\u001b[39m");
    const text = stripVTControlCharacters(colored);
    expect(text).toBe(formatTable(COLUMNS, rows, { columns: 80, paint: plain }));
    const starts = text
      .split("\n")
      .slice(1)
      .map((line) => measure(line.slice(0, line.indexOf("ago"))));
    expect(starts).toEqual([11, 12]);
  });

  it("lets no message move the cursor, break the line or turn the direction of writing", () => {
    const evil = "bad\u001b[2J\r\nnews\u202e!";
    const [, row] = formatTable(COLUMNS, [["dev", "now", evil]], { columns: 80, paint: plain }).split("\n");
    expect(row).toBe("dev   now   bad [2J news !");
  });
});

describe("text", () => {
  it.each([
    ["short", 10, "start", "short"],
    ["Metric assessed Failed", 10, "start", "Metric as…"],
    ["lighthouse-lamps-eu", 11, "both", "light…ps-eu"],
    ["港湾港湾", 5, "start", "港湾…"],
    ["👩‍🚀 aboard", 5, "start", "👩‍🚀 a…"],
  ] as const)("cuts %s to %d columns", (text, columns, keep, expected) => {
    expect(cut(text, columns, keep)).toBe(expected);
    expect(measure(cut(text, columns, keep))).toBeLessThanOrEqual(columns);
  });

  it("wraps between words", () => {
    expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
    expect(toLine("  a\n\n b ")).toBe("a b");
  });
});
