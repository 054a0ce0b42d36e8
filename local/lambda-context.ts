import { randomUUID } from "node:crypto";
import type { Context } from "aws-lambda";

/** What a function is told about itself, as Lambda would tell it. */
export function createContext(functionName: string, region: string, timeoutMs: number): Context {
  const deadline = Date.now() + timeoutMs;
  const id = randomUUID();
  return {
    callbackWaitsForEmptyEventLoop: true,
    functionName,
    functionVersion: "$LATEST",
    invokedFunctionArn: `arn:aws:lambda:${region}:000000000000:function:${functionName}`,
    memoryLimitInMB: "512",
    awsRequestId: id,
    logGroupName: `/aws/lambda/${functionName}`,
    logStreamName: `local/[$LATEST]${id.replaceAll("-", "")}`,
    getRemainingTimeInMillis: () => Math.max(0, deadline - Date.now()),
    done: () => undefined,
    fail: () => undefined,
    succeed: () => undefined,
  };
}

/** A function's handler, whatever it returns. */
export type LambdaHandler<Event> = (event: Event, context: Context) => unknown;

export interface Invocation<Event> {
  readonly functionName: string;
  readonly region: string;
  readonly timeoutMs: number;
  readonly handler: LambdaHandler<Event>;
}

/**
 * Invokes a handler once.
 *
 * @throws what the handler throws, or an Error named `TimeoutError` when its time is over. Unlike Lambda this
 *   cannot stop the handler then: it goes on unheard, beside the next invocation.
 */
export async function invoke<Event>(invocation: Invocation<Event>, event: Event): Promise<unknown> {
  const { functionName, region, timeoutMs, handler } = invocation;
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new Error(`${functionName} took longer than ${timeoutMs} ms`);
      error.name = "TimeoutError";
      reject(error);
    }, timeoutMs);
  });
  const work = (async () => handler(event, createContext(functionName, region, timeoutMs)))();
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
