import { CfnOutput, Duration, RemovalPolicy, Validations } from "aws-cdk-lib";
import { AccessLogFormat } from "aws-cdk-lib/aws-apigateway";
import {
  HttpApi,
  HttpMethod,
  HttpNoneAuthorizer,
  HttpStage,
  LogGroupLogDestination,
} from "aws-cdk-lib/aws-apigatewayv2";
import { HttpLambdaIntegration } from "aws-cdk-lib/aws-apigatewayv2-integrations";
import { LogGroup } from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";
import { RECEIVERS_VARIABLE } from "../shared/runtime/receivers.ts";
import type { ReceiverSettings } from "../shared/webhooks/receiver.ts";
import { Lambda, type LambdaSetting } from "./lambda.ts";
import type { Ledger } from "./ledger.ts";
import type { MessageQueue } from "./message-queue.ts";
import { allowReadingSecret } from "./secret.ts";

export interface WebhookProps {
  /** As configured; at least one. */
  readonly receivers: readonly ReceiverSettings[];
  readonly ledger: Ledger;
  readonly queues: readonly MessageQueue[];
  readonly setting: LambdaSetting;
}

/** Requests a second, and at once, that senders together may make. Everybody can send bad ones, and each one costs. */
const THROTTLE = { rateLimit: 50, burstLimit: 100 };
const FILE = "receivers.json";
const PATH = "/webhooks/{receiver}";

/**
 * The door for other systems: an HTTP API of its own, since it has to be open to the world, and the function behind it. It
 * may read its receivers' secrets, enter deliveries and send messages, and nothing else.
 */
export class Webhook extends Construct {
  readonly lambda: Lambda;
  readonly api: HttpApi;

  constructor(scope: Construct, id: string, { receivers, ledger, queues, setting }: WebhookProps) {
    super(scope, id);
    const secrets = new Set(
      receivers.flatMap((each) => each.secrets.filter((one) => typeof one === "string")),
    );
    this.lambda = new Lambda(this, "Lambda", {
      entry: "functions/webhook/handler.ts",
      description: "Tallyman: receives webhooks",
      // GitHub waits as long for an answer.
      timeout: Duration.seconds(10),
      memory: 512,
      setting,
      files: { [FILE]: JSON.stringify(receivers) },
      environment: { [RECEIVERS_VARIABLE]: `/var/task/${FILE}` },
      statements: [
        ...ledger.allow({ actions: ["GetItem", "PutItem"] }),
        ...queues.flatMap((queue) => queue.allowSending()),
        ...[...secrets].map((secret) => allowReadingSecret(this, secret)),
      ],
    });
    this.api = new HttpApi(this, "Api", {
      description: "Tallyman: webhooks",
      createDefaultStage: false,
    });
    const [route] = this.api.addRoutes({
      path: PATH,
      methods: [HttpMethod.POST],
      integration: new HttpLambdaIntegration("Integration", this.lambda.function),
      authorizer: new HttpNoneAuthorizer(),
    });
    if (route !== undefined) {
      Validations.of(route).acknowledge({
        id: "AwsSolutions-APIG4",
        reason: "Senders show who they are by a signature over the body, which only the function can check",
      });
    }
    const log = new LogGroup(this, "AccessLog", {
      retention: setting.logRetentionDays,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    new HttpStage(this, "Stage", {
      httpApi: this.api,
      stageName: "$default",
      autoDeploy: true,
      throttle: THROTTLE,
      accessLogSettings: {
        destination: new LogGroupLogDestination(log),
        format: AccessLogFormat.custom(
          JSON.stringify({
            time: "$context.requestTime",
            requestId: "$context.requestId",
            ip: "$context.identity.sourceIp",
            path: "$context.path",
            status: "$context.status",
            bytes: "$context.responseLength",
            milliseconds: "$context.responseLatency",
          }),
        ),
      },
    });
    new CfnOutput(this, "Url", { value: `${this.api.apiEndpoint}${PATH}` });
  }
}
