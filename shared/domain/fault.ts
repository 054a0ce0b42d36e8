/**
 * The four ways in which anything here can fail. Every place that can fail says which of them it is;
 * one mapper (`shared/runtime/outcome.ts`) turns them into batch failures, HTTP problems and exit codes.
 *
 * - `Invalid`: the input is wrong and will be wrong for ever; it goes to the dead-letter queue with reasons.
 * - `Permanent`: the input is right and the world says no; the verification is `Error` with this message.
 * - `Transient`: nobody knows yet; the message is tried again.
 * - `Conflict`: somebody was faster; reload and decide again (and, when that runs out, try the message again).
 */
export type FaultKind = "Invalid" | "Permanent" | "Transient" | "Conflict";

/** An error of one of the four kinds. `reasons` lists each thing that is wrong, one sentence apiece. */
export class Fault extends Error {
  override readonly name = "Fault";
  readonly kind: FaultKind;
  readonly reasons: readonly string[];

  constructor(kind: FaultKind, reasons: string | readonly string[], options?: { cause?: unknown }) {
    const list = typeof reasons === "string" ? [reasons] : [...reasons];
    super(list.join("; "), options);
    this.kind = kind;
    this.reasons = list;
  }
}

/** True when `error` is a fault, of the given kind if one is named. */
export function isFault(error: unknown, kind?: FaultKind): error is Fault {
  return error instanceof Fault && (kind === undefined || error.kind === kind);
}
