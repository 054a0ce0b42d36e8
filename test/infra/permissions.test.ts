import { expect, test } from "vitest";
import { bundleFunction } from "../../infra/function-bundle.ts";
import { MESSAGE_KINDS } from "../../shared/messages/schema.ts";
import { deriveDynamoDbActions, deriveQueueActions } from "./permissions.ts";
import { synthesize } from "./synthesized.ts";

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
}

const { find } = synthesize();
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

test("the forwarder may only send, to each queue and to no dead-letter queue; the sweeper needs no queue", () => {
  expect(grantedTo("Forwarder", "sqs")).toEqual(["sqs:SendMessage"]);
  const targets = readStatements("Forwarder").filter((statement) => statement.Action === "sqs:SendMessage");
  const text = JSON.stringify(targets.map((statement) => statement.Resource));
  for (const kind of MESSAGE_KINDS) expect(text).toContain(`${capitalize(kind)}Queue`);
  expect(text).not.toContain("DeadLetters");
  expect(grantedTo("Sweeper", "sqs")).toEqual([]);
});
