import { injectLambdaContext } from "@aws-lambda-powertools/logger/middleware";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { SQSClient } from "@aws-sdk/client-sqs";
import middy from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { readSecret } from "../../shared/credentials/secret.ts";
import { createDeliveryStore } from "../../shared/ledger/deliveries.ts";
import { createMessageQueue } from "../../shared/queue/message-queue.ts";
import { readConfiguration } from "../../shared/runtime/configuration.ts";
import { createLog, createReceiverMeter } from "../../shared/runtime/powertools.ts";
import { createKeySource, readReceivers } from "../../shared/runtime/receivers.ts";
import { isThrottled } from "../../shared/runtime/throttling.ts";
import { createReceiver, createWebhooks } from "../../shared/webhooks/receive.ts";
import { answerEvent } from "./event.ts";

const log = createLog("webhook");
const { queues, table, clusters } = readConfiguration(process.env);
const names = clusters.map(({ name }) => name);
const secrets = new SecretsManagerClient({});
const receive = createWebhooks({
  receivers: readReceivers(process.env).map((settings) =>
    createReceiver(settings, (scheme) =>
      createKeySource(settings.secrets, scheme, {
        env: process.env,
        readSecret: (id) => readSecret(secrets, id),
        now: Date.now,
      }),
    ),
  ),
  deliveries: createDeliveryStore(new DynamoDBClient({}), table),
  queue: createMessageQueue(new SQSClient({}), queues, names[0] ?? ""),
  clusters: names,
  now: Date.now,
  log,
  count: createReceiverMeter("webhook"),
  isThrottled,
});

/** Lambda, behind an HTTP API: `POST /webhooks/{receiver}`. */
export const handler = middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>()
  .use(injectLambdaContext(log.logger))
  .handler((event) => answerEvent(event, receive));
