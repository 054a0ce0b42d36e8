import type { Clock } from "../../shared/runtime/clock.ts";

/** A sleep that has not ended yet. */
interface Sleeper {
  /** As asked for, milliseconds. */
  readonly ms: number;
  readonly dueAt: number;
}

/** A clock that stands still until it is told to go on. */
export interface VirtualClock extends Clock {
  /** Goes on by `ms` and ends every sleep that is due by then, in the order in which they are due. */
  advance(ms: number): void;
  /** Shows another time from now on, as a clock that is set; sleeps last as long as they would have. */
  jump(ms: number): void;
  /** Goes on to the end of the earliest sleep of at most `maxMs`; false when there is none. */
  wakeNext(maxMs?: number): boolean;
  sleepers(): readonly Sleeper[];
  /** Every sleep that was ever asked for, milliseconds, oldest first. */
  readonly asked: readonly number[];
}

/** Creates a clock that stands at `start`, milliseconds since the epoch. */
export function createVirtualClock(start = Date.UTC(2030, 0, 1)): VirtualClock {
  let time = start;
  const sleeping = new Set<{ readonly ms: number; dueAt: number; readonly wake: () => void }>();
  const asked: number[] = [];

  function advance(ms: number): void {
    const until = time + ms;
    const due = [...sleeping].filter((sleeper) => sleeper.dueAt <= until);
    for (const sleeper of due.sort((a, b) => a.dueAt - b.dueAt)) {
      time = Math.max(time, sleeper.dueAt);
      sleeper.wake();
    }
    time = until;
  }

  return {
    now: () => time,
    asked,
    advance,
    jump(ms) {
      time += ms;
      for (const sleeper of sleeping) sleeper.dueAt += ms;
    },
    sleepers: () => [...sleeping].sort((a, b) => a.dueAt - b.dueAt),
    wakeNext(maxMs = Number.POSITIVE_INFINITY) {
      const due = [...sleeping].filter(({ ms }) => ms <= maxMs).map(({ dueAt }) => dueAt);
      if (due.length === 0) return false;
      advance(Math.max(0, Math.min(...due) - time));
      return true;
    },
    sleep(ms, signal) {
      return new Promise((resolve) => {
        if (signal?.aborted) {
          resolve();
          return;
        }
        const sleeper = { ms, dueAt: time + ms, wake };
        function wake(): void {
          sleeping.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        }
        asked.push(ms);
        sleeping.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      });
    },
  };
}
