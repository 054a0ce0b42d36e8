import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bundleFunction } from "../../infra/function-bundle.ts";
import { MESSAGE_KINDS } from "../../shared/messages/schema.ts";
import { deriveDynamoDbActions, deriveQueueActions } from "./permissions.ts";
import { CLUSTER, RECEIVER, synthesize } from "./synthesized.ts";

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
}

const { find } = synthesize({
  clusters: [CLUSTER],
  receivers: [RECEIVER, { ...RECEIVER, name: "gh-2", secrets: ["tallyman/webhooks/gh", "gh/old"] }],
});
/** What Lambda itself does with a queue on the function's behalf. */
const EVENT_SOURCE = ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"];

function readStatements(idPrefix = ""): Statement[] {
  return find("AWS::IAM::Policy", idPrefix).flatMap(
    ({ properties }) => (properties.PolicyDocument as { Statement: Statement[] }).Statement,
  );
}

function grantedTo(idPrefix: string, service: string): string[] {
  const actions = readStatements(idPrefix).flatMap((statement) => statement.Action);
  return [...new Set(actions.filter((action) => action.startsWith(`${service}:`)))].sort();
}

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const WORKERS = MESSAGE_KINDS.map((kind) => [`${capitalize(kind)}Worker`, `functions/${kind}/handler.ts`]);

test("no function has a wildcard, in an action or in a resource", () => {
  const statements = readStatements();
  expect(statements.length).toBeGreaterThan(10);
  for (const statement of statements) {
    expect(statement.Effect).toBe("Allow");
    expect(JSON.stringify(statement)).not.toContain("*");
  }
});

test("a function may read the secret of a cluster that it talks to, and no other", () => {
  const clusters = ["a", "b"].map((name) => ({ ...CLUSTER, name, tokenSecret: `tokens/${name}` }));
  const secretsOf = (idPrefix: string) =>
    synthesize({ clusters })
      .find("AWS::IAM::Policy", idPrefix)
      .flatMap(({ properties }) => (properties.PolicyDocument as { Statement: Statement[] }).Statement)
      .filter((statement) => statement.Action === "secretsmanager:GetSecretValue")
      .map((statement) => /tokens\/\w-\?{6}/.exec(JSON.stringify(statement.Resource))?.[0]);
  expect(secretsOf("Forwardera")).toEqual(["tokens/a-??????"]);
  expect(secretsOf("Forwarderb")).toEqual(["tokens/b-??????"]);
  for (const id of ["VerifyWorker", "AbortWorker", "ReverifyWorker", "Sweeper"]) {
    expect(secretsOf(id)).toEqual(["tokens/a-??????", "tokens/b-??????"]);
  }
});

test("EKS lets the functions in by their roles, and no secret is read", () => {
  const { tokenSecret: _, ...rest } = CLUSTER;
  const eks = { cluster: "prod" };
  const { find: findOnEks } = synthesize({ clusters: [{ ...rest, eks }] });
  const entries = findOnEks("AWS::EKS::AccessEntry");
  expect(entries).toHaveLength(5);
  for (const { properties } of entries) {
    expect(properties).toMatchObject({ ClusterName: "prod", KubernetesGroups: ["tallyman"] });
    expect(JSON.stringify(properties.PrincipalArn)).toMatch(/Role/);
  }
  const rights = readFileSync(join(import.meta.dirname, "../../deploy/rbac/managed.yaml"), "utf8");
  expect(rights).toMatch(/kind: Group\n +name: tallyman\n/);
  expect(JSON.stringify(findOnEks("AWS::IAM::Policy"))).not.toContain("secretsmanager");
  const beside = synthesize({ clusters: [{ ...rest, eks, mode: "companion" }] });
  expect(beside.find("AWS::EKS::AccessEntry")[0]?.properties.KubernetesGroups).toEqual([
    "tallyman-companion",
  ]);
  const elsewhere = synthesize({ clusters: [{ ...rest, eks: { ...eks, accessEntries: false } }] });
  expect(elsewhere.find("AWS::EKS::AccessEntry")).toEqual([]);
});

test("no function has a managed policy", () => {
  for (const { properties } of find("AWS::IAM::Role")) expect(properties.ManagedPolicyArns).toBeUndefined();
});

test("the workers together may do in DynamoDB exactly what their code can do", () => {
  const sources = WORKERS.flatMap(([, entry = ""]) => Object.keys(bundleFunction(entry).inputs));
  for (const [id = ""] of WORKERS) expect(grantedTo(id, "dynamodb")).toEqual(deriveDynamoDbActions(sources));
});

test.each([
  ["Sweeper", "functions/sweeper/handler.ts"],
  ["Forwarder", "functions/forwarder/handler.ts"],
  ["Webhook", "functions/webhook/handler.ts"],
])("the %s may do in DynamoDB exactly what its code can do", (id, entry) => {
  const sources = Object.keys(bundleFunction(entry).inputs);
  expect(grantedTo(id, "dynamodb")).toEqual(deriveDynamoDbActions(sources));
});

test("a worker may do with queues what the code and its event source do, and with its own only", () => {
  const expected = [...new Set([...deriveQueueActions(), ...EVENT_SOURCE])].sort();
  for (const kind of MESSAGE_KINDS) {
    expect(grantedTo(`${capitalize(kind)}Worker`, "sqs")).toEqual(expected);
    const resources = readStatements(`${capitalize(kind)}Worker`)
      .filter((statement) => [statement.Action].flat().some((action) => action.startsWith("sqs:")))
      .map((statement) => JSON.stringify(statement.Resource));
    for (const resource of resources) expect(resource).toContain(`${capitalize(kind)}Queue`);
  }
});

test("who only sends may only send, to each queue and to no dead-letter queue; the sweeper needs no queue", () => {
  for (const id of ["Forwarder", "Webhook"]) {
    expect(grantedTo(id, "sqs")).toEqual(["sqs:SendMessage"]);
    const targets = readStatements(id).filter((statement) => statement.Action === "sqs:SendMessage");
    const text = JSON.stringify(targets.map((statement) => statement.Resource));
    for (const kind of MESSAGE_KINDS) expect(text).toContain(`${capitalize(kind)}Queue`);
    expect(text).not.toContain("DeadLetters");
  }
  expect(grantedTo("Sweeper", "sqs")).toEqual([]);
});

test("the webhook may read the secrets of its receivers, and none of a cluster", () => {
  const statements = readStatements("Webhook").filter(
    (statement) => statement.Action === "secretsmanager:GetSecretValue",
  );
  const names = statements.flatMap(({ Resource }) => JSON.stringify(Resource).match(/:secret:[^"]+/g) ?? []);
  expect(names).toEqual([":secret:tallyman/webhooks/gh-??????", ":secret:gh/old-??????"]);
  const actions = readStatements("Webhook").flatMap((statement) => statement.Action);
  expect([...new Set(actions.map((action) => action.split(":")[0]))].sort()).toEqual([
    ...["dynamodb", "logs", "secretsmanager", "sqs"],
  ]);
});
