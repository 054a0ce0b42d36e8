import { stripVTControlCharacters, styleText } from "node:util";
import type { Cluster } from "../shared/cluster/cluster.ts";
import { formatStageKey, type StageKey } from "../shared/domain/identity.ts";
import { isTerminal, type Phase } from "../shared/domain/phase.ts";
import type { Verification } from "../shared/domain/verification.ts";
import type { Ledger } from "../shared/ledger/ledger.ts";
import { PHASE_LOOKS } from "../shared/presentation/phase-look.ts";
import type { Clock } from "../shared/runtime/clock.ts";

const PHASE_WIDTH = 14;

/** `✔ Successful`, padded; coloured where the terminal has colours and NO_COLOR is not set. */
export function formatPhase(phase: Phase): string {
  const { icon, style } = PHASE_LOOKS[phase];
  return styleText(style, `${icon} ${phase}`.padEnd(PHASE_WIDTH));
}

/** Freight by the name that people use; looked up once each. */
export interface FreightNames {
  /** `brisk-otter`, or of several `brisk-otter + tidy-magpie`, with `(1 of 2)` when some are missing. */
  format(verification: Verification): Promise<string>;
}

export function createFreightNames(cluster: Cluster): FreightNames {
  const aliases = new Map<string, Promise<string>>();
  const lookUp = async (project: string, name: string): Promise<string> => {
    const short = name.slice(0, 7);
    try {
      const alias = (await cluster.getFreight(project, name))?.alias;
      return typeof alias === "string" && alias !== "" ? alias : short;
    } catch {
      return short;
    }
  };
  return {
    async format({ key, collection, missingOrigins }) {
      // A listing leaves out the members of a long collection; its id stands for them.
      if (collection.freight.length === 0) return `set ${collection.id.slice(0, 7)}`;
      const names = await Promise.all(
        collection.freight.map(({ name }) => {
          const id = `${key.project}/${name}`;
          const alias = aliases.get(id) ?? lookUp(key.project, name);
          aliases.set(id, alias);
          return alias;
        }),
      );
      const held = names.length;
      const missing = missingOrigins.length;
      return names.sort().join(" + ") + (missing === 0 ? "" : ` (${held} of ${held + missing})`);
    },
  };
}

export interface LiveViewOptions {
  readonly ledger: Ledger;
  readonly cluster: string;
  readonly names: FreightNames;
  readonly clock: Clock;
  /** Milliseconds between looks. */
  readonly everyMs: number;
  /** Writes one line. */
  readonly print: (line: string) => void;
  /** Characters of a line; without end when absent. */
  readonly width: () => number | undefined;
  /** How a Stage is called; with its Project where there are several. */
  readonly formatStage: (key: StageKey) => string;
}

export interface LiveView {
  /** Shows all that has happened so far. */
  catchUp(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Prints a line whenever a verification changes its phase. It looks at each Stage's latest verification and goes
 * on with one that was open until it has ended; what ended before the first look is no news.
 */
export function startLiveView(options: LiveViewOptions): LiveView {
  const { clock, ledger } = options;
  const stop = new AbortController();
  const phases = new Map<string, Phase>();
  const open = new Map<string, { readonly key: StageKey; readonly id: string }>();

  const look = async (isFirst: boolean): Promise<void> => {
    const wanted = new Map(open);
    let cursor: string | undefined;
    do {
      const page = await ledger.listStages(options.cluster, undefined, { cursor, limit: 500 });
      for (const { key, latest } of page.items) {
        if (latest === undefined) continue;
        const known = phases.get(idOf(key, latest.id));
        if (known === undefined || !isTerminal(known)) {
          wanted.set(idOf(key, latest.id), { key, id: latest.id });
        }
      }
      cursor = page.cursor;
    } while (cursor !== undefined);
    const found = await ledger.readVerifications([...wanted.values()]);
    for (const verification of [...found].sort((a, b) => a.createdAt - b.createdAt)) {
      const id = idOf(verification.key, verification.id);
      const { phase } = verification;
      if (phases.get(id) === phase) continue;
      phases.set(id, phase);
      if (isTerminal(phase)) open.delete(id);
      else open.set(id, verification);
      if (!isFirst || !isTerminal(phase)) await report(options, verification);
    }
  };

  // One look at a time, or a line would come twice.
  let isFirst = true;
  let looking: Promise<void> = Promise.resolve();
  const catchUp = (): Promise<void> => {
    looking = looking
      .then(() => look(isFirst))
      .then(
        () => {
          isFirst = false;
        },
        // The next look shows what this one could not.
        () => undefined,
      );
    return looking;
  };
  const done = (async () => {
    while (!stop.signal.aborted) {
      await catchUp();
      await clock.sleep(options.everyMs, stop.signal);
    }
  })();
  return {
    catchUp,
    async stop() {
      stop.abort();
      await done;
    },
  };
}

const idOf = (key: StageKey, id: string): string => `${formatStageKey(key)}#${id}`;

async function report(options: LiveViewOptions, verification: Verification): Promise<void> {
  const freight = await options.names.format(verification);
  options.print(
    formatLine(
      verification.finishedAt ?? verification.startedAt ?? verification.createdAt,
      options.formatStage(verification.key),
      freight,
      formatPhase(verification.phase),
      describe(verification),
      options.width(),
    ),
  );
}

const STAGE_WIDTH = 10;
const FREIGHT_WIDTH = 25;

/** One line of the live view; what is longer than its column pushes the rest, and `width` cuts the message. */
function formatLine(
  at: number,
  stage: string,
  freight: string,
  phase: string,
  message: string,
  width: number | undefined,
): string {
  const columns = [
    styleText("dim", formatTime(at)),
    stage.padEnd(STAGE_WIDTH),
    freight.padEnd(FREIGHT_WIDTH),
    phase,
  ];
  const line = `${columns.join("  ")}  `;
  const room = width === undefined ? message.length : width - stripVTControlCharacters(line).length;
  const shown = message.length <= room ? message : `${message.slice(0, Math.max(0, room - 1))}…`;
  return (line + shown).trimEnd();
}

export function formatTime(at: number): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

/** What asked for it while it runs; how long it took and why once it has ended. */
function describe(verification: Verification): string {
  if (!isTerminal(verification.phase)) return formatCause(verification);
  const { message, missingOrigins } = verification;
  const missing = missingOrigins.length === 0 ? "" : `without ${missingOrigins.join(", ")}`;
  return [formatDuration(verification), message, missing].filter((part) => part !== "").join("; ");
}

/** `promoted`, or `reverify of 1a2b3c4d by mara`. */
export function formatCause({ actor, cause }: Verification): string {
  const by = actor === undefined ? "" : ` by ${actor}`;
  if (cause.kind === "promotion") return "promoted";
  return cause.kind === "reverify" ? `reverify of ${cause.of.slice(0, 8)}${by}` : `requested${by}`;
}

/** `3 s`; empty while it is open. */
export function formatDuration({ createdAt, finishedAt, startedAt }: Verification): string {
  if (finishedAt === undefined) return "";
  const seconds = Math.max(0, finishedAt - (startedAt ?? createdAt)) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}
