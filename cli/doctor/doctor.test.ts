import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { CreateTableCommand, DeleteTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { DeleteQueueCommand, SetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { afterEach, describe, expect, it } from "vitest";
import { type SandboxCluster, startSandboxCluster } from "../../local/sandbox/sandbox-cluster.ts";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import { createCheckpointStore } from "../../shared/ledger/checkpoint.ts";
import type { ClusterSettings } from "../../shared/runtime/configuration.ts";
import { startTestInstallation } from "../../test/harness/cli-installation.ts";
import { createKargoActor } from "../../test/harness/kargo-actor.ts";
import { makeKey, makeVerification } from "../../test/integration/ledger/fixtures.ts";
import type { Finding } from "./finding.ts";
import { checkQueues } from "./queues.ts";
import { checkTable } from "./table.ts";

const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function startSandbox(): Promise<SandboxCluster> {
  const sandbox = await startSandboxCluster();
  cleanups.push(() => sandbox.stop());
  return sandbox;
}

/** An installation whose forwarder has just given a sign of life, and whose clock is this machine's. */
async function start(...clusters: readonly ClusterSettings[]) {
  const installation = await startTestInstallation({ clusters, now: Date.now() });
  cleanups.push(() => installation.stop());
  const { clock, dynamoDb } = installation;
  const checkpoints = createCheckpointStore(dynamoDb, "tallyman-test");
  const beat = (cluster: string, age = 0) =>
    checkpoints.hold(
      cluster,
      { owner: "test", now: clock.now() - age, until: clock.now() },
      { stages: "7", analysisruns: "7" },
    );
  for (const { name } of clusters) await beat(name);
  const examine = async () => {
    const { code, out } = await installation.run("doctor -o json");
    const { level, checks } = JSON.parse(out) as { level: string; checks: Finding[] };
    const not = (unwanted: string) =>
      checks
        .filter((each) => each.level !== unwanted)
        .map((each) => `${each.level} ${each.subject}: ${each.message}`);
    return { code, level, checks, troubles: not("ok") };
  };
  return { ...installation, beat, examine };
}

async function serve(answer: RequestListener): Promise<string> {
  const server: Server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("doctor", () => {
  it("finds nothing wrong where all is well, with exit code 0", async () => {
    const { url } = await startSandbox();
    const { run, examine } = await start({ name: "harbour", server: url });
    const { code, level, checks, troubles } = await examine();
    expect(troubles).toEqual([]);
    expect([code, level]).toEqual([0, "ok"]);
    expect(checks.map(({ subject }) => subject)).toEqual(
      expect.arrayContaining([
        "table tallyman-test",
        "verify queue",
        "abort dead letters",
        "cluster harbour",
        "forwarder of harbour",
        "verifications of harbour",
      ]),
    );
    const { out } = await run("doctor");
    expect(out).toMatch(/^ok {4}cluster harbour: answers, v1\.34/m);
    expect(out).toMatch(/\d+ ok, 0 warn, 0 fail$/);
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("says so of a table that is not there, or lacks an index, and goes on with the rest", async () => {
    const { url } = await startSandbox();
    const { dynamoDb, examine, run } = await start({ name: "harbour", server: url });
    await dynamoDb.send(new DeleteTableCommand({ TableName: "tallyman-test" }));
    const gone = await examine();
    expect(gone.code).toBe(18);
    expect(gone.troubles).toContain("fail table tallyman-test: does not exist");
    expect(gone.checks).toContainEqual(expect.objectContaining({ level: "ok", subject: "verify queue" }));
    expect((await run("doctor")).out).toContain("→ Check TALLYMAN_TABLE");
    await dynamoDb.send(
      new CreateTableCommand({
        TableName: "tallyman-test",
        BillingMode: "PAY_PER_REQUEST",
        AttributeDefinitions: ["pk", "sk"].map((AttributeName) => ({ AttributeName, AttributeType: "S" })),
        KeySchema: [
          { AttributeName: "pk", KeyType: "HASH" },
          { AttributeName: "sk", KeyType: "RANGE" },
        ],
      }),
    );
    expect((await examine()).troubles).toContain("fail table tallyman-test: has no index open");
  });

  it("says so of queues that are not there, or are not as they have to be, and of dead letters", async () => {
    const { url } = await startSandbox();
    const { sqs, urls, queue, examine } = await start({ name: "harbour", server: url });
    const set = (QueueUrl: string, Attributes: Record<string, string>) =>
      sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes }));
    await sqs.send(new DeleteQueueCommand({ QueueUrl: urls.abort.queue }));
    await set(urls.verify.queue, { RedrivePolicy: "", VisibilityTimeout: "10" });
    const wrong = JSON.stringify({
      deadLetterTargetArn: "arn:aws:sqs:local:000000000000:tallyman-test-abort-dlq.fifo",
      maxReceiveCount: 5,
    });
    await set(urls.reverify.queue, { RedrivePolicy: wrong });
    const letter = {
      body: "{}",
      group: "g",
      messageId: "m",
      receiveCount: 1,
      fault: "Invalid",
      reasons: [],
    } as const;
    await queue.deadLetter("verify", letter);
    const { code, troubles, checks } = await examine();
    expect(code).toBe(18);
    expect(troubles).toEqual([
      expect.stringMatching(/^fail verify queue: has no redrive policy/),
      "warn verify queue: hands a message out again after 10 s; 180 are needed",
      "warn verify dead letters: 1 messages were given up",
      expect.stringMatching(/^fail abort queue: .*does not exist$/),
      expect.stringMatching(/^fail reverify queue: its redrive policy leads to .*abort-dlq/),
      expect.stringMatching(/^fail reverify queue: SQS gives up after 5 receives, before a worker/),
    ]);
    expect(checks.find(({ subject }) => subject === "verify dead letters")?.advice).toContain(
      "tallyman dlq list --kind verify",
    );
  });

  it("calls dead letters alone a warning, with exit code 0", async () => {
    const { url } = await startSandbox();
    const { queue, examine } = await start({ name: "harbour", server: url });
    const letter = {
      body: "{}",
      group: "g",
      messageId: "m",
      receiveCount: 1,
      fault: "Invalid",
      reasons: [],
    } as const;
    await queue.deadLetter("abort", letter);
    expect(await examine()).toMatchObject({ code: 0, level: "warn" });
  });
});

describe("doctor, of clusters", () => {
  it("tells one that does not answer from one that does", async () => {
    const { url } = await startSandbox();
    const { examine } = await start(
      { name: "harbour", server: url },
      { name: "outpost", server: "http://127.0.0.1:1" },
    );
    const { code, troubles } = await examine();
    expect(code).toBe(18);
    expect(troubles).toEqual([expect.stringMatching(/^fail cluster outpost: .*ECONNREFUSED/)]);
  });

  it("names every right that is missing, and what it is needed for", async () => {
    const server = await serve((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const body = chunks.length === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString());
        const { resource, subresource, verb } = body.spec?.resourceAttributes ?? {};
        const allowed = !(verb === "patch" && subresource === "status") && resource !== "applications";
        const path = request.url ?? "";
        const answer = path.endsWith("selfsubjectaccessreviews")
          ? { status: { allowed } }
          : path.endsWith("selfsubjectreviews")
            ? { status: { userInfo: { username: "system:serviceaccount:tallyman:tallyman" } } }
            : {
                gitVersion: "v1.36.1",
                resources:
                  "stages freights promotions analysisruns analysistemplates clusteranalysistemplates"
                    .split(" ")
                    .map((name) => ({ name })),
              };
        response.writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json" });
        response.end(JSON.stringify(answer));
      });
    });
    const { examine } = await start({ name: "harbour", server });
    const { troubles } = await examine();
    const who = "system:serviceaccount:tallyman:tallyman";
    expect(troubles).toEqual([
      `fail cluster harbour: ${who} may not patch stages.kargo.akuity.io/status, needed to write outcomes back`,
      `fail cluster harbour: ${who} may not patch freights.kargo.akuity.io/status, needed to write outcomes back`,
      expect.stringMatching(/^warn cluster harbour: .* may not list applications\.argoproj\.io/),
      expect.stringMatching(/^warn cluster harbour: .* may not watch applications\.argoproj\.io/),
    ]);
  });

  it("asks for less where another verifier is at work", async () => {
    const { url } = await startSandbox();
    const { examine } = await start({ name: "harbour", server: url, mode: "companion" });
    const { checks } = await examine();
    expect(checks.map(({ message }) => message).join()).toMatch(
      /may do all \d+ things that companion mode needs/,
    );
  });

  it("names the CustomResourceDefinitions that are missing, and what may not be seen", async () => {
    const server = await serve((request, response) => {
      const status = request.url?.includes("kargo") ? 404 : request.url === "/version" ? 200 : 403;
      response.writeHead(status, { "content-type": "application/json" }).end("{}");
    });
    const { troubles } = await (await start({ name: "harbour", server })).examine();
    expect(troubles).toEqual([
      "fail cluster harbour: does not serve stages.kargo.akuity.io",
      "fail cluster harbour: does not serve promotions.kargo.akuity.io",
      "fail cluster harbour: does not serve freights.kargo.akuity.io",
      "warn cluster harbour: what it serves of argoproj.io may not be seen (403)",
      "warn cluster harbour: what the identity of TALLYMAN_CLUSTERS may do cannot be seen",
    ]);
  });

  it("says that credentials are refused", async () => {
    const server = await serve((_request, response) => void response.writeHead(401).end("{}"));
    const { troubles } = await (await start({ name: "harbour", server, token: "old" })).examine();
    expect(troubles).toEqual(["fail cluster harbour: does not accept the credentials of TALLYMAN_CLUSTERS"]);
  });

  it.each([
    [9_000, undefined],
    [60_000, "warn"],
    [-60_000, "warn"],
    [3_600_000, "fail"],
  ])("of a clock that is %d ms off says %s", async (skew, level) => {
    const { url } = await startSandbox();
    const { clock, examine, beat } = await start({ name: "harbour", server: url });
    clock.advance(skew);
    await beat("harbour");
    const { checks } = await examine();
    expect(checks.find(({ message }) => message.includes("apart"))?.level).toBe(level);
  });
});

describe("doctor, of events and sweeps", () => {
  it.each([
    [60_000, "ok"],
    [180_000, "warn"],
    [3_600_000, "fail"],
  ])("takes a forwarder that was last heard of %d ms ago for %s", async (age, level) => {
    const { url } = await startSandbox();
    const { examine, beat } = await start({ name: "harbour", server: url });
    await beat("harbour", age);
    const { checks } = await examine();
    expect(checks.find(({ subject }) => subject.startsWith("forwarder"))?.level).toBe(level);
  });

  it("says that no forwarder has ever worked", async () => {
    const { url } = await startSandbox();
    const installation = await startTestInstallation({
      clusters: [{ name: "new", server: url }],
      now: Date.now(),
    });
    cleanups.push(() => installation.stop());
    expect((await installation.run("doctor")).out).toMatch(/^fail {2}forwarder of new: has never worked$/m);
  });

  it("names a verification that is open although its AnalysisRun has ended or is gone, not one that goes on", async () => {
    const { url } = await startSandbox();
    const { clock, ledger, examine } = await start({ name: "harbour", server: url });
    const transport = createTransport({ server: url });
    cleanups.push(() => transport.close());
    const kargo = createKargoActor(transport, "lighthouse", clock);
    await kargo.createProject();
    const open = async (stage: string, status: Record<string, unknown> | undefined, age = 600_000) => {
      const verification = makeVerification(makeKey(stage), "p1", {
        phase: "Running",
        createdAt: clock.now() - age,
      });
      await ledger.createVerification(verification);
      if (status === undefined) return verification.id;
      const { name = "" } = verification.run ?? {};
      await transport.request({
        method: "POST",
        path: "/apis/argoproj.io/v1alpha1/namespaces/lighthouse/analysisruns",
        body: {
          apiVersion: "argoproj.io/v1alpha1",
          kind: "AnalysisRun",
          metadata: { name, labels: { "kargo.akuity.io/stage": stage } },
          spec: { metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1" } } }] },
        },
      });
      await kargo.setRun(name, status);
      return verification.id;
    };
    const at = (age: number) => new Date(clock.now() - age).toISOString();
    await open("goes-on", { phase: "Running" });
    await open("just-ended", { phase: "Failed", completedAt: at(30_000) });
    await open("young", undefined, 60_000);
    expect((await examine()).troubles).toEqual([]);
    const ended = await open("ended", { phase: "Successful", completedAt: at(300_000) });
    const gone = await open("gone", undefined);
    const { code, troubles } = await examine();
    expect(code).toBe(18);
    expect(troubles).toHaveLength(1);
    for (const part of [`${ended} of Stage lighthouse/ended`, `${gone} of Stage lighthouse/gone`]) {
      expect(troubles[0]).toContain(part);
    }
    expect(troubles[0]).not.toMatch(/goes-on|just-ended|young/);
  });
});

describe("doctor, without rights", () => {
  it("says what you may not see, names the action, and fails nothing", async () => {
    const endpoint = await serve((request, response) => {
      const target = String(request.headers["x-amz-target"]);
      const prefix = target.startsWith("DynamoDB") ? "com.amazonaws.dynamodb.v20120810" : "com.amazonaws.sqs";
      response.writeHead(400, { "content-type": "application/x-amz-json-1.0" });
      response.end(JSON.stringify({ __type: `${prefix}#AccessDeniedException`, message: "not authorized" }));
    });
    const settings = { endpoint, region: "local", credentials: { accessKeyId: "a", secretAccessKey: "b" } };
    const dynamoDb = new DynamoDBClient(settings);
    const sqs = new SQSClient(settings);
    cleanups.push(() => [dynamoDb.destroy(), sqs.destroy()]);
    const pair = { queue: `${endpoint}/0/q.fifo`, deadLetterQueue: `${endpoint}/0/d.fifo` };
    const findings = [
      ...(await checkTable(dynamoDb, "ledger")),
      ...(await checkQueues(sqs, { verify: pair, abort: pair, reverify: pair }, 20)),
    ];
    expect(new Set(findings.map(({ level, message }) => `${level} ${message}`))).toEqual(
      new Set(["warn may not be seen by you"]),
    );
    expect(findings.map(({ advice }) => advice)).toEqual([
      "Looking takes dynamodb:DescribeTable.",
      "Looking takes dynamodb:DescribeContinuousBackups.",
      "Looking takes dynamodb:DescribeTimeToLive.",
      ...Array.from({ length: 3 }, () => "Looking takes sqs:GetQueueAttributes."),
    ]);
  });
});
