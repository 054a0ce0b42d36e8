/** Bounds of an exponential backoff: the first wait and the longest, in one unit of time. */
export interface BackoffOptions {
  readonly base: number;
  readonly cap: number;
}

/** Seconds. First retry after about a second, then doubling up to a minute: an outage of minutes costs few receives. */
export const MESSAGE_BACKOFF: BackoffOptions = { base: 1, cap: 60 };

/**
 * How long to wait before attempt `attempt + 1`, in the unit of the bounds, with equal jitter: between half of and
 * the whole exponential value. What failed together does not come back together, and yet a server that is down
 * never gets several requests in a row, as full jitter may do. `random` yields [0, 1).
 */
export function computeBackoff(attempt: number, options: BackoffOptions, random: () => number): number {
  const whole = Math.min(options.cap, options.base * 2 ** Math.min(30, Math.max(0, attempt - 1)));
  return whole / 2 + (whole / 2) * random();
}
