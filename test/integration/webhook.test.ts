import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, Context } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createContext } from "../../local/lambda-context.ts";
import { RECEIVERS_VARIABLE } from "../../shared/runtime/receivers.ts";
import { type Embedded, scriptedSpec, startEmbedded } from "../harness/embedded.ts";
import { GITHUB } from "../harness/webhook-payloads.ts";
import { createEvent, signGitHub } from "../harness/webhooks.ts";

/** The way of a webhook through the real parts: the Lambda handler, SQS, the workers, the ledger, the cluster. */
let tallyman: Embedded;
let handle: (event: APIGatewayProxyEventV2, context: Context) => Promise<APIGatewayProxyStructuredResultV2>;
let folder: string;
let deliveries = 0;
const SECRET = "a secret that nobody would guess";
const FREIGHT = { name: "3d5f7a9c1e3b3d5f7a9c1e3b3d5f7a9c1e3b3d5f", warehouse: "lamps" };

beforeAll(async () => {
  tallyman = await startEmbedded({ rollouts: 20 });
  folder = mkdtempSync(join(tmpdir(), "tallyman-webhook-"));
  const file = join(folder, "receivers.json");
  const rule = (name: string, command: string, state: string) => ({
    ...{ name, command, events: ["deployment_status"] },
    when: [{ field: "$.deployment_status.state", equals: state }],
    ...{ project: tallyman.project, stage: "$.deployment.environment" },
    ...{ actor: "github:{{ $.sender.login }}", reason: "{{ $.deployment.ref }} was deployed" },
  });
  writeFileSync(
    file,
    JSON.stringify([
      {
        ...{ name: "gh", type: "github", secrets: [{ literal: SECRET }] },
        rules: [rule("deployed", "reverify", "success"), rule("broken", "abort", "failure")],
      },
    ]),
  );
  process.env[RECEIVERS_VARIABLE] = file;
  ({ handler: handle } = (await import("../../functions/webhook/handler.ts")) as never);
  await tallyman.kargo.createTemplate("smoke", scriptedSpec(["Successful"]));
  await tallyman.kargo.createTemplate("endless", scriptedSpec(["Running"]));
  await tallyman.kargo.createFreight(FREIGHT.name, "Warehouse/lamps");
});
afterAll(async () => {
  delete process.env[RECEIVERS_VARIABLE];
  rmSync(folder, { recursive: true });
  await tallyman.stop();
});

async function post(stage: string, state: string, id = 1, secret = SECRET) {
  const { deployment_status: status, deployment, ...rest } = GITHUB.deployment_status;
  const body = JSON.stringify({
    ...rest,
    deployment_status: { ...status, id, state, environment: stage },
    deployment: { ...deployment, environment: stage },
  });
  const event = createEvent("gh", body, {
    "X-GitHub-Event": "deployment_status",
    "X-GitHub-Delivery": `delivery-${++deliveries}`,
    "X-Hub-Signature-256": signGitHub(secret, body),
  });
  const result = await handle(event, createContext("tallyman-webhook", "local", 10_000));
  return { status: result.statusCode, body: JSON.parse(result.body ?? "") };
}

const requestIds = (answers: { body: { requests: { id: string }[] } }[]): string[] => [
  ...new Set(answers.flatMap(({ body }) => body.requests.map(({ id }) => id))),
];

async function historyOf(stage: string, requestId: string) {
  return tallyman.waitFor(`request ${requestId} is settled`, async () => {
    const request = await tallyman.ledger.readRequest(tallyman.key(stage), requestId);
    return request === undefined || ["accepted", "waiting"].includes(request.outcome) ? undefined : request;
  });
}

describe("a deployment that GitHub tells of", () => {
  it("repeats the verification of its Stage once, however often and under whatever id it is delivered", async () => {
    await tallyman.kargo.createStage("uat", { verification: { analysisTemplates: [{ name: "smoke" }] } });
    const { verificationId } = await tallyman.promote("uat", FREIGHT);
    await tallyman.waitForPhase("uat", verificationId, "Successful");

    const answers = await Promise.all(Array.from({ length: 8 }, () => post("uat", "success")));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 202));
    const [id = "", ...others] = requestIds(answers);
    expect(others).toEqual([]);

    const request = await historyOf("uat", id);
    expect(request).toMatchObject({
      kind: "reverify",
      outcome: "started",
      actor: "github:mara-keeper",
      reason: "main was deployed",
    });
    const successor = request.verificationId ?? "";
    await tallyman.waitForPhase("uat", successor, "Successful");
    expect(requestIds([await post("uat", "success")])).toEqual([id]);
    // A later request comes behind the repeats: when it is through, they are.
    const [second = ""] = requestIds([await post("uat", "success", 2)]);
    const next = await historyOf("uat", second);
    await tallyman.waitForPhase("uat", next.verificationId ?? "", "Successful");
    expect((await tallyman.verifications("uat")).map((each) => each.id)).toEqual([
      verificationId,
      successor,
      next.verificationId,
    ]);
    expect(await tallyman.kargo.listRuns("uat")).toHaveLength(3);
  });

  it("aborts what is verified where it failed", async () => {
    await tallyman.kargo.createStage("qa", { verification: { analysisTemplates: [{ name: "endless" }] } });
    const { verificationId } = await tallyman.promote("qa", FREIGHT);
    await tallyman.waitForPhase("qa", verificationId, "Running");
    await post("qa", "failure");
    const aborted = await tallyman.waitForPhase("qa", verificationId, "Aborted");
    expect(aborted.abort?.actor).toBe("github:mara-keeper");
  });

  it("does nothing where it is not signed, or nobody asked for it", async () => {
    expect(await post("uat", "success", 3, "another secret, of some length")).toMatchObject({ status: 401 });
    expect(await post("uat", "pending", 3)).toEqual({ status: 202, body: { requests: [] } });
  });

  it("of a Stage that there is not leaves its refusal in the ledger", async () => {
    const [id = ""] = requestIds([await post("nowhere", "success")]);
    expect(await historyOf("nowhere", id)).toMatchObject({ outcome: "refused" });
  });
});
