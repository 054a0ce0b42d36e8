import { styleText } from "node:util";
import stringWidth from "string-width";

export type Style = Parameters<typeof styleText>[0];
/** Colours a text, or leaves it as it is where colours are not wanted. */
export type Paint = (style: Style, text: string) => string;

export function createPaint(color: boolean): Paint {
  return color ? (style, text) => styleText(style, text, { validateStream: false }) : (_style, text) => text;
}

/**
 * One line that cannot do anything to a terminal: messages come from metrics, and a metric may report escape
 * sequences, line breaks or letters that turn the direction of writing.
 */
export function toLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, " ")
    .replace(/ {2,}/g, " ")
    .trim();
}

const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });
const split = (text: string): string[] => [...segmenter.segment(text)].map((part) => part.segment);

/** Columns that a plain text takes. */
export function measure(text: string): number {
  return stringWidth(text);
}

/** Cuts a plain text to so many columns; `…` stands for what is gone. Names keep their end, which tells them apart. */
export function cut(text: string, columns: number, keep: "start" | "both" = "start"): string {
  if (measure(text) <= columns) return text;
  const graphemes = split(text);
  const room = columns - 1;
  const tailRoom = keep === "both" ? Math.floor(room / 2) : 0;
  return `${take(graphemes, room - tailRoom)}…${take(graphemes.reverse(), tailRoom, true)}`;
}

function take(graphemes: readonly string[], columns: number, reversed = false): string {
  const taken: string[] = [];
  let used = 0;
  for (const grapheme of graphemes) {
    used += stringWidth(grapheme);
    if (used > columns) break;
    taken.push(grapheme);
  }
  return (reversed ? taken.reverse() : taken).join("");
}

/** The words of a text in lines of at most so many columns. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && measure(line) + 1 + measure(word) > columns) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
