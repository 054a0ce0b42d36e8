import type { Readable } from "node:stream";
import { Fault } from "../../shared/domain/fault.ts";

/** One line of a watch. `TOO_LARGE` stands for a line that was longer than allowed and has been passed over. */
export type WatchEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR"; readonly object: unknown }
  | { readonly type: "TOO_LARGE"; readonly bytes: number };

export interface WatchStreamOptions {
  /** Longest line, bytes. */
  readonly maxLineBytes: number;
  /** Called whenever bytes arrive. */
  readonly onActivity: () => void;
}

const NEWLINE = 0x0a;

/**
 * Cuts a watch's body into events, one array for each piece that arrives. Nothing is read ahead, so a consumer
 * that takes its time makes the socket wait.
 *
 * @throws {Fault} `Transient` for a line that is not an event or that ends in the middle; what came before it has
 *   been yielded. Errors of the body itself pass through.
 */
export async function* readWatch(body: Readable, options: WatchStreamOptions): AsyncGenerator<WatchEvent[]> {
  let unfinished: Buffer[] = [];
  let length = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    options.onActivity();
    const events: WatchEvent[] = [];
    let broken: Fault | undefined;
    let start = 0;
    // Lines are cut at bytes, before decoding: a newline is never part of a longer UTF-8 character.
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const piece = chunk.subarray(start, end);
      start = end + 1;
      length += piece.length;
      try {
        if (length > options.maxLineBytes) events.push({ type: "TOO_LARGE", bytes: length });
        else if (length > 0) events.push(...parseLine(Buffer.concat([...unfinished, piece])));
      } catch (error) {
        broken = new Fault("Transient", "the watch sent a line that is not an event", { cause: error });
        break;
      }
      unfinished = [];
      length = 0;
    }
    if (events.length > 0) yield events;
    if (broken !== undefined) throw broken;
    length += chunk.length - start;
    if (length > options.maxLineBytes) unfinished = [];
    else if (start < chunk.length) unfinished.push(chunk.subarray(start));
  }
  if (length > 0) throw new Fault("Transient", "the watch ended in the middle of an event");
}

function parseLine(line: Buffer): WatchEvent[] {
  const event: unknown = JSON.parse(line.toString("utf8"));
  if (typeof event !== "object" || event === null || !("type" in event) || !("object" in event)) {
    throw new Error("type or object is missing");
  }
  const { type, object } = event;
  switch (type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
    case "BOOKMARK":
    case "ERROR":
      return [{ type, object }];
    default:
      // A kind of event that later API servers may know.
      return [];
  }
}
