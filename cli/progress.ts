import type { Clock } from "../shared/runtime/clock.ts";
import type { Sight } from "./follow.ts";
import { formatOutcome, formatPhase, shortenId } from "./render/labels.ts";
import { cut, toLine } from "./render/text.ts";
import { formatDuration } from "./render/time.ts";
import type { Terminal } from "./terminal.ts";

export interface Progress {
  report(sight: Sight): void;
  /** Leaves the terminal at the start of a line. */
  end(): void;
}

const ERASE = "\r\u001b[2K";

/** One line that overwrites itself where somebody watches, else a line for each change. All on standard error. */
export function createProgress(terminal: Terminal, clock: Clock, what: string): Progress {
  const start = clock.now();
  let last = "";
  return {
    report(sight) {
      const text = describe(sight);
      if (terminal.live) {
        const line = cut(`${what}: ${text}  ${formatDuration(clock.now() - start)}`, terminal.columns - 1);
        terminal.rawErr(`${ERASE}${line}`);
      } else if (text !== last) terminal.err(`${what}: ${text}`);
      last = text;
    },
    end() {
      if (terminal.live) terminal.rawErr(ERASE);
    },
  };
}

function describe({ request, verification, trouble }: Sight): string {
  if (trouble !== undefined) return toLine(`no answer, asking again (${trouble})`);
  if (request === undefined) return "sent, not taken up yet";
  if (request.outcome === "started" && verification !== undefined) {
    return `verification ${shortenId(verification.id)} ${formatPhase(verification.phase).text}`;
  }
  return toLine(`${formatOutcome(request.outcome).text} ${request.message}`);
}
