import { describe, expect, it } from "vitest";
import { A, B, bench, onlyRun, send, setScene, shownPhases } from "./scene.ts";

setScene();

async function start(): Promise<string> {
  await bench.kargo.promote("dev", [{ name: A }]);
  await bench.quiesce();
  return onlyRun();
}

async function end(run: string, status: Record<string, unknown>) {
  await bench.kargo.setRun(run, status);
  await bench.quiesce();
  return (await bench.verifications("dev"))[0];
}

describe("an outcome", () => {
  it("Inconclusive is an end of its own: neither verified nor failed, and may be repeated", async () => {
    const verification = await end(await start(), { phase: "Inconclusive", message: "no traffic" });
    expect(verification).toMatchObject({ phase: "Inconclusive", message: "no traffic" });
    expect(await bench.kargo.getFreight(A)).not.toHaveProperty("status.verifiedIn.dev");
    const { status } = await bench.kargo.getStage("dev");
    expect(status?.conditions).toContainEqual(
      expect.objectContaining({ type: "Verified", status: "Unknown", reason: "VerificationInconclusive" }),
    );
    await send("reverify", "again", { verificationId: verification?.id ?? "" });
    await bench.quiesce();
    expect(await shownPhases("dev")).toEqual([["Pending", "Inconclusive"]]);
  });

  it("Error keeps the run's message word by word, and is not Failed", async () => {
    const message = "runtime error: index out of range [0] with length 0 — \u201cworker\u201d";
    expect(await end(await start(), { phase: "Error", message })).toMatchObject({ phase: "Error", message });
  });

  it("stands, whatever the run says afterwards; what it says is kept beside", async () => {
    const run = await start();
    await end(run, { phase: "Failed", message: "no" });
    expect(await end(run, { phase: "Successful", message: "" })).toMatchObject({
      phase: "Failed",
      message: "no",
      run: { phase: "Successful" },
    });
    expect(await end(run, { phase: "Running" })).toMatchObject({ phase: "Failed" });
    expect(await bench.kargo.getFreight(A)).not.toHaveProperty("status.verifiedIn.dev");
    expect(bench.queue.deadLetters).toEqual([]);
  });

  it("has times of the ledger's own: none ends before it started, whatever the run's clock says", async () => {
    const verification = await end(await start(), {
      phase: "Successful",
      startedAt: "2001-01-01T00:00:00Z",
      completedAt: "2001-01-01T00:00:01Z",
    });
    expect(verification?.finishedAt).toBeGreaterThanOrEqual(verification?.startedAt ?? Infinity);
    expect(verification?.startedAt).toBeGreaterThanOrEqual(verification?.createdAt ?? Infinity);
    const { transitions = [] } =
      (await bench.ledger.describeVerification(bench.key("dev"), verification?.id ?? "")) ?? {};
    expect(transitions.at(-1)?.run?.completedAt).toBe("2001-01-01T00:00:01Z");
  });

  it("that follows Pending and Running at once is not missed", async () => {
    const run = await start();
    await bench.kargo.setRun(run, { phase: "Pending" });
    await bench.kargo.setRun(run, { phase: "Running" });
    expect(await end(run, { phase: "Failed", message: "at once" })).toMatchObject({
      phase: "Failed",
      message: "at once",
    });
  });

  it("belongs to the Freight that its verification started with", async () => {
    const run = await start();
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    await end(run, { phase: "Successful" });
    expect(await bench.kargo.getFreight(A)).toHaveProperty("status.verifiedIn.dev");
    expect(await bench.kargo.getFreight(B)).not.toHaveProperty("status.verifiedIn.dev");
    expect(await shownPhases("dev")).toEqual([["Pending"], ["Successful"]]);
  });

  it("of the latest verification is what counts, although an earlier success keeps condition Verified True", async () => {
    const first = await end(await start(), { phase: "Successful" });
    await send("reverify", "again", { verificationId: first?.id ?? "" });
    await bench.quiesce();
    const [, second] = await bench.verifications("dev");
    await end(second?.run?.name ?? "", { phase: "Failed", message: "no" });
    const { status } = await bench.kargo.getStage("dev");
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Verified", status: "True" }));
    const { latest } = await bench.ledger.readStage(bench.key("dev"));
    const current = await bench.ledger.readVerification(bench.key("dev"), latest?.id ?? "");
    expect(current?.verification.phase).toBe("Failed");
  });
});

describe("a Promotion that failed", () => {
  it("brought nothing: the Freight that stays has its verification, and no record says otherwise", async () => {
    await end(await start(), { phase: "Successful" });
    await bench.kargo.failPromotion("dev");
    await bench.quiesce();
    await bench.sweep();
    expect((await bench.ledger.readStage(bench.key("dev"))).awaiting).toBeUndefined();
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    expect((await bench.verifications("dev")).map((v) => [v.phase, v.reason])).toEqual([
      ["Successful", undefined],
      ["Pending", undefined],
    ]);
  });

  it("keeps a reverify waiting, which the next success of a Promotion settles", async () => {
    const first = await end(await start(), { phase: "Failed" });
    await bench.kargo.failPromotion("dev");
    await bench.quiesce();
    await send("reverify", "later", { verificationId: first?.id ?? "" });
    await bench.quiesce();
    const outcome = async () => (await bench.ledger.readRequest(bench.key("dev"), "later"))?.outcome;
    expect(await outcome()).toBe("waiting");
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    expect(await outcome()).toBe("refused");
    expect(await bench.verifications("dev")).toHaveLength(2);
  });

  it("leaves Freight that still waits for its verification waiting, and says why", async () => {
    const brought = await bench.kargo.promote("dev", [{ name: A }], { health: null });
    await bench.quiesce();
    await bench.kargo.failPromotion("dev");
    await bench.quiesce();
    const { awaiting } = await bench.ledger.readStage(bench.key("dev"));
    expect(awaiting).toMatchObject({ promotion: brought, reason: expect.stringContaining("ended Failed") });
    const by = await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    expect(await bench.verifications("dev")).toMatchObject([
      { promotion: brought, phase: "Aborted", reason: "Superseded", message: expect.stringContaining(by) },
      { phase: "Pending" },
    ]);
  });
});

describe("one command", () => {
  it("in ten messages with ten ids makes one run", async () => {
    await start();
    for (let i = 0; i < 10; i++) await send("verify", `same-${i}`);
    await bench.quiesce();
    expect(await bench.kargo.listRuns("dev")).toHaveLength(1);
    expect(await bench.verifications("dev")).toHaveLength(1);
  });

  it("is not doubled by an annotation that an older verification left behind", async () => {
    const first = await end(await start(), { phase: "Failed" });
    bench.sandbox.faults.clear();
    await bench.kargo.annotate("dev", "kargo.akuity.io/reverify", first?.id ?? "");
    bench.sandbox.faults.respond(
      503,
      1_000,
      (request) => request.method === "PATCH" && request.path.endsWith("/stages/dev"),
    );
    await bench.quiesce();
    // The next start dies behind its AnalysisRun, once, with the annotation still there.
    let creations = 0;
    const { createVerification } = bench.ledger;
    bench.ledger.createVerification = async (verification) => {
      if (verification.collection.freight[0]?.name === B && ++creations === 1) {
        throw new Error("the process is gone");
      }
      return createVerification(verification);
    };
    await bench.kargo.promote("dev", [{ name: B }]);
    await bench.quiesce();
    expect(creations).toBeGreaterThan(1);
    expect((await bench.kargo.getStage("dev")).metadata.annotations).toHaveProperty([
      "kargo.akuity.io/reverify",
    ]);
    const verifications = await bench.verifications("dev");
    expect(verifications.filter((v) => v.collection.freight[0]?.name === B)).toHaveLength(1);
    expect(await bench.kargo.listRuns("dev")).toHaveLength(verifications.length);
  });
});
