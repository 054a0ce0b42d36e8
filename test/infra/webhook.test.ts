import { readFileSync } from "node:fs";
import { join } from "node:path";
import { AwsSolutionsChecks } from "cdk-nag";
import { expect, test } from "vitest";
import { readReceivers } from "../../shared/runtime/receivers.ts";
import { CLUSTER, RECEIVER, synthesize } from "./synthesized.ts";

const { app, find } = synthesize({ clusters: [CLUSTER], receivers: [RECEIVER] });

/** The webhook's function of a stack: its environment and the name of its code. */
function readFunction(from: typeof find) {
  const [properties] = from("AWS::Lambda::Function", "Webhook").map((each) => each.properties);
  const { Environment, Code } = properties as {
    Environment: { Variables: Record<string, string> };
    Code: { S3Key: string };
  };
  return { variables: Environment.Variables, code: Code.S3Key };
}

test("without receivers there is no door", () => {
  const { find: findNone } = synthesize();
  for (const type of ["AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Route"])
    expect(findNone(type)).toEqual([]);
  expect(findNone("AWS::Lambda::Function", "Webhook")).toEqual([]);
});

test("POST /webhooks/{receiver} is the only route, at a bounded rate, with an access log", () => {
  const routes = find("AWS::ApiGatewayV2::Route").map(({ properties }) => properties);
  expect(routes).toMatchObject([{ RouteKey: "POST /webhooks/{receiver}", AuthorizationType: "NONE" }]);
  const [integration] = find("AWS::ApiGatewayV2::Integration");
  expect(integration?.properties).toMatchObject({ PayloadFormatVersion: "2.0" });
  const [stage] = find("AWS::ApiGatewayV2::Stage");
  expect(stage?.properties).toMatchObject({
    StageName: "$default",
    DefaultRouteSettings: { ThrottlingRateLimit: 50, ThrottlingBurstLimit: 100 },
    AccessLogSettings: { DestinationArn: expect.anything() },
  });
});

test("cdk-nag has nothing against it but what is answered for", () => {
  expect(new AwsSolutionsChecks(app).validateScope(app)).toMatchObject({ violations: [] });
});

test("the function finds its receivers beside its code, and takes them", () => {
  const { variables, code } = readFunction(find);
  expect(variables.TALLYMAN_RECEIVERS_FILE).toBe("/var/task/receivers.json");
  const folder = join(app.outdir, `asset.${code.replace(/\.zip$/, "")}`);
  expect(readReceivers({ TALLYMAN_RECEIVERS_FILE: join(folder, "receivers.json") })).toMatchObject([
    RECEIVER,
  ]);
  expect(readFileSync(join(folder, "index.mjs"), "utf8").length).toBeGreaterThan(100_000);
});

test("other receivers are other code, so that a change of a rule is deployed", () => {
  const other = synthesize({ clusters: [CLUSTER], receivers: [{ ...RECEIVER, name: "gh-2" }] });
  expect(readFunction(other.find).code).not.toBe(readFunction(find).code);
});

test("a receiver whose deliveries are turned away rings", () => {
  const alarms = find("AWS::CloudWatch::Alarm").filter(
    ({ properties }) => properties.MetricName === "WebhooksDeferred",
  );
  expect(alarms.map(({ properties }) => properties.Dimensions)).toEqual([
    [
      { Name: "component", Value: "webhook" },
      { Name: "receiver", Value: "gh" },
      { Name: "service", Value: "tallyman" },
    ],
  ]);
  expect(JSON.stringify(find("AWS::CloudWatch::Dashboard"))).toContain("WebhooksRejected");
});
