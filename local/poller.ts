import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  type SQSClient,
} from "@aws-sdk/client-sqs";
import type { SQSEvent, SQSRecord } from "aws-lambda";
import { computeBackoff } from "../shared/runtime/backoff.ts";
import type { Clock } from "../shared/runtime/clock.ts";
import type { Log } from "../shared/runtime/telemetry.ts";
import { type Invocation, invoke } from "./lambda-context.ts";

export interface PollerOptions extends Invocation<SQSEvent> {
  readonly client: SQSClient;
  readonly queueUrl: string;
  readonly queueArn: string;
  /** Messages a batch, at most 10. */
  readonly batchSize: number;
  /** Invocations at a time, as the event source's maximum concurrency. */
  readonly concurrency: number;
  /** Seconds that a receive waits for a message; a stop waits for it too. */
  readonly waitSeconds: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

export interface Poller {
  /** Takes no more messages, and resolves when the invocations under way have ended. */
  stop(): Promise<void>;
}

/** Milliseconds between receives that fail. */
const RECEIVE_BACKOFF = { base: 100, cap: 5_000 };

/**
 * Lambda's event source for a queue: receives, invokes the handler with the very event that Lambda would, and
 * deletes what its answer does not report as failed. What failed is left to its visibility timeout.
 *
 * One loop receives and hands on without waiting for the handler, up to `concurrency` batches: a FIFO queue gives
 * out nothing of a group that is being worked on, so a slow Stage keeps no other waiting. A receive is never cut
 * off: the server would still hand out messages to it, and they would be gone for a whole visibility timeout.
 */
export function startPoller(options: PollerOptions): Poller {
  const { clock, concurrency, log, queueUrl } = options;
  const stop = new AbortController();
  const running = new Set<Promise<void>>();

  const loop = async (): Promise<void> => {
    let failures = 0;
    while (!stop.signal.aborted) {
      if (running.size >= concurrency) {
        await Promise.race(running);
        continue;
      }
      try {
        const messages = await receive(options);
        failures = 0;
        if (messages.length === 0) continue;
        if (stop.signal.aborted) {
          await release(options, messages);
          break;
        }
        const work = deliver(options, messages).finally(() => running.delete(work));
        running.add(work);
      } catch (error) {
        failures++;
        // The first ones are no news while the stack stops or the queue server is being started anew.
        log[failures < 3 ? "debug" : "warn"]("messages could not be received", { queueUrl, failures, error });
        await clock.sleep(computeBackoff(failures, RECEIVE_BACKOFF, options.random), stop.signal);
      }
    }
    await Promise.all(running);
  };

  const done = loop();
  return {
    async stop() {
      stop.abort();
      await done;
    },
  };
}

async function receive(options: PollerOptions): Promise<readonly Message[]> {
  const output = await options.client.send(
    new ReceiveMessageCommand({
      QueueUrl: options.queueUrl,
      MaxNumberOfMessages: options.batchSize,
      WaitTimeSeconds: options.waitSeconds,
      MessageSystemAttributeNames: ["All"],
      MessageAttributeNames: ["All"],
    }),
  );
  return output.Messages ?? [];
}

/** One batch: invoke, then delete what is done. Never throws. */
async function deliver(options: PollerOptions, messages: readonly Message[]): Promise<void> {
  const { log, functionName } = options;
  const Records = messages.map((message) => toRecord(message, options));
  let failed: ReadonlySet<string> | "all";
  try {
    const response = await invoke(options, { Records });
    failed = readFailures(
      response,
      Records.map((record) => record.messageId),
    );
    if (failed === "all") {
      log.error("the answer is no partial batch response; the whole batch counts as failed", {
        functionName,
        response,
      });
    }
  } catch (error) {
    log.error("the function failed; the whole batch will be delivered again", { functionName, error });
    failed = "all";
  }
  if (failed === "all") return;
  const done = Records.filter((record) => !failed.has(record.messageId));
  if (done.length === 0) return;
  try {
    const output = await options.client.send(
      new DeleteMessageBatchCommand({
        QueueUrl: options.queueUrl,
        Entries: done.map((record, index) => ({ Id: String(index), ReceiptHandle: record.receiptHandle })),
      }),
    );
    const refused = output.Failed ?? [];
    if (refused.length > 0) log.warn("messages could not be deleted", { functionName, refused });
  } catch (error) {
    // They come again, and the handlers are idempotent.
    log.warn("messages could not be deleted", { functionName, error });
  }
}

/** Gives back what was received after the stop. */
async function release(options: PollerOptions, messages: readonly Message[]): Promise<void> {
  await options.client.send(
    new ChangeMessageVisibilityBatchCommand({
      QueueUrl: options.queueUrl,
      Entries: messages.map((message, index) => ({
        Id: String(index),
        ReceiptHandle: message.ReceiptHandle ?? "",
        VisibilityTimeout: 0,
      })),
    }),
  );
}

/**
 * Which messages a partial batch response reports as failed, by Lambda's rules: nothing, `{}` and an empty or
 * null list mean success; an entry without an id, or with an id that is not in the batch, makes all fail.
 */
export function readFailures(response: unknown, ids: readonly string[]): ReadonlySet<string> | "all" {
  if (response === undefined || response === null) return new Set();
  if (typeof response !== "object" || Array.isArray(response)) return "all";
  const keys = Object.keys(response);
  if (keys.length === 0) return new Set();
  if (!("batchItemFailures" in response)) return "all";
  const list: unknown = response.batchItemFailures;
  if (list === undefined || list === null) return new Set();
  if (!Array.isArray(list)) return "all";
  const known = new Set(ids);
  const failed = new Set<string>();
  for (const entry of list as unknown[]) {
    const id = (entry as { itemIdentifier?: unknown } | null)?.itemIdentifier;
    if (typeof id !== "string" || !known.has(id)) return "all";
    failed.add(id);
  }
  return failed;
}

/** A received message as Lambda hands it to a function. */
export function toRecord(message: Message, options: Pick<PollerOptions, "queueArn" | "region">): SQSRecord {
  const attributes = message.Attributes ?? {};
  const optional = Object.fromEntries(
    (["MessageGroupId", "MessageDeduplicationId", "SequenceNumber"] as const).flatMap((name) =>
      attributes[name] === undefined ? [] : [[name, attributes[name]]],
    ),
  );
  return {
    messageId: message.MessageId ?? "",
    receiptHandle: message.ReceiptHandle ?? "",
    body: message.Body ?? "",
    attributes: {
      ApproximateReceiveCount: attributes.ApproximateReceiveCount ?? "1",
      SentTimestamp: attributes.SentTimestamp ?? "",
      SenderId: attributes.SenderId ?? "",
      ApproximateFirstReceiveTimestamp: attributes.ApproximateFirstReceiveTimestamp ?? "",
      ...optional,
    },
    messageAttributes: Object.fromEntries(
      Object.entries(message.MessageAttributes ?? {}).map(([name, value]) => [
        name,
        {
          dataType: (value.DataType ?? "String") as SQSRecord["messageAttributes"][string]["dataType"],
          stringListValues: [],
          binaryListValues: [],
          ...(value.StringValue === undefined ? {} : { stringValue: value.StringValue }),
          ...(value.BinaryValue === undefined
            ? {}
            : { binaryValue: Buffer.from(value.BinaryValue).toString("base64") }),
        },
      ]),
    ),
    md5OfBody: message.MD5OfBody ?? "",
    eventSource: "aws:sqs",
    eventSourceARN: options.queueArn,
    awsRegion: options.region,
  };
}
