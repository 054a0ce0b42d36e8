import { createHmac } from "node:crypto";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import * as z from "zod/mini";
import { answerEvent } from "../../functions/webhook/event.ts";
import type { DeliveryStore } from "../../shared/ledger/deliveries.ts";
import { decodeMessage } from "../../shared/messages/codec.ts";
import type { Message, MessageKind } from "../../shared/messages/schema.ts";
import type { MessageQueue } from "../../shared/queue/message-queue.ts";
import { createKeySource } from "../../shared/runtime/receivers.ts";
import type { Log, MetricName } from "../../shared/runtime/telemetry.ts";
import { isThrottled } from "../../shared/runtime/throttling.ts";
import { createReceiver, createWebhooks } from "../../shared/webhooks/receive.ts";
import { type ReceiverSettings, receiversSchema } from "../../shared/webhooks/receiver.ts";

export const NOW = Date.UTC(2030, 0, 2, 3, 4, 5);

/** A receiver's end of the wire, up to the ports: what reaches queue, ledger, log and metrics is kept. */
export interface WebhookBench {
  now: number;
  readonly sent: { readonly kind: MessageKind; readonly message: Message }[];
  readonly counted: string[];
  readonly logged: string[];
  /** Texts of secrets in Secrets Manager, and how often they were read. */
  readonly secrets: Map<string, string>;
  readonly secretReads: string[];
  /** Thrown by the next send, or the next entry, instead of carrying it out. */
  failSend: unknown;
  failEnter: unknown;
  post(request: PostedRequest): Promise<Answered>;
  event(event: APIGatewayProxyEventV2): Promise<APIGatewayProxyStructuredResultV2>;
}

export interface PostedRequest {
  readonly to: string;
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answered {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  // biome-ignore lint/suspicious/noExplicitAny: it is whatever came back
  readonly body: any;
  readonly text: string;
}

/** Validates as a deployment does. */
export function parseReceivers(settings: readonly object[]): ReceiverSettings[] {
  return z.parse(receiversSchema, settings);
}

export function createWebhookBench(
  settings: readonly object[],
  store: DeliveryStore = createMemoryStore(),
): WebhookBench {
  const bench: Omit<WebhookBench, "post" | "event"> = {
    now: NOW,
    sent: [],
    counted: [],
    logged: [],
    secrets: new Map(),
    secretReads: [],
    failSend: undefined,
    failEnter: undefined,
  };
  const write =
    (level: string) =>
    (message: string, fields = {}): void => {
      bench.logged.push(`${level} ${message} ${JSON.stringify(fields)}`);
    };
  const log: Log = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  const queue: Pick<MessageQueue, "send"> = {
    async send(kind, messages) {
      const failure = bench.failSend;
      bench.failSend = undefined;
      if (failure !== undefined) throw failure;
      for (const message of messages) {
        bench.sent.push({ kind, message: decodeMessage(JSON.stringify(message), kind) });
      }
    },
  };
  const receive = createWebhooks({
    receivers: parseReceivers(settings).map((each) =>
      createReceiver(each, (scheme) =>
        createKeySource(each.secrets, scheme, {
          env: { WEBHOOK_SECRET: "a secret out of the environment" },
          now: () => bench.now,
          async readSecret(id) {
            bench.secretReads.push(id);
            const text = bench.secrets.get(id);
            if (text === undefined) throw new Error(`there is no secret ${id}`);
            return text;
          },
        }),
      ),
    ),
    deliveries: {
      async enter(record, now) {
        const failure = bench.failEnter;
        bench.failEnter = undefined;
        if (failure !== undefined) throw failure;
        return store.enter(record, now);
      },
    },
    queue,
    clusters: ["harbour", "island"],
    now: () => bench.now,
    log,
    count: (name: MetricName, receiver: string, value = 1) =>
      void bench.counted.push(`${name} ${receiver} ${value}`),
    isThrottled,
  });
  return Object.assign(bench, {
    event: (event: APIGatewayProxyEventV2) => answerEvent(event, receive),
    async post({ to, body, headers = {} }: PostedRequest): Promise<Answered> {
      const result = await answerEvent(createEvent(to, body, headers), receive);
      const text = result.body ?? "";
      return {
        status: result.statusCode,
        headers: result.headers ?? {},
        body: JSON.parse(text),
        text,
      };
    },
  });
}

/** What the ledger's store promises, in memory; the store itself has its own tests. */
export function createMemoryStore(): DeliveryStore {
  const items = new Map<string, string>();
  return {
    async enter({ receiver, identity, content }) {
      const key = JSON.stringify([receiver, identity]);
      const existing = items.get(key);
      if (existing === undefined) items.set(key, JSON.stringify(content));
      return existing === undefined
        ? { content, isNew: true }
        : { content: JSON.parse(existing), isNew: false };
    },
  };
}

/** An event as API Gateway makes it: bytes that are no text come as base64, header names in lower case. */
export function createEvent(
  receiver: string,
  body: string | Buffer,
  headers: Readonly<Record<string, string>>,
): APIGatewayProxyEventV2 {
  const isBase64Encoded = typeof body !== "string";
  return {
    version: "2.0",
    routeKey: "POST /webhooks/{receiver}",
    rawPath: `/webhooks/${receiver}`,
    rawQueryString: "",
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    pathParameters: { receiver },
    requestContext: {
      accountId: "111122223333",
      apiId: "api",
      domainName: "api.example.com",
      domainPrefix: "api",
      http: {
        method: "POST",
        path: `/webhooks/${receiver}`,
        protocol: "HTTP/1.1",
        sourceIp: "192.0.2.1",
        userAgent: "test",
      },
      requestId: "request",
      routeKey: "POST /webhooks/{receiver}",
      stage: "$default",
      time: "02/Jan/2030:03:04:05 +0000",
      timeEpoch: NOW,
    },
    body: isBase64Encoded ? body.toString("base64") : body,
    isBase64Encoded,
  };
}

/** As GitHub signs: HMAC-SHA256 of the body in hex. */
export function signGitHub(secret: string, body: string | Buffer): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}

/** As Standard Webhooks lays down; GitLab's signing tokens are the same. */
export function signStandard(
  secret: string,
  id: string,
  seconds: number,
  body: string,
): Record<string, string> {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64");
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1,${signature}`,
  };
}
