/** What a fault's predicate may look at. */
export interface RequestFacts {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly isWatch: boolean;
}

export type RequestPredicate = (request: RequestFacts) => boolean;

/** Ways to break the sandbox on purpose. Only code that holds the handle reaches them, nobody over HTTP. */
export interface Faults {
  /** While on, every connection, old or new, is destroyed without a word. */
  outage(on: boolean): void;
  /** The next `times` requests that match are answered with `status` instead of being carried out. */
  respond(
    status: 429 | 500 | 503 | 504,
    times: number,
    matches?: RequestPredicate,
    retryAfterSeconds?: number,
  ): void;
  /** The next `times` requests that match are carried out, and the connection dies before the answer. */
  loseAnswers(times: number, matches?: RequestPredicate): void;
  /** Breaks the connections of all watches. */
  dropWatches(): void;
  /** While on, watches stay open and say nothing, bookmarks included. */
  stallWatches(on: boolean): void;
  /** Ends all watches with the in-stream 410 of a compaction. */
  expireWatches(): void;
  /** Forgets all events: whoever resumes from an older resourceVersion gets 410. */
  compact(): void;
  /** While on, a watch that asks for too old a resourceVersion gets HTTP 410; else (as now) 200 and an ERROR event. */
  goneAsHttpStatus(on: boolean): void;
  /** Takes all of them back. */
  clear(): void;
}

interface Planned {
  readonly kind: "respond" | "lose";
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;
  readonly matches: RequestPredicate;
  left: number;
}

/** What is planned for a request, or nothing. Counted down by looking. */
export type RequestFault =
  | { readonly kind: "respond"; readonly status: number; readonly retryAfterSeconds: number | undefined }
  | { readonly kind: "lose" };

/** The faults that hit single requests, in the order they were planned. */
export class RequestFaults {
  #planned: Planned[] = [];

  plan(
    kind: "respond" | "lose",
    times: number,
    matches: RequestPredicate = () => true,
    status = 0,
    retryAfterSeconds?: number,
  ): void {
    this.#planned.push({ kind, status, retryAfterSeconds, matches, left: times });
  }

  take(request: RequestFacts): RequestFault | undefined {
    const fault = this.#planned.find((planned) => planned.matches(request));
    if (fault === undefined) return undefined;
    fault.left -= 1;
    this.#planned = this.#planned.filter((planned) => planned.left > 0);
    return fault.kind === "lose"
      ? { kind: "lose" }
      : { kind: "respond", status: fault.status, retryAfterSeconds: fault.retryAfterSeconds };
  }

  clear(): void {
    this.#planned = [];
  }
}
