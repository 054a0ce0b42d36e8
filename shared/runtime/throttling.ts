/** What the services call it when it is too much at once. */
const NAMES =
  /^(Throttling|ThrottlingException|ThrottledException|RequestThrottled|RequestThrottledException|TooManyRequestsException|ProvisionedThroughputExceededException|RequestLimitExceeded|KmsThrottled|OverLimit)$/;

/** Whether an error, or what caused it, is a service's refusal of the rate of requests. */
export function isThrottled(error: unknown): boolean {
  for (let each = error, depth = 0; each instanceof Error && depth < 5; each = each.cause, depth++) {
    const { $retryable, $metadata } = each as {
      $retryable?: { throttling?: boolean };
      $metadata?: { httpStatusCode?: number };
    };
    if (NAMES.test(each.name) || $retryable?.throttling === true || $metadata?.httpStatusCode === 429) {
      return true;
    }
  }
  return false;
}
