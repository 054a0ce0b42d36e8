/** What a person can do something about: it ends the command with this exit and this way out. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exit: "usage" | "notFound" | "unreachable";
  /** Whole lines: what to try next. */
  readonly hints: readonly string[];

  constructor(exit: "usage" | "notFound" | "unreachable", message: string, hints: readonly string[] = []) {
    super(message);
    this.exit = exit;
    this.hints = hints;
  }
}
