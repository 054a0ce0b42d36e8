import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ConfigurationError, parseConfiguration } from "../../infra/configuration.ts";
import { CLUSTER, RECEIVER } from "./synthesized.ts";

const ROOT = join(import.meta.dirname, "../..");
const CA = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

function problemsOf(value: unknown): readonly string[] {
  try {
    parseConfiguration(value);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  return [];
}

const withReceiver = (change: object): object => ({
  clusters: [CLUSTER],
  receivers: [{ ...RECEIVER, ...change }],
});
const withCluster = (change: object): object => ({ clusters: [{ ...CLUSTER, ...change }] });

test("a configuration may say only what it must", () => {
  expect(parseConfiguration({ clusters: [CLUSTER] })).toEqual({
    name: "tallyman",
    clusters: [CLUSTER],
    concurrency: 10,
    logLevel: "info",
    logRetentionDays: 30,
    removalPolicy: "retain",
    tags: {},
    eventFeed: true,
    notifications: [],
    receivers: [],
  });
});

test("a configuration may come from the command line, as text", () => {
  expect(parseConfiguration(JSON.stringify({ name: "other", clusters: [CLUSTER] })).name).toBe("other");
});

test("a configuration may say everything", () => {
  const all = {
    name: "other",
    clusters: [{ ...CLUSTER, ca: CA, tlsServerName: "kubernetes" }],
    controllerInstanceId: "blue",
    concurrency: 2,
    logLevel: "debug",
    logRetentionDays: 7,
    retentionDays: 365,
    removalPolicy: "destroy",
    tags: { team: "quay" },
    alarmTopic: "arn:aws:sns:eu-central-1:111122223333:on-call",
    eventFeed: true,
    notifications: [{ topic: "arn:aws:sns:eu-central-1:111122223333:chat", phases: ["Failed"] }],
    vpc: { subnetIds: ["subnet-0a"], securityGroupIds: ["sg-0b"] },
    receivers: [RECEIVER],
  };
  expect(parseConfiguration(all)).toEqual(all);
});

test.each<[what: string, value: unknown, key: string, help: RegExp]>([
  ["no configuration", undefined, "context.tallyman", /is missing; add \{"clusters"/],
  ["text that is not JSON", "{clusters", "context.tallyman", /not JSON; check the quotes/],
  ["another type", [], "context.tallyman", /expected object/],
  [
    "an unknown key",
    { clusters: [CLUSTER], cluster: 1 },
    "context.tallyman",
    /cluster is unknown; remove it/,
  ],
  ["no clusters", {}, "context.tallyman.clusters", /is missing; add a list/],
  ["an empty list of clusters", { clusters: [] }, "context.tallyman.clusters", /at least one/],
  ["a bad stack name", { name: "Tally_man", clusters: [CLUSTER] }, "context.tallyman.name", /DNS label/],
  ["a long stack name", { name: "a".repeat(41), clusters: [CLUSTER] }, "context.tallyman.name", /at most 40/],
  [
    "a cluster without name",
    withCluster({ name: undefined }),
    "context.tallyman.clusters[0].name",
    /add a string/,
  ],
  ["a bad cluster name", withCluster({ name: "a/b" }), "context.tallyman.clusters[0].name", /DNS label/],
  ["plain HTTP", withCluster({ server: "http://k8s" }), "context.tallyman.clusters[0].server", /https URL/],
  [
    "no way in",
    withCluster({ tokenSecret: undefined }),
    "context.tallyman.clusters[0]",
    /has no way in; give it one of eks, tokenSecret, kubeconfigSecret/,
  ],
  [
    "two ways in",
    withCluster({ eks: { cluster: "prod" } }),
    "context.tallyman.clusters[0]",
    /has eks and tokenSecret, but must have one/,
  ],
  [
    "an EKS cluster's ARN for its name",
    withCluster({
      tokenSecret: undefined,
      eks: { cluster: "arn:aws:eks:eu-west-1:111122223333:cluster/prod" },
    }),
    "context.tallyman.clusters[0].eks.cluster",
    /the name of an EKS cluster/,
  ],
  [
    "a region that is none",
    withCluster({ tokenSecret: undefined, eks: { cluster: "prod", region: "Frankfurt" } }),
    "context.tallyman.clusters[0].eks.region",
    /for example eu-central-1/,
  ],
  ["no address", withCluster({ server: undefined }), "context.tallyman.clusters[0].server", /is missing/],
  [
    "an address beside a kubeconfig",
    withCluster({ tokenSecret: undefined, kubeconfigSecret: "k" }),
    "context.tallyman.clusters[0].server",
    /is in the kubeconfig; leave it out/,
  ],
  [
    "a token for a secret's name",
    withCluster({ tokenSecret: "eyJhbGciOi.eyJpc3MiOi.c2lnbmF0dXJl" }),
    "context.tallyman.clusters[0].tokenSecret",
    /is a token; put it into a Secrets Manager secret/,
  ],
  [
    "a secret's name that cannot be one",
    withCluster({ tokenSecret: "a secret" }),
    "context.tallyman.clusters[0].tokenSecret",
    /name or the ARN/,
  ],
  [
    "a token in place",
    withCluster({ token: "x" }),
    "context.tallyman.clusters[0]",
    /token is unknown; remove it/,
  ],
  ["a CA that is no PEM", withCluster({ ca: "LS0t" }), "context.tallyman.clusters[0].ca", /as PEM/],
  [
    "an empty TLS name",
    withCluster({ tlsServerName: "" }),
    "context.tallyman.clusters[0].tlsServerName",
    /leave it out/,
  ],
  [
    "an empty instance id",
    { clusters: [CLUSTER], controllerInstanceId: "" },
    "context.tallyman.controllerInstanceId",
    /leave it out/,
  ],
  [
    "a fraction of a batch",
    { clusters: [CLUSTER], concurrency: 2.5 },
    "context.tallyman.concurrency",
    /whole number/,
  ],
  [
    "a retention that may forget what a message is about",
    { clusters: [CLUSTER], retentionDays: 29 },
    "context.tallyman.retentionDays",
    /at least 30/,
  ],
  ["concurrency 1", { clusters: [CLUSTER], concurrency: 1 }, "context.tallyman.concurrency", /at least 2/],
  [
    "too much concurrency",
    { clusters: [CLUSTER], concurrency: 1001 },
    "context.tallyman.concurrency",
    /at most 1000/,
  ],
  [
    "a log kept for a time that CloudWatch does not know",
    { clusters: [CLUSTER], logRetentionDays: 8 },
    "context.tallyman.logRetentionDays",
    /must be one of 1, 3, 5, 7/,
  ],
  [
    "a topic's name for its ARN",
    { clusters: [CLUSTER], alarmTopic: "on-call" },
    "context.tallyman.alarmTopic",
    /ARN of an SNS topic/,
  ],
  [
    "notifications without the feed",
    {
      clusters: [CLUSTER],
      eventFeed: false,
      notifications: [{ topic: "arn:aws:sns:eu-central-1:111122223333:chat" }],
    },
    "context.tallyman.notifications",
    /need the event feed/,
  ],
  [
    "a phase that is none",
    {
      clusters: [CLUSTER],
      notifications: [{ topic: "arn:aws:sns:eu-central-1:111122223333:chat", phases: ["Broken"] }],
    },
    "context.tallyman.notifications[0].phases[0]",
    /must be one of Pending/,
  ],
  [
    "a VPC without subnets",
    { clusters: [CLUSTER], vpc: { subnetIds: [], securityGroupIds: ["sg-0b"] } },
    "context.tallyman.vpc.subnetIds",
    /must name a subnet/,
  ],
  [
    "a receiver of a type that there is not",
    withReceiver({ type: "bitbucket" }),
    "context.tallyman.receivers[0].type",
    /must be one of standard-webhooks, github/,
  ],
  [
    "a receiver without rules",
    withReceiver({ rules: undefined }),
    "context.tallyman.receivers[0].rules",
    /is missing; add a list/,
  ],
  [
    "a secret in the configuration",
    withReceiver({ secrets: [{ literal: "a secret that nobody would guess" }] }),
    "context.tallyman.receivers[0].secrets[0]",
    /must be the name or the ARN of a Secrets Manager secret/,
  ],
  [
    "a rule with a misspelt key",
    withReceiver({ rules: [{ ...RECEIVER.rules[0], stages: "uat" }] }),
    "context.tallyman.receivers[0].rules[0]",
    /stages is unknown; remove it/,
  ],
  [
    "a rule with a path that is none",
    withReceiver({ rules: [{ ...RECEIVER.rules[0], stage: "$.deployment[*]" }] }),
    "context.tallyman.receivers[0].rules[0].stage",
    /is not a path; write for example/,
  ],
  [
    "a rule for a cluster that there is not",
    withReceiver({ rules: [{ ...RECEIVER.rules[0], cluster: "island" }] }),
    "context.tallyman.receivers[0].rules[0].cluster",
    /island is none of main/,
  ],
  [
    "an unknown removal policy",
    { clusters: [CLUSTER], removalPolicy: "snapshot" },
    "context.tallyman.removalPolicy",
    /retain or destroy/,
  ],
  [
    "an unknown log level",
    { clusters: [CLUSTER], logLevel: "loud" },
    "context.tallyman.logLevel",
    /one of debug/,
  ],
  [
    "a cluster's name twice",
    { clusters: [CLUSTER, CLUSTER] },
    "context.tallyman.clusters[1].name",
    /used twice; give each its own/,
  ],
  [
    "more than a function's environment holds",
    {
      clusters: ["a", "b", "c"].map((name) => ({ ...CLUSTER, name, ca: CA.replace("AA", "A".repeat(1200)) })),
    },
    "context.tallyman.clusters",
    /of which Lambda allows 4096; deploy some/,
  ],
])("refuses %s, names the key and says what to do", (_what, value, key, help) => {
  const problems = problemsOf(value);
  expect(problems).toHaveLength(1);
  expect(problems[0]?.startsWith(`${key}: `)).toBe(true);
  expect(problems[0]).toMatch(help);
});

test("every problem is told at once", () => {
  expect(problemsOf({ ...withCluster({ server: "x", ca: "y" }), concurrency: 1 })).toHaveLength(3);
});

test("the app says so on standard error and fails, without a stack trace", () => {
  const { status, stderr } = spawnSync(process.execPath, ["infra/app.ts"], {
    cwd: ROOT,
    encoding: "utf8",
    env: { ...process.env, CDK_CONTEXT_JSON: JSON.stringify({ tallyman: {} }) },
  });
  expect(status).toBe(1);
  expect(stderr).toContain("context.tallyman.clusters: is missing");
  expect(stderr).not.toContain("    at ");
});
