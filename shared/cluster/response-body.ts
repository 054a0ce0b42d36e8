import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { Fault } from "../domain/fault.ts";

const unzip = promisify(gunzip);

export interface BodyLimits {
  /** Bytes after decompression. */
  readonly maxBytes: number;
  /** Milliseconds that may pass without a single byte. */
  readonly timeoutMs: number;
}

/**
 * Reads a response to its end: parsed JSON, `undefined` when it is empty, the text itself when it is not JSON.
 *
 * @throws {Fault} `Permanent` when the body is larger than `maxBytes`: asking again would give the same.
 * @throws {Error} when the body was cut short, stalled or could not be unpacked.
 */
export async function readBody(response: IncomingMessage, limits: BodyLimits): Promise<unknown> {
  if (Number(response.headers["content-length"] ?? 0) > limits.maxBytes) throw tooLarge(limits);
  const stall = (): void => {
    response.destroy(new Error(`the answer stopped coming for ${limits.timeoutMs} ms`));
  };
  let timer = setTimeout(stall, limits.timeoutMs);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      clearTimeout(timer);
      timer = setTimeout(stall, limits.timeoutMs);
      size += chunk.length;
      if (size > limits.maxBytes) throw tooLarge(limits);
      chunks.push(chunk);
    }
  } catch (error) {
    throw isCutShort(error) ? new Error("the answer was cut short", { cause: error }) : error;
  } finally {
    clearTimeout(timer);
  }
  if (!response.complete) throw new Error("the answer was cut short");
  return decode(await unpack(Buffer.concat(chunks), response.headers["content-encoding"], limits));
}

async function unpack(body: Buffer, encoding: string | undefined, limits: BodyLimits): Promise<Buffer> {
  if (encoding !== "gzip" || body.length === 0) return body;
  try {
    return await unzip(body, { maxOutputLength: limits.maxBytes });
  } catch (error) {
    if (codeOf(error) === "ERR_BUFFER_TOO_LARGE") throw tooLarge(limits);
    throw error;
  }
}

function decode(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  const text = body.toString("utf8");
  try {
    return JSON.parse(text);
  } catch {
    // Proxies in front of the API server answer in HTML or plain text; the caller sees what they said.
    return text;
  }
}

function tooLarge(limits: BodyLimits): Fault {
  return new Fault(
    "Permanent",
    `the answer is larger than ${limits.maxBytes} bytes; ask for less with limit or a labelSelector`,
  );
}

function isCutShort(error: unknown): boolean {
  return codeOf(error) === "ECONNRESET" || codeOf(error) === "ERR_STREAM_PREMATURE_CLOSE";
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
