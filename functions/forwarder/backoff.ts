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

/**
 * Exponential backoff whose jitter takes away at most half: full jitter may pick nearly nothing several times in
 * a row, and then a server that is down still gets tens of requests.
 */
export function createBackoff({ baseMs, capMs, random }: BackoffOptions): Backoff {
  let bound = baseMs;
  return {
    next() {
      const pause = bound / 2 + (bound / 2) * random();
      bound = Math.min(bound * 2, capMs);
      return pause;
    },
    reset() {
      bound = baseMs;
    },
  };
}
