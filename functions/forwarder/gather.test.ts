import { describe, expect, it } from "vitest";
import { gather } from "./gather.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("gathering from a source", () => {
  it("hands over what came while the consumer was busy as one batch, in order", async () => {
    async function* source() {
      for (let n = 0; n < 6; n += 1) yield [n];
    }
    const batches: number[][] = [];
    for await (const batch of gather(source(), 100)) {
      batches.push(batch);
      await turn();
    }
    expect(batches.flat()).toEqual([0, 1, 2, 3, 4, 5]);
    expect(batches.length).toBeLessThan(6);
  });

  it("stops reading at the limit until the consumer is back", async () => {
    let read = 0;
    async function* source() {
      for (; read < 1_000; read += 1) yield [read];
    }
    const batches = gather(source(), 10);
    await batches.next();
    await turn();
    expect(read).toBeLessThanOrEqual(12);
    await batches.return(undefined);
  });

  it("hands over everything that came before a failure, then the failure", async () => {
    async function* source() {
      yield [1, 2];
      yield [3];
      throw new Error("reset");
    }
    const seen: number[] = [];
    const all = async () => {
      for await (const batch of gather(source(), 1)) seen.push(...batch);
    };
    await expect(all()).rejects.toThrow("reset");
    expect(seen).toEqual([1, 2, 3]);
  });

  it("lets go of its source when the consumer stops", async () => {
    let closed = false;
    async function* source() {
      try {
        for (;;) yield [0];
      } finally {
        closed = true;
      }
    }
    for await (const _ of gather(source(), 1)) break;
    expect(closed).toBe(true);
  });
});
