import { Capture, Match } from "aws-cdk-lib/assertions";
import { Queue } from "aws-cdk-lib/aws-sqs";
import { AwsSolutionsChecks } from "cdk-nag";
import { expect, test } from "vitest";
import { buildApp } from "../../infra/build-app.ts";
import { LEDGER_TABLE } from "../../shared/ledger/table.ts";
import { MESSAGE_KINDS } from "../../shared/messages/schema.ts";
import { QUEUE_DEFINITION } from "../../shared/queue/definition.ts";
import { readConfiguration } from "../../shared/runtime/configuration.ts";
import { CLUSTER, synthesize } from "./synthesized.ts";

const { template, find } = synthesize();
const QUEUE = "AWS::SQS::Queue";
const FUNCTION = "AWS::Lambda::Function";
const MAPPING = "AWS::Lambda::EventSourceMapping";

test("the ledger outlives its stack and its mistakes", () => {
  template.hasResource("AWS::DynamoDB::Table", {
    DeletionPolicy: "Retain",
    UpdateReplacePolicy: "Retain",
    Properties: Match.objectLike({
      BillingMode: "PAY_PER_REQUEST",
      DeletionProtectionEnabled: true,
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
      SSESpecification: { SSEEnabled: true },
      TimeToLiveSpecification: { AttributeName: LEDGER_TABLE.timeToLiveAttribute, Enabled: true },
    }),
  });
});

test("a retention is told to the functions, and only where there is one", () => {
  const daysOf = (configuration: object) =>
    synthesize({ clusters: [CLUSTER], ...configuration })
      .find(FUNCTION, "Sweeper")
      .map(({ properties }) => (properties.Environment as { Variables: object }).Variables)
      .map((variables) => (variables as Record<string, unknown>).TALLYMAN_RETENTION_DAYS);
  expect(daysOf({})).toEqual([undefined]);
  expect(daysOf({ retentionDays: 365 })).toEqual(["365"]);
});

test("the table is the one definition's: keys, indexes and what they copy", () => {
  const [table] = find("AWS::DynamoDB::Table");
  const keys = (index: { partitionKey: string; sortKey: string }) => [
    { AttributeName: index.partitionKey, KeyType: "HASH" },
    { AttributeName: index.sortKey, KeyType: "RANGE" },
  ];
  expect(table?.properties.KeySchema).toEqual(keys(LEDGER_TABLE));
  expect(table?.properties.GlobalSecondaryIndexes).toEqual(
    Object.values(LEDGER_TABLE.indexes).map((index) => ({
      IndexName: index.name,
      KeySchema: keys(index),
      Projection: { ProjectionType: "INCLUDE", NonKeyAttributes: [...LEDGER_TABLE.projectedAttributes] },
    })),
  );
});

test("an index copies no more attributes than DynamoDB takes: 20 of one, 100 of all", () => {
  const copied = LEDGER_TABLE.projectedAttributes.length;
  expect(copied).toBeLessThanOrEqual(20);
  expect(copied * Object.keys(LEDGER_TABLE.indexes).length).toBeLessThanOrEqual(100);
});

test.each(MESSAGE_KINDS)("the %s queue is FIFO and so is its dead-letter queue", (kind) => {
  const target = new Capture();
  template.hasResourceProperties(QUEUE, {
    QueueName: `tallyman-${kind}.fifo`,
    FifoQueue: true,
    FifoThroughputLimit: "perMessageGroupId",
    DeduplicationScope: "messageGroup",
    ContentBasedDeduplication: false,
    SqsManagedSseEnabled: true,
    MessageRetentionPeriod: QUEUE_DEFINITION.retention,
    RedrivePolicy: { deadLetterTargetArn: target, maxReceiveCount: QUEUE_DEFINITION.redriveAfter },
  });
  const [deadLetters] = find(QUEUE, target.asObject()["Fn::GetAtt"][0]);
  expect(deadLetters?.properties).toMatchObject({
    QueueName: `tallyman-${kind}-dlq.fifo`,
    FifoQueue: true,
    SqsManagedSseEnabled: true,
    MessageRetentionPeriod: QUEUE_DEFINITION.retention,
  });
});

test("every queue refuses what is not encrypted on its way", () => {
  const denied = find("AWS::SQS::QueuePolicy").map(({ properties }) => JSON.stringify(properties));
  expect(denied).toHaveLength(find(QUEUE).length);
  for (const policy of denied) expect(policy).toContain('"aws:SecureTransport":"false"');
});

test("a message stays invisible for six times as long as its function may take", () => {
  const mappings = find(MAPPING);
  expect(mappings).toHaveLength(MESSAGE_KINDS.length);
  for (const { properties } of mappings) {
    const [queue] = find(QUEUE, getAtt(properties.EventSourceArn));
    const [worker] = find(FUNCTION, getRef(properties.FunctionName));
    const timeout = Number(worker?.properties.Timeout);
    expect(timeout).toBe(QUEUE_DEFINITION.functionTimeout);
    expect(Number(queue?.properties.VisibilityTimeout)).toBeGreaterThanOrEqual(6 * timeout);
  }
});

test("a worker's batch fails message by message, and its concurrency is bounded by the event source", () => {
  for (const { properties } of find(MAPPING)) {
    expect(properties).toMatchObject({
      FunctionResponseTypes: ["ReportBatchItemFailures"],
      BatchSize: QUEUE_DEFINITION.batchSize,
      ScalingConfig: { MaximumConcurrency: 10 },
    });
    // SQS FIFO queues know no batching window.
    expect(properties.MaximumBatchingWindowInSeconds).toBeUndefined();
  }
});

test("every function runs on Node 24 and arm64, with source maps and nobody's reserved concurrency", () => {
  const functions = find(FUNCTION);
  expect(functions).toHaveLength(MESSAGE_KINDS.length + 3);
  for (const { properties } of functions) {
    expect(properties).toMatchObject({
      Runtime: "nodejs24.x",
      Architectures: ["arm64"],
      Handler: "index.handler",
    });
    expect(properties.Environment).toMatchObject({ Variables: { NODE_OPTIONS: "--enable-source-maps" } });
    // One would make Lambda refuse batches, which costs receives, and windows could not overlap.
    expect(properties.ReservedConcurrentExecutions).toBeUndefined();
  }
});

test("every function can read its environment", () => {
  for (const { properties } of find(FUNCTION)) {
    const { Variables: variables } = properties.Environment as { Variables: Record<string, unknown> };
    const env = Object.fromEntries(
      Object.entries(variables).map(([name, value]) => [
        name,
        typeof value === "string" ? value : "resolved",
      ]),
    );
    const [cluster] = readConfiguration(env).clusters;
    expect(cluster?.server).toBe(CLUSTER.server);
    expect(cluster?.tokenSecret).toBe(CLUSTER.tokenSecret);
  }
});

test("the sweeper and each cluster's forwarder are invoked each minute, and not again when they fail", () => {
  const second = { ...CLUSTER, name: "edge", server: "https://edge.example.com" };
  const two = synthesize({ clusters: [CLUSTER, second] });
  const rules = two.find("AWS::Events::Rule");
  expect(rules).toHaveLength(3);
  for (const { properties } of rules) {
    expect(properties.ScheduleExpression).toBe("rate(1 minute)");
    expect(properties.Targets).toMatchObject([{ RetryPolicy: { MaximumRetryAttempts: 0 } }]);
  }
  const watched = two.find(FUNCTION, "Forwarder").map(({ properties }) => properties.Environment);
  expect(watched).toMatchObject(
    ["main", "edge"].map((name) => ({ Variables: { TALLYMAN_FORWARDER_CLUSTER: name } })),
  );
  for (const { properties } of two.find(FUNCTION, "Forwarder")) expect(properties.Timeout).toBe(900);
});

test("there is an alarm for dead letters, messages that wait, errors, throttles, lateness and silence", () => {
  const names = find("AWS::CloudWatch::Alarm").map(({ properties }) => properties.MetricName);
  const count = (name: string) => names.filter((each) => each === name).length;
  expect(count("Errors")).toBe(MESSAGE_KINDS.length + 2);
  expect(count("Throttles")).toBe(MESSAGE_KINDS.length + 2);
  expect(count("DetectionLag")).toBe(1);
  expect(count("ClustersNotSwept")).toBe(1);
  // One more for what the event bus did not take.
  expect(count("ApproximateNumberOfMessagesVisible")).toBe(MESSAGE_KINDS.length + 1);
  expect(count("ApproximateAgeOfOldestMessage")).toBe(MESSAGE_KINDS.length);
  expect(count("ForwarderHeartbeat")).toBe(1);
});

test("each cluster has an alarm of its own for a forwarder that is silent", () => {
  const two = synthesize({ clusters: [CLUSTER, { ...CLUSTER, name: "edge" }] });
  const dimensions = two
    .find("AWS::CloudWatch::Alarm")
    .filter(({ properties }) => properties.MetricName === "ForwarderHeartbeat")
    .map(({ properties }) => properties.Dimensions as { Name: string; Value: string }[]);
  const clusters = dimensions.map((each) => each.find(({ Name }) => Name === "cluster")?.Value);
  expect(clusters.sort()).toEqual(["edge", "main"]);
});

test("alarms tell the topic, where there is one", () => {
  const topic = "arn:aws:sns:eu-central-1:111122223333:on-call";
  const alarms = synthesize({ clusters: [CLUSTER], alarmTopic: topic }).find("AWS::CloudWatch::Alarm");
  expect(alarms.length).toBeGreaterThan(10);
  for (const { properties } of alarms) expect(properties.AlarmActions).toEqual([topic]);
  for (const { properties } of find("AWS::CloudWatch::Alarm"))
    expect(properties.AlarmActions).toBeUndefined();
});

test("alarms and dashboard look at metrics with the dimensions that the code gives them", () => {
  const dashboard = JSON.stringify(find("AWS::CloudWatch::Dashboard")[0]?.properties);
  for (const name of [
    "VerificationsSuccessful",
    "VerificationsAborted",
    "DetectionLag",
    "ForwarderSilence",
  ]) {
    expect(dashboard).toContain(name);
  }
  const own = find("AWS::CloudWatch::Alarm").filter(({ properties }) => properties.Namespace === "Tallyman");
  expect(own.length).toBeGreaterThan(2);
  for (const { properties } of own) {
    const dimensions = properties.Dimensions as { Name: string; Value: string }[];
    const value = (name: string) => dimensions.find(({ Name }) => Name === name)?.Value;
    expect(value("service")).toBe("tallyman");
    expect(["verify", "sweeper", "forwarder"]).toContain(value("component"));
  }
  for (const { properties } of find(FUNCTION)) {
    expect(properties.Environment).toMatchObject({ Variables: { POWERTOOLS_SERVICE_NAME: "tallyman" } });
  }
});

test("functions run in a VPC where one is given, with the rights for it, and cdk-nag has nothing against it", () => {
  const vpc = { subnetIds: ["subnet-0123456a", "subnet-0123456b"], securityGroupIds: ["sg-0123456c"] };
  const { app, find: findInside } = synthesize({ clusters: [CLUSTER], vpc });
  for (const { properties } of findInside(FUNCTION)) {
    expect(properties.VpcConfig).toEqual({
      SubnetIds: vpc.subnetIds,
      SecurityGroupIds: vpc.securityGroupIds,
    });
  }
  const policies = JSON.stringify(findInside("AWS::IAM::Policy").map(({ properties }) => properties));
  expect(policies.match(/ec2:CreateNetworkInterface/g)).toHaveLength(findInside(FUNCTION).length);
  expect(new AwsSolutionsChecks(app).validateScope(app)).toMatchObject({ violations: [] });
  for (const { properties } of find(FUNCTION)) expect(properties.VpcConfig).toBeUndefined();
});

test("logs are kept as long as configured, and every resource has the tags", () => {
  const { find: findTagged } = synthesize({
    clusters: [CLUSTER],
    logRetentionDays: 7,
    tags: { team: "quay" },
  });
  for (const { properties } of findTagged("AWS::Logs::LogGroup")) expect(properties.RetentionInDays).toBe(7);
  for (const type of ["AWS::DynamoDB::Table", QUEUE, FUNCTION]) {
    for (const { properties } of findTagged(type)) {
      expect(properties.Tags).toContainEqual({ Key: "team", Value: "quay" });
    }
  }
});

test("the ledger goes with its stack only where that is asked for", () => {
  const { template: throwaway } = synthesize({ clusters: [CLUSTER], removalPolicy: "destroy" });
  throwaway.hasResource("AWS::DynamoDB::Table", {
    DeletionPolicy: "Delete",
    Properties: Match.objectLike({ DeletionProtectionEnabled: false }),
  });
});

test("changes of phase, and nothing else of the table's stream, go to an event bus as CloudEvents", () => {
  const [table] = find("AWS::DynamoDB::Table");
  expect(table?.properties.StreamSpecification).toEqual({ StreamViewType: "NEW_IMAGE" });
  const [pipe] = find("AWS::Pipes::Pipe");
  expect(pipe?.properties).toMatchObject({
    Source: { "Fn::GetAtt": [table?.id, "StreamArn"] },
    SourceParameters: {
      FilterCriteria: {
        Filters: [{ Pattern: '{"eventName":["INSERT"],"dynamodb":{"NewImage":{"ty":{"S":["p"]}}}}' }],
      },
    },
    TargetParameters: {
      EventBridgeEventBusParameters: { DetailType: "dev.tallyman.verification.phase", Source: "tallyman" },
    },
  });
  expect(find("AWS::Events::EventBus")[0]?.properties.Name).toBe("tallyman");
  const silent = synthesize({ clusters: [CLUSTER], eventFeed: false });
  expect(silent.find("AWS::Pipes::Pipe")).toEqual([]);
  expect(silent.find("AWS::DynamoDB::Table")[0]?.properties.StreamSpecification).toBeUndefined();
});

test("a topic is told of the phases that it is for", () => {
  const topic = "arn:aws:sns:eu-central-1:111122223333:chat";
  const { find: findOf } = synthesize({ clusters: [CLUSTER], notifications: [{ topic }] });
  const rules = findOf("AWS::Events::Rule", "EventFeed").map(({ properties }) => properties);
  expect(rules).toMatchObject([
    {
      EventPattern: {
        source: ["tallyman"],
        "detail-type": ["dev.tallyman.verification.phase"],
        detail: { data: { phase: ["Failed", "Error"] } },
      },
      Targets: [{ Arn: topic }],
    },
  ]);
});

test("the table and the queues keep their logical ids: a new one would be a new, empty resource", () => {
  expect(find("AWS::DynamoDB::Table").map(({ id }) => id)).toEqual(["LedgerTable9343E4AA"]);
  expect(
    find(QUEUE)
      .map(({ id }) => id)
      .sort(),
  ).toEqual([
    "AbortQueue20A49C5C",
    "AbortQueueDeadLetters1503CF46",
    "EventFeedUndelivered12A5DDE4",
    "ReverifyQueue51B6EC71",
    "ReverifyQueueDeadLetters964AD5E7",
    "VerifyQueueD5DE52F8",
    "VerifyQueueDeadLetters7F75CB0C",
  ]);
});

test("cdk-nag finds nothing in the stack", () => {
  const { app } = synthesize();
  expect(new AwsSolutionsChecks(app).validateScope(app)).toMatchObject({ success: true, violations: [] });
});

test("an app that cdk-nag finds something in cannot be synthesized", () => {
  const app = buildApp({ context: { tallyman: { clusters: [CLUSTER] } } });
  new Queue(app.node.findChild("tallyman"), "Unprotected");
  expect(() => app.synth()).toThrow(/AwsSolutions-SQS4/);
});

function getAtt(value: unknown): string {
  return (value as { "Fn::GetAtt": [string] })["Fn::GetAtt"][0];
}

function getRef(value: unknown): string {
  return (value as { Ref: string }).Ref;
}
