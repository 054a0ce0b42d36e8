import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { type Answer, answerProblem } from "../../shared/webhooks/answer.ts";
import { readHeaders } from "../../shared/webhooks/headers.ts";
import { MAX_BODY_BYTES, type WebhookRequest } from "../../shared/webhooks/receive.ts";

/** Four characters are three bytes; a text of this length may still fit. */
const MAX_BASE64_LENGTH = 4 * Math.ceil(MAX_BODY_BYTES / 3);
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Takes a request out of an event of API Gateway (HTTP API, payload format 2.0) and gives the answer back in its form. */
export async function answerEvent(
  event: APIGatewayProxyEventV2,
  receive: (request: WebhookRequest) => Promise<Answer>,
): Promise<APIGatewayProxyStructuredResultV2> {
  const { status, headers, body } = await answer(event, receive);
  return { statusCode: status, headers: { ...headers }, body, isBase64Encoded: false };
}

async function answer(
  event: APIGatewayProxyEventV2,
  receive: (request: WebhookRequest) => Promise<Answer>,
): Promise<Answer> {
  if (event.requestContext.http.method !== "POST") {
    return answerProblem("method-not-allowed", "webhooks are sent with POST", { allow: "POST" });
  }
  const text = event.body ?? "";
  if (event.isBase64Encoded) {
    if (text.length > MAX_BASE64_LENGTH) return answerProblem("too-large", "the body is too large");
    // Node would skip what does not belong there, and two bodies would be one.
    if (!BASE64.test(text)) return answerProblem("invalid-request", "the body is not base64");
  }
  return receive({
    receiver: event.pathParameters?.receiver ?? readReceiver(event.rawPath),
    headers: readHeaders(Object.entries(event.headers ?? {})),
    body: Buffer.from(text, event.isBase64Encoded ? "base64" : "utf8"),
  });
}

/** The last part of the path, for a gateway that does not take it out. */
function readReceiver(path: string): string {
  return /\/webhooks\/([^/]+)$/.exec(path)?.[1] ?? "";
}
