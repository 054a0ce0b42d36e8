/** Counts of SDK calls by command, for example `{ UpdateItem: 1 }`. */
export interface CallCounter {
  counts(): Record<string, number>;
  reset(): void;
}

interface Countable {
  readonly middlewareStack: {
    add(
      middleware: (
        next: (args: unknown) => Promise<unknown>,
        context: { commandName?: string },
      ) => (args: unknown) => Promise<unknown>,
      options: { step: "initialize"; name: string },
    ): void;
  };
}

/** Counts what a client sends, whatever comes of it; retries of the SDK itself count once. */
export function countCalls(client: unknown): CallCounter {
  let counts: Record<string, number> = {};
  (client as Countable).middlewareStack.add(
    (next, context) => (args) => {
      const name = (context.commandName ?? "unknown").replace(/Command$/, "");
      counts[name] = (counts[name] ?? 0) + 1;
      return next(args);
    },
    { step: "initialize", name: "callCounter" },
  );
  return {
    counts: () => ({ ...counts }),
    reset: () => {
      counts = {};
    },
  };
}
