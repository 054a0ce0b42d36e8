/**
 * Reads `source` while the consumer is busy and hands over everything that came meanwhile as one batch. At most
 * `limit` items (and the rest of the last piece) wait; then the source is not read until the consumer is back.
 *
 * When the source fails, what it gave before is handed over first, then its error is thrown. Whoever stops early
 * must make a pending read of the source end, or `return()` waits for it.
 */
export async function* gather<T>(source: AsyncIterable<readonly T[]>, limit: number): AsyncGenerator<T[]> {
  let waiting: T[] = [];
  let stopped = false;
  let ended: { readonly error?: unknown } | undefined;
  let wakeReader = (): void => {};
  let wakeConsumer = (): void => {};

  async function read(): Promise<void> {
    try {
      for await (const items of source) {
        for (const item of items) waiting.push(item);
        wakeConsumer();
        while (waiting.length >= limit && !stopped) {
          await new Promise<void>((resolve) => {
            wakeReader = resolve;
          });
        }
        if (stopped) break;
      }
      ended = {};
    } catch (error) {
      ended = { error };
    }
    wakeConsumer();
  }

  const reading = read();
  try {
    for (;;) {
      if (waiting.length > 0) {
        const batch = waiting;
        waiting = [];
        wakeReader();
        yield batch;
      } else if (ended !== undefined) {
        if ("error" in ended) throw ended.error;
        return;
      } else {
        await new Promise<void>((resolve) => {
          wakeConsumer = resolve;
        });
      }
    }
  } finally {
    stopped = true;
    wakeReader();
    await reading;
  }
}
