/** What a command writes to. Results go to `out`; progress, notes and errors to `err`. */
export interface Terminal {
  /** One line, or several; the last newline is added. */
  out(text: string): void;
  err(text: string): void;
  /** Text as it is, without a newline; only for progress that overwrites itself. */
  rawErr(text: string): void;
  /** Columns that a table may use. */
  readonly columns: number;
  /** Whether results may be coloured. */
  readonly color: boolean;
  /** Whether somebody watches progress. */
  readonly live: boolean;
}

const DEFAULT_COLUMNS = 80;
const LEAST_COLUMNS = 40;

interface Stream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** A process's streams as a terminal. Without one, tables take `COLUMNS` or 80 and nothing is coloured. */
export function createTerminal(
  stdout: Stream,
  stderr: Stream,
  env: Readonly<Record<string, string | undefined>>,
): Terminal {
  const columns = (stdout.isTTY ? stdout.columns : Number(env.COLUMNS)) || DEFAULT_COLUMNS;
  const dumb = env.TERM === "dumb";
  return {
    out: (text) => void stdout.write(`${text}\n`),
    err: (text) => void stderr.write(`${text}\n`),
    rawErr: (text) => void stderr.write(text),
    columns: Math.max(LEAST_COLUMNS, columns),
    color: stdout.isTTY === true && !env.NO_COLOR && !dumb,
    live: stderr.isTTY === true && !dumb,
  };
}
