/** Lets one answer of a service get lost, so that the SDK itself tries the call again, as it does in production. */
export interface AnswerLoss {
  /** The next call takes effect, and its answer is lost. */
  loseNext(): void;
}

interface Losable {
  readonly middlewareStack: {
    add(
      middleware: (next: (args: unknown) => Promise<unknown>) => (args: unknown) => Promise<unknown>,
      options: { step: "deserialize"; name: string },
    ): void;
  };
}

/** Puts the fault below the client's own retries; the client must be allowed more than one attempt. */
export function loseAnswers(client: unknown): AnswerLoss {
  let armed = false;
  (client as Losable).middlewareStack.add(
    (next) => async (args) => {
      if (!armed) return next(args);
      armed = false;
      await next(args).catch(() => undefined);
      throw Object.assign(new Error("the connection was reset"), { name: "TimeoutError" });
    },
    { step: "deserialize", name: "answerLoss" },
  );
  return {
    loseNext() {
      armed = true;
    },
  };
}
