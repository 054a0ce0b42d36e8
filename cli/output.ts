import { stringify } from "yaml";
import type { Terminal } from "./terminal.ts";

export const OUTPUT_FORMATS = ["table", "wide", "json", "yaml", "name"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** One result in every shape that it may be asked for; only the one that is wanted is made. */
export interface Result {
  readonly document: () => object;
  readonly names: () => readonly string[];
  /** For people; `wide` wants everything whole. */
  readonly text: (wide: boolean) => string;
}

/** Writes a result to standard output. */
export function writeResult(terminal: Terminal, format: OutputFormat, result: Result): void {
  switch (format) {
    case "json":
      terminal.out(JSON.stringify(result.document(), null, 2));
      return;
    case "yaml":
      // Through JSON, so that both hold the same and `undefined` is left out.
      terminal.out(stringify(JSON.parse(JSON.stringify(result.document()))).trimEnd());
      return;
    case "name":
      if (result.names().length > 0) terminal.out(result.names().join("\n"));
      return;
    case "table":
    case "wide":
      terminal.out(result.text(format === "wide"));
  }
}

/** True where people read the result, and notes beside it help. */
export function isForPeople(format: OutputFormat): boolean {
  return format === "table" || format === "wide";
}
