import { describe, expect, it } from "vitest";
import { REVERIFY_ANNOTATION } from "../../../shared/cluster/annotations.ts";
import { handleReverify } from "../../../shared/operations/message.ts";
import { createCrashPoints } from "../../engines/crash-points.ts";
import { A, B, bench, onlyRun, send, setScene } from "./scene.ts";

setScene();

describe("reverify", () => {
  async function endFirst(phase = "Failed"): Promise<string> {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await bench.kargo.setRun(await onlyRun(), { phase });
    await bench.quiesce();
    const [verification] = await bench.verifications("dev");
    return verification?.id ?? "";
  }

  it("by an annotation that cannot be cleared leads to one successor, however often it is seen", async () => {
    const id = await endFirst();
    bench.sandbox.faults.respond(
      503,
      1_000,
      (request) => request.method === "PATCH" && request.path.endsWith("/stages/dev"),
    );
    // The actor's own PATCH must pass, so the annotation is set before the fault takes hold of the rest.
    bench.sandbox.faults.clear();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, id);
    bench.sandbox.faults.respond(
      503,
      1_000,
      (request) => request.method === "PATCH" && request.path.endsWith("/stages/dev"),
    );
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
    // Seen again: after a relist, and after the successor has ended.
    bench.sandbox.faults.expireWatches();
    await bench.quiesce();
    for (const run of await bench.kargo.listRuns("dev"))
      await bench.kargo.setRun(run.metadata.name, { phase: "Successful" });
    await bench.quiesce();
    bench.clock.advance(600_000);
    await send("reverify", "seen-again", { verificationId: id });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
    expect((await bench.kargo.getStage("dev")).metadata.annotations).toHaveProperty([REVERIFY_ANNOTATION]);
  });

  it("of a verification that still runs waits for its end and then starts", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    const [running] = await bench.verifications("dev");
    await send("reverify", "wait-1", { verificationId: running?.id ?? "", actor: "ada" });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(1);
    expect(await bench.ledger.readRequest(bench.key("dev"), "wait-1")).toMatchObject({ outcome: "waiting" });
    await bench.kargo.setRun(await onlyRun(), { phase: "Failed" });
    await bench.quiesce();
    const all = await bench.verifications("dev");
    expect(all.map((v) => v.phase)).toEqual(["Failed", "Pending"]);
    expect(await bench.ledger.readRequest(bench.key("dev"), "wait-1")).toMatchObject({
      outcome: "started",
      verificationId: all[1]?.id,
    });
  });

  it("while the Stage is unhealthy waits and starts when it is healthy again", async () => {
    const id = await endFirst();
    await bench.kargo.setHealth("dev", "Unhealthy");
    await send("reverify", "sick-1", { verificationId: id });
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(1);
    await bench.kargo.setHealth("dev", "Healthy");
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
  });

  it("that waits when another Promotion brings other Freight is refused in the history", async () => {
    await bench.kargo.promote("dev", [{ name: A }]);
    await bench.quiesce();
    await send("reverify", "void-1", {});
    await bench.quiesce();
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    expect(await bench.ledger.readRequest(bench.key("dev"), "void-1")).toMatchObject({ outcome: "refused" });
    expect(await bench.verifications("dev")).toHaveLength(2);
  });

  it("without a target repeats the latest, once for each request", async () => {
    await endFirst();
    await send("reverify", "free-1");
    await send("reverify", "free-1");
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(2);
    for (const run of await bench.kargo.listRuns("dev"))
      await bench.kargo.setRun(run.metadata.name, { phase: "Successful" });
    await bench.quiesce();
    await send("reverify", "free-2");
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(3);
  });

  it("without a target is done once, even if others have followed by the time that its second try comes", async () => {
    await endFirst();
    const points = createCrashPoints();
    const world = { ...bench.world, ledger: points.guard(bench.ledger, "ledger") };
    bench.wrap(
      "reverify",
      () => (message, delivery) => handleReverify(world, bench.key("dev"), message, delivery),
    );
    await send("reverify", "free-1");
    points.arm({ call: 6, when: "after" });
    await bench.drain(0);
    expect(points.calls.at(-1)).toBe("ledger.writeStage");
    points.arm(undefined);
    const startedBy = async (requestId: string) =>
      (await bench.verifications("dev")).find(
        ({ cause }) => cause.kind === "request" && cause.requestId === requestId,
      );
    const second = await startedBy("free-1");
    await bench.kargo.setRun(second?.run?.name ?? "", { phase: "Successful" });
    await bench.settle();
    await send("verify", "also-1", { actor: "ada" });
    await bench.drain(0);
    const third = await startedBy("also-1");
    expect(third?.phase).toBe("Pending");
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(3);
    expect((await bench.ledger.readStage(bench.key("dev"))).latest?.id).toBe(third?.id);
    expect(await bench.ledger.readRequest(bench.key("dev"), "free-1")).toMatchObject({
      outcome: "started",
      verificationId: second?.id,
    });
  });

  it("of something that is no verification's id is refused, and the annotation removed", async () => {
    await endFirst();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, "please run it again!");
    await bench.quiesce();
    const { items } = await bench.ledger.listHistory(bench.key("dev"));
    expect(items).toContainEqual({
      kind: "request",
      request: expect.objectContaining({
        outcome: "refused",
        message: expect.stringContaining("please run it again!"),
      }),
    });
    expect((await bench.kargo.getStage("dev")).metadata.annotations ?? {}).not.toHaveProperty([
      REVERIFY_ANNOTATION,
    ]);
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("is not asked for by removing an annotation", async () => {
    const id = await endFirst();
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, id);
    await bench.kargo.annotate("dev", REVERIFY_ANNOTATION, null);
    await bench.quiesce();
    expect((await bench.verifications("dev")).length).toBeLessThanOrEqual(2);
    const before = (await bench.verifications("dev")).length;
    await bench.quiesce();
    expect(await bench.verifications("dev")).toHaveLength(before);
  });
});
