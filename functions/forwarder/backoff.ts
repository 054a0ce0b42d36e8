import { computeBackoff } from "../../shared/runtime/backoff.ts";

export interface BackoffOptions {
  /** Upper bound of the first pause, milliseconds. */
  readonly baseMs: number;
  /** Upper bound of every pause, milliseconds. */
  readonly capMs: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

export interface Backoff {
  /** Milliseconds to wait before the next attempt; doubles from call to call up to the cap. */
  next(): number;
  /** Back to the first pause. */
  reset(): void;
}

/** The common backoff with a memory of how many attempts there were. */
export function createBackoff({ baseMs, capMs, random }: BackoffOptions): Backoff {
  let attempt = 0;
  return {
    next: () => computeBackoff(++attempt, { base: baseMs, cap: capMs }, random),
    reset() {
      attempt = 0;
    },
  };
}
