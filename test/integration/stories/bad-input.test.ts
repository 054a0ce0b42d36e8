import { describe, expect, it } from "vitest";
import { ABORT_ANNOTATION, REVERIFY_ANNOTATION } from "../../../shared/cluster/annotations.ts";
import { createCluster } from "../../../shared/cluster/cluster.ts";
import { createTransport } from "../../../shared/cluster/https-transport.ts";
import type { KubernetesTransport } from "../../../shared/cluster/transport.ts";
import { MAX_MESSAGE_BYTES } from "../../../shared/messages/codec.ts";
import { handleVerify } from "../../../shared/operations/message.ts";
import { PROJECT } from "../../harness/workbench.ts";
import { A, bench, onlyRun, send, setScene, shownPhases } from "./scene.ts";

setScene();

describe("bad input has a named outcome", () => {
  it("a template that does not exist: Error naming it", async () => {
    await bench.kargo.createStage("lost", { verification: { analysisTemplates: [{ name: "nowhere" }] } });
    await bench.kargo.promote("lost", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("lost")).toMatchObject([
      {
        phase: "Error",
        reason: "CannotBuild",
        message: `AnalysisTemplate ${PROJECT}/nowhere does not exist`,
      },
    ]);
    expect(await shownPhases("lost")).toEqual([["Error"]]);
  });

  it("an argument without a value: Error naming it", async () => {
    await bench.kargo.createTemplate("needy", {
      args: [{ name: "service" }],
      metrics: [{ name: "probe", provider: { web: { url: "http://127.0.0.1:1" } } }],
    });
    await bench.kargo.createStage("needy", { verification: { analysisTemplates: [{ name: "needy" }] } });
    await bench.kargo.promote("needy", [{ name: A }]);
    await bench.quiesce();
    expect(await bench.verifications("needy")).toMatchObject([
      { phase: "Error", message: expect.stringContaining("service") },
    ]);
  });

  it("a poison message: dead letter with its reasons, the group goes on", async () => {
    bench.queue.sendText("verify", "{nonsense", `${bench.key("dev").cluster}/${PROJECT}/dev`);
    bench.queue.sendText(
      "verify",
      JSON.stringify({ specversion: "1.0", type: "dev.tallyman.verify" }),
      "elsewhere",
    );
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    expect(bench.queue.deadLetters.map((letter) => letter.receiveCount)).toEqual([1, 1]);
    expect(bench.queue.deadLetters[0]?.reasons[0]).toContain("not JSON");
    expect(bench.queue.deadLetters[1]?.reasons.join()).toMatch(/id: .*source: .*data: /);
    expect(await bench.verifications("dev")).toHaveLength(1);
  });

  it("an AnalysisRun of 2 MB: its end is recorded, bounded", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const measurements = Array.from({ length: 4_000 }, (_, i) => ({
      phase: "Error",
      message: `refused ${i} ${"x".repeat(200)}`,
    }));
    await bench.kargo.setRun(await onlyRun(), {
      phase: "Error",
      message: "too many errors",
      metricResults: [{ name: "probe", phase: "Error", error: 4_000, count: 4_000, measurements }],
    });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    expect(verification).toMatchObject({ phase: "Error", message: "too many errors" });
    const description = await bench.ledger.describeVerification(bench.key("dev"), verification?.id ?? "");
    expect(description?.transitions.at(-1)?.run?.metrics[0]).toMatchObject({ error: 4_000 });
    expect(JSON.stringify(description).length).toBeLessThan(100_000);
  });

  it("a Stage too large for a message: verified, reverified and aborted by annotation like any other", async () => {
    const vars = Array.from({ length: 80 }, (_, i) => ({ name: `v${i}`, value: "x".repeat(15_000) }));
    await bench.kargo.createStage("vast", { vars });
    await bench.kargo.promote("vast", [{ name: A }]);
    await bench.quiesce();
    const sizes = bench.queue.accepted.map(({ message }) => Buffer.byteLength(JSON.stringify(message)));
    expect(sizes.length).toBeGreaterThan(0);
    expect(Math.max(...sizes)).toBeLessThan(MAX_MESSAGE_BYTES);
    const [first] = await bench.verifications("vast");
    expect(first?.phase).toBe("Pending");
    await bench.kargo.setRun(first?.run?.name ?? "", { phase: "Failed" });
    await bench.quiesce();
    await bench.kargo.annotate("vast", REVERIFY_ANNOTATION, first?.id ?? "");
    await bench.quiesce();
    const [, second] = await bench.verifications("vast");
    await bench.kargo.annotate("vast", ABORT_ANNOTATION, second?.id ?? "");
    await bench.quiesce();
    expect((await bench.verifications("vast")).map((v) => v.phase)).toEqual(["Failed", "Aborted"]);
    expect((await bench.kargo.getStage("vast")).metadata.annotations ?? {}).toEqual({});
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("names that mean something to JavaScript: data like any other, from Stage to ledger", async () => {
    const names = ["__proto__", "constructor", "prototype"];
    await bench.kargo.createStage("proto", { vars: names.map((name) => ({ name, value: "polluted" })) });
    await bench.kargo.promote("proto", [{ name: A }]);
    await bench.quiesce();
    for (const name of names) {
      bench.queue.sendText(
        "reverify",
        `{"specversion":"1.0","id":"${name}","source":"test","type":"dev.tallyman.reverify","${name}":{"polluted":true},
          "data":{"project":"${PROJECT}","stage":"proto","verificationId":"${name}","actor":"${name}"}}`,
        `${bench.key("proto").cluster}/${PROJECT}/proto`,
      );
    }
    await bench.quiesce();
    expect(await bench.verifications("proto")).toMatchObject([{ phase: "Pending" }]);
    const requests = await Promise.all(names.map((id) => bench.ledger.readRequest(bench.key("proto"), id)));
    expect(requests).toMatchObject(names.map((target) => ({ target, actor: target, outcome: "refused" })));
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it("a message nested a hundred thousand deep: a dead letter; one of half characters: a refusal on record", async () => {
    const depth = 100_000;
    const group = `${bench.key("dev").cluster}/${PROJECT}/dev`;
    bench.queue.sendText("verify", `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`, group);
    bench.queue.sendText(
      "abort",
      String.raw`{"specversion":"1.0","id":"half-\ud83d","source":"\udc00","type":"dev.tallyman.abort",
        "data":{"project":"lighthouse","stage":"dev","verificationId":"\ud83d","actor":"\u0000\ufffe","reason":"\udfff"}}`,
      group,
    );
    await bench.quiesce();
    expect(bench.queue.deadLetters).toHaveLength(1);
    const { items } = await bench.ledger.listHistory(bench.key("dev"));
    expect(items).toMatchObject([{ kind: "request", request: { outcome: "refused" } }]);
  });

  it("a cluster without Argo Rollouts: Error naming what is missing, at once, and nothing is verified", async () => {
    const { cluster } = bench.key("dev");
    const real = createTransport({ server: bench.sandbox.url });
    const without: KubernetesTransport = {
      ...real,
      request: (request) =>
        request.method === "POST" && request.path.endsWith("/analysisruns")
          ? Promise.resolve({ status: 404, headers: {}, body: "404 page not found" })
          : real.request(request),
    };
    const world = { ...bench.world, findCluster: () => createCluster(cluster, without) };
    bench.wrap(
      "verify",
      () => (message, delivery) => handleVerify(world, bench.key("dev"), message, delivery),
    );
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    real.close();
    expect(await bench.verifications("dev")).toMatchObject([
      { phase: "Error", reason: "CannotBuild", message: expect.stringContaining("analysisruns") },
    ]);
    expect(await bench.kargo.getFreight(A)).not.toHaveProperty("status.verifiedIn");
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("a message for a cluster that is not ours: dead letter naming it", async () => {
    await send("verify", "stray-1", { cluster: "elsewhere" });
    await bench.quiesce();
    expect(bench.queue.deadLetters[0]?.reasons[0]).toContain("elsewhere");
  });

  it("a reverify of a Stage that does not exist: refused, in the history", async () => {
    await send("reverify", "ghost-1", { stage: "ghost", actor: "ada" });
    await bench.quiesce();
    expect(await bench.ledger.readRequest(bench.key("ghost"), "ghost-1")).toMatchObject({
      outcome: "refused",
    });
  });
});
