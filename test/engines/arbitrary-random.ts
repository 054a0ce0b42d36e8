import fc from "fast-check";

const STEPS = 2 ** 30;

/**
 * A source of numbers that are uniform in [0, 1), for fast-check to shrink. (`fc.double` is uniform in its bits, not in its
 * value: nearly all that it gives is nearly 0.)
 */
export const arbitraryRandom: fc.Arbitrary<() => number> = fc
  .infiniteStream(fc.noBias(fc.integer({ min: 0, max: STEPS - 1 })))
  .map((stream) => () => (stream.next().value as number) / STEPS);
