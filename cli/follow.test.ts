import { describe, expect, it } from "vitest";
import { Fault } from "../shared/domain/fault.ts";
import type { RequestOutcome, RequestRecord, Verification } from "../shared/domain/verification.ts";
import { createVirtualClock } from "../test/engines/virtual-clock.ts";
import { makeKey, makeVerification } from "../test/integration/ledger/fixtures.ts";
import { followRequest, type Sight } from "./follow.ts";

const key = makeKey("follow");

function request(outcome: RequestOutcome, verificationId?: string): RequestRecord {
  return { key, requestId: "r1", kind: "reverify", outcome, verificationId, message: outcome, createdAt: 0 };
}

/** Follows through the given looks, one a read of the request; the last one stays. */
async function follow(looks: readonly (Sight | "down")[], timeoutMs = 600_000) {
  const clock = createVirtualClock();
  const seen: Sight[] = [];
  let look = -1;
  let now: Sight = {};
  const step = (settled: boolean): Sight => {
    const next = looks[Math.min(look + 1, looks.length - 1)];
    if (!settled || next !== now) look++;
    if (next === "down" || next === undefined) throw new Fault("Transient", "no answer");
    now = next;
    return next;
  };
  const result = followRequest({
    ledger: {
      readRequest: async () => step(false).request,
      readVerification: async () => {
        const verification: Verification | undefined = step(true).verification;
        return verification === undefined ? undefined : { verification, revision: 1 };
      },
    },
    clock,
    key,
    requestId: "r1",
    timeoutMs,
    report: (sight) => seen.push(sight),
  });
  let over = false;
  const done = result.finally(() => {
    over = true;
  });
  while (!over) {
    clock.wakeNext();
    await new Promise(setImmediate);
  }
  return { ...(await done), seen, clock };
}

const at = (phase: Verification["phase"]) => makeVerification(key, "p1", { phase });

describe("followRequest", () => {
  it.each([
    ["Successful", 0],
    ["Failed", 10],
    ["Error", 11],
    ["Aborted", 12],
    ["Inconclusive", 13],
  ] as const)("ends with the code of %s", async (phase, code) => {
    const started = request("started", at(phase).id);
    const { exitCode } = await follow([
      {},
      { request: request("waiting") },
      { request: started, verification: at("Running") },
      { request: started, verification: at(phase) },
    ]);
    expect(exitCode).toBe(code);
  });

  it.each([
    ["refused", 14],
    ["too-late", 15],
    ["aborted", 0],
  ] as const)("ends with the code of %s", async (outcome, code) => {
    expect((await follow([{}, { request: request(outcome) }])).exitCode).toBe(code);
  });

  it("goes on through a ledger that does not answer, and says so meanwhile", async () => {
    const { exitCode, seen } = await follow(["down", "down", { request: request("refused") }]);
    expect(exitCode).toBe(14);
    expect(seen.map((sight) => sight.trouble)).toEqual(["no answer", "no answer", undefined]);
  });

  it("ends when the time is over, neither before nor long after", async () => {
    const { exitCode, clock } = await follow([{ request: request("waiting") }], 90_000);
    expect(exitCode).toBe(16);
    expect(clock.now() - Date.UTC(2030, 0, 1)).toBe(90_000);
    expect((await follow(["down"], 90_000)).exitCode).toBe(5);
  });
});
