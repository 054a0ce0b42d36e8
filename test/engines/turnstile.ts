/** Lets several workers pass one call at a time, in an order that the test decides: every interleaving is possible. */
export interface Turnstile {
  /** The same port, before whose every asynchronous call a worker waits for its turn. */
  guard<T extends object>(port: T): T;
  /** Waits for a turn, for what a worker does without a port. */
  takeTurn(): Promise<void>;
  /** Runs all of them at once; settles when each has. */
  race<T>(workers: readonly (() => Promise<T>)[]): Promise<PromiseSettledResult<T>[]>;
}

/** `random` in [0, 1) picks who goes next. Workers must make one call at a time, as handlers do. */
export function createTurnstile(random: () => number): Turnstile {
  const waiting: (() => void)[] = [];
  let running = 0;

  function letNextPass(): void {
    if (running > 0 || waiting.length === 0) return;
    const [next] = waiting.splice(Math.floor(random() * waiting.length), 1);
    running++;
    next?.();
  }

  function takeTurn(): Promise<void> {
    const turn = new Promise<void>((resolve) => waiting.push(resolve));
    running--;
    letNextPass();
    return turn;
  }

  return {
    takeTurn,
    guard(port) {
      return new Proxy(port, {
        get(target, property, receiver) {
          const value: unknown = Reflect.get(target, property, receiver);
          if (typeof value !== "function" || String(property).startsWith("list")) return value;
          return async (...args: unknown[]) => {
            await takeTurn();
            return value.apply(target, args);
          };
        },
      });
    },
    race(workers) {
      running = workers.length;
      return Promise.allSettled(
        workers.map(async (work) => {
          try {
            return await work();
          } finally {
            running--;
            letNextPass();
          }
        }),
      );
    },
  };
}
