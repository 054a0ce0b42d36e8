import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { App, Stack, Validations } from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import { AwsSolutionsChecks } from "cdk-nag";
import { expect, onTestFinished, test } from "vitest";
import {
  buildEnvironment,
  ClusterAccess,
  Ledger,
  MessageQueue,
  parseConfiguration,
  TallymanStack,
  Worker,
} from "../../infra/index.ts";
import { MESSAGE_KINDS } from "../../shared/messages/schema.ts";
import { readConfiguration } from "../../shared/runtime/configuration.ts";
import { CLUSTER } from "./synthesized.ts";

const ROOT = join(import.meta.dirname, "../..");

interface Resource {
  readonly Type: string;
  readonly Properties?: Readonly<Record<string, unknown>>;
}

/** An app of somebody else's, who wants the ledger and one worker and nothing that they did not ask for. */
function composeOwn(kinds: readonly (typeof MESSAGE_KINDS)[number][]): Stack {
  const stack = new Stack(new App(), "Own");
  const configuration = parseConfiguration({ name: "own", clusters: [CLUSTER] });
  const ledger = new Ledger(stack, "Ledger");
  const queues = kinds.map((kind) => new MessageQueue(stack, kind, { kind, prefix: "own" }));
  const [queue] = queues;
  if (queue === undefined) throw new Error("no queue");
  const environment = buildEnvironment(configuration, ledger, queues);
  const worker = new Worker(stack, "Worker", {
    queue,
    ledger,
    setting: { environment, logRetentionDays: 7 },
  });
  for (const cluster of configuration.clusters) {
    new ClusterAccess(stack, cluster.name, { cluster, functions: { Worker: worker.lambda } });
  }
  return stack;
}

test("another app composes ledger, queues and a worker from the exports, and the worker can start", () => {
  const stack = composeOwn(MESSAGE_KINDS);
  const resources: Resource[] = Object.values(Template.fromStack(stack).toJSON().Resources);
  const types = new Set(resources.map((resource) => resource.Type));
  expect([...types].sort()).toEqual([
    "AWS::DynamoDB::Table",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
  ]);
  const of = (type: string) => resources.filter((resource) => resource.Type === type);
  expect(of("AWS::Lambda::Function")).toHaveLength(1);
  expect(of("AWS::DynamoDB::Table")[0]?.Properties).toMatchObject({ DeletionProtectionEnabled: true });
  const environment = of("AWS::Lambda::Function")[0]?.Properties?.Environment as
    | { Variables: Record<string, unknown> }
    | undefined;
  const env = Object.fromEntries(
    Object.entries(environment?.Variables ?? {}).map(([name, value]) => [
      name,
      typeof value === "string" ? value : "resolved",
    ]),
  );
  expect(readConfiguration(env).clusters[0]?.name).toBe(CLUSTER.name);
  expect(new AwsSolutionsChecks(stack).validateScope(stack)).toMatchObject({ success: true, violations: [] });
});

test("an app that leaves a queue out is told so when it is synthesized, not by functions that do not start", () => {
  expect(() => composeOwn(["verify"])).toThrow("there is no queue for abort, reverify");
});

test("two installations in one app and one account share no name, and both pass cdk-nag", () => {
  const app = new App();
  const stacks = ["blue", "green"].map(
    (name) =>
      new TallymanStack(app, parseConfiguration({ name, clusters: [CLUSTER] }), {
        env: { account: "111122223333", region: "eu-central-1" },
      }),
  );
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  app.synth();
  const [blue = [], green = []] = stacks.map((stack) => findNames(Template.fromStack(stack)));
  // Queues, dead-letter queues, bus and dashboard.
  expect(blue).toHaveLength(2 * MESSAGE_KINDS.length + 2);
  expect(green).toHaveLength(blue.length);
  expect(green.filter((name) => blue.includes(name))).toEqual([]);
  for (const stack of stacks) {
    expect(stack.account).toBe("111122223333");
    expect(Object.values(Template.fromStack(stack).toJSON().Outputs ?? {})).not.toContainEqual(
      expect.objectContaining({ Export: expect.anything() }),
    );
  }
});

/**
 * Names that the resources have in the account, as far as the template gives them and not CloudFormation. An inline
 * policy's is its role's own.
 */
function findNames(template: Template): string[] {
  return Object.values<Resource>(template.toJSON().Resources).flatMap(({ Type, Properties = {} }) => {
    const kind = Type.split("::").at(-1);
    const keys = Type === "AWS::IAM::Policy" ? [] : ["Name", `${kind}Name`];
    return keys.flatMap((key) => (Properties[key] === undefined ? [] : [`${Type} ${Properties[key]}`]));
  });
}

test("tallyman/infra is what an app in a folder of its own imports, and what it synthesizes is whole", () => {
  const folder = mkdtempSync(join(tmpdir(), "tallyman-own-app-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(ROOT, join(folder, "node_modules/tallyman"));
  symlinkSync(join(ROOT, "node_modules/aws-cdk-lib"), join(folder, "node_modules/aws-cdk-lib"));
  writeFileSync(
    join(folder, "app.mjs"),
    `import { App } from "aws-cdk-lib";
     import { parseConfiguration, TallymanStack } from "tallyman/infra";
     const app = new App({ outdir: "out" });
     new TallymanStack(app, parseConfiguration({ name: "own", clusters: [${JSON.stringify(CLUSTER)}] }));
     app.synth();`,
  );
  execFileSync(process.execPath, ["app.mjs"], { cwd: folder });
  const template = JSON.parse(readFileSync(join(folder, "out/own.template.json"), "utf8"));
  const functions = Object.values<Resource>(template.Resources).filter(
    ({ Type }) => Type === "AWS::Lambda::Function",
  );
  expect(functions).toHaveLength(MESSAGE_KINDS.length + 3);
  for (const { Properties } of functions) {
    const hash = /[0-9a-f]{64}/.exec(JSON.stringify(Properties?.Code))?.[0];
    const code = readFileSync(join(folder, `out/asset.${hash}/index.mjs`), "utf8");
    expect(code).toContain("handler");
  }
});
