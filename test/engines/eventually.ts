import { setTimeout as wait } from "node:timers/promises";

/** Waits in steps of a millisecond until `holds`; for effects that come over real sockets. Fails after `withinMs`. */
export async function eventually(
  what: string,
  holds: () => boolean,
  withinMs = 4_000,
  meanwhile: () => void = () => {},
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`did not come true within ${withinMs} ms: ${what}`);
    meanwhile();
    await wait(1);
  }
}
