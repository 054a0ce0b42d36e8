import { ReceiveMessageCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readListeningSockets } from "../../local/loopback.ts";
import { deriveVerificationId } from "../../shared/domain/identity.ts";
import { type Embedded, scriptedSpec, startEmbedded } from "../harness/embedded.ts";

/**
 * The product as it runs on a desk, end to end over real sockets: API server, forwarder, SQS, the very Lambda
 * handlers, DynamoDB, and back into the Stage.
 */
let tallyman: Embedded;
const lamps = { name: "f1a3b5c7d9e1f1a3b5c7d9e1f1a3b5c7d9e1f1a3", warehouse: "lamps" };
const ropes = { name: "0b2d4f6a8c0e0b2d4f6a8c0e0b2d4f6a8c0e0b2d", warehouse: "ropes" };

beforeAll(async () => {
  tallyman = await startEmbedded({ rollouts: 20 });
  const { kargo } = tallyman;
  await kargo.createTemplate("smoke", scriptedSpec(["Successful", "Successful", "Successful"]));
  await kargo.createTemplate("broken", scriptedSpec(["Failed"]));
  await kargo.createTemplate("endless", scriptedSpec(["Running"]));
  await kargo.createFreight(lamps.name, "Warehouse/lamps");
  await kargo.createFreight(ropes.name, "Warehouse/ropes");
});
afterAll(() => tallyman.stop());

const verifiedBy = (name: string) => ({ verification: { analysisTemplates: [{ name }] } });

describe("Freight that reaches a Stage", () => {
  it("is verified: the ledger, the Stage and the Freight say so", async () => {
    const { kargo, ledger } = tallyman;
    await kargo.createStage("dev", verifiedBy("smoke"));
    const { promotion, verificationId } = await tallyman.promote("dev", lamps);
    const verification = await tallyman.waitForPhase("dev", verificationId, "Successful");
    expect(verification).toMatchObject({
      cause: { kind: "promotion", promotion },
      promotion,
      collection: { freight: [{ name: lamps.name, origin: "Warehouse/lamps" }] },
      missingOrigins: [],
      run: { phase: "Successful" },
      counts: { count: 3, successful: 3 },
    });
    expect(verification.finishedAt).toBeGreaterThanOrEqual(verification.createdAt);

    const entry = await tallyman.waitFor("the Stage shows the result", async () => {
      const [current] = (await kargo.getStage("dev")).status?.freightHistory ?? [];
      return current?.verificationHistory?.find((each) => each.phase === "Successful");
    });
    expect(entry).toMatchObject({
      id: verificationId,
      analysisRun: { name: verification.run?.name, phase: "Successful" },
      finishTime: expect.any(String),
    });
    await tallyman.waitFor("the Freight shows it", async () => {
      const { status } = (await kargo.getFreight(lamps.name)) as { status?: { verifiedIn?: object } };
      return status?.verifiedIn !== undefined && "dev" in status.verifiedIn ? true : undefined;
    });
    const described = await ledger.describeVerification(tallyman.key("dev"), verificationId);
    expect(described?.transitions.at(-1)?.phase).toBe("Successful");
    expect(await kargo.listRuns("dev")).toHaveLength(1);
  });

  it("fails where its analysis says no", async () => {
    await tallyman.kargo.createStage("strict", verifiedBy("broken"));
    const { verificationId } = await tallyman.promote("strict", lamps);
    const verification = await tallyman.waitForPhase("strict", verificationId, "terminal");
    expect(verification).toMatchObject({ phase: "Failed", message: expect.stringContaining("probe") });
  });

  it("is an Error that names the object where the analysis cannot be built", async () => {
    await tallyman.kargo.createStage("lost", verifiedBy("nowhere"));
    const { verificationId } = await tallyman.promote("lost", lamps);
    const verification = await tallyman.waitForPhase("lost", verificationId, "terminal");
    expect(verification).toMatchObject({
      phase: "Error",
      reason: "CannotBuild",
      message: expect.stringContaining("AnalysisTemplate lighthouse/nowhere"),
    });
  });

  it("is verified again when the same Freight is promoted again, with its own AnalysisRun", async () => {
    await tallyman.kargo.createStage("again", verifiedBy("smoke"));
    const first = await tallyman.promote("again", lamps);
    await tallyman.waitForPhase("again", first.verificationId, "Successful");
    const second = await tallyman.promote("again", lamps);
    await tallyman.waitForPhase("again", second.verificationId, "Successful");
    expect(second.collectionId).toBe(first.collectionId);
    expect(second.verificationId).not.toBe(first.verificationId);
    expect(await tallyman.kargo.listRuns("again")).toHaveLength(2);
  });

  it("says which origins a Stage with two Warehouses still lacks", async () => {
    await tallyman.kargo.createStage("both", {
      ...verifiedBy("smoke"),
      origins: ["Warehouse/lamps", "Warehouse/ropes"],
    });
    const partial = await tallyman.promote("both", ropes);
    const one = await tallyman.waitForPhase("both", partial.verificationId, "Successful");
    expect(one.missingOrigins).toEqual(["Warehouse/lamps"]);
    const whole = await tallyman.promote("both", lamps);
    const two = await tallyman.waitForPhase("both", whole.verificationId, "Successful");
    expect(two.missingOrigins).toEqual([]);
    expect(two.collection.freight.map((freight) => freight.origin).sort()).toEqual([
      "Warehouse/lamps",
      "Warehouse/ropes",
    ]);
  });
});

describe("a message on a queue", () => {
  it("aborts a verification that would never end, and repeats it", async () => {
    await tallyman.kargo.createStage("stuck", verifiedBy("endless"));
    const { verificationId } = await tallyman.promote("stuck", lamps);
    await tallyman.waitForPhase("stuck", verificationId, "Running");
    await tallyman.send("abort", "stuck", { verificationId, actor: "mara@example.com" });
    const aborted = await tallyman.waitForPhase("stuck", verificationId, "Aborted");
    expect(aborted.abort?.actor).toBe("mara@example.com");
    const run = await tallyman.waitFor("the run was terminated", async () => {
      const [found] = await tallyman.kargo.listRuns("stuck");
      return found?.spec.terminate === true ? found : undefined;
    });
    expect(run.spec.terminate).toBe(true);

    await tallyman.send("reverify", "stuck", { verificationId, actor: "mara@example.com" });
    const successor = deriveVerificationId({ kind: "reverify", of: verificationId }, "", "");
    await tallyman.waitForPhase("stuck", successor, "Running");
    await tallyman.send("abort", "stuck", {});
    await tallyman.waitForPhase("stuck", successor, "Aborted");
  });

  it("goes to the dead-letter queue with its reasons when it makes no sense", async () => {
    const { queues, sqs } = tallyman;
    await sqs.send(
      new SendMessageCommand({
        QueueUrl: queues.verify.queue,
        MessageBody: JSON.stringify({ specversion: "1.0", data: {} }),
        MessageGroupId: "nonsense",
        MessageDeduplicationId: "nonsense",
      }),
    );
    const letter = await tallyman.waitFor("a dead letter", async () => {
      const { Messages: [message] = [] } = await sqs.send(
        new ReceiveMessageCommand({
          QueueUrl: queues.verify.deadLetterQueue,
          MessageAttributeNames: ["All"],
        }),
      );
      return message;
    });
    const reasons: string[] = JSON.parse(letter.MessageAttributes?.reasons?.StringValue ?? "[]");
    expect(reasons.some((reason) => reason.startsWith("data.project:"))).toBe(true);
  });
});

describe("when parts are away", () => {
  it("an API server that is down for a while delays a verification and changes nothing else", async () => {
    await tallyman.kargo.createStage("patient", verifiedBy("smoke"));
    // Reads of templates are what a start needs: the first tries all fail.
    tallyman.faults.respond(503, 3, ({ path }) => path.includes("/analysistemplates/"));
    const { verificationId } = await tallyman.promote("patient", lamps);
    await tallyman.waitForPhase("patient", verificationId, "Successful");
    expect(await tallyman.verifications("patient")).toHaveLength(1);
    expect(await tallyman.kargo.listRuns("patient")).toHaveLength(1);
  });

  it("a sweep finds nothing to mend after all of this", async () => {
    expect(await tallyman.sweep()).toEqual({ harbour: { open: 0, repaired: 0, failures: [] } });
  });

  it.skipIf(readListeningSockets() === undefined)("everything listens on loopback only", () => {
    expect(readListeningSockets()?.filter((socket) => !socket.isLoopback)).toEqual([]);
  });
});
