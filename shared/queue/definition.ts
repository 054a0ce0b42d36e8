import type { MessageKind } from "../messages/schema.ts";

/**
 * The one definition of the queues; the CDK app and the embedded stack both build them from here: for each
 * kind of message a FIFO queue and its FIFO dead-letter queue.
 */
export const QUEUE_DEFINITION = {
  /** Messages a receive. A batch costs one request and its groups are worked on side by side. */
  batchSize: 10,
  /** Seconds; six times the functions' time-out, as AWS advises for event sources. */
  visibilityTimeout: 180,
  /** Seconds; the functions' time-out. */
  functionTimeout: 30,
  /** Receives after which a handler itself moves a message to the dead-letter queue, with its reasons. */
  maxReceives: 20,
  /**
   * Receives after which SQS does, without reasons: the net under a handler that dies. Higher than twice
   * `maxReceives`, because a message behind a failing one of its group is received with it each time.
   */
  redriveAfter: 50,
  /** Seconds; the longest that SQS keeps a message. */
  retention: 1_209_600,
} as const;

export const queueName = (prefix: string, kind: MessageKind): string => `${prefix}-${kind}.fifo`;
export const deadLetterQueueName = (prefix: string, kind: MessageKind): string =>
  `${prefix}-${kind}-dlq.fifo`;
