import { describe, expect, it } from "vitest";
import { systemClock } from "./clock.ts";

describe("the system clock", () => {
  it("sleeps for about as long as it is asked to", async () => {
    const before = systemClock.now();
    await systemClock.sleep(20);
    // A timer may fire a millisecond early, measured with another clock.
    expect(systemClock.now() - before).toBeGreaterThanOrEqual(18);
  });

  it("ends a sleep at once, and without an error, when its signal is or gets aborted", async () => {
    await systemClock.sleep(60_000, AbortSignal.abort());
    const abort = new AbortController();
    const sleep = systemClock.sleep(60_000, abort.signal);
    abort.abort();
    await expect(sleep).resolves.toBeUndefined();
  });
});
