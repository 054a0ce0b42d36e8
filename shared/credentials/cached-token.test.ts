import { describe, expect, it } from "vitest";
import { cacheToken } from "./cached-token.ts";

function counting(maxAgeMs = 60_000) {
  let now = 0;
  let loads = 0;
  const source = cacheToken(
    async () => `token-${++loads}`,
    maxAgeMs,
    () => now,
  );
  return {
    source,
    advance: (ms: number) => {
      now += ms;
    },
    loads: () => loads,
  };
}

describe("a cached token", () => {
  it("is loaded once while it is young", async () => {
    const { source, advance } = counting();
    expect(await source(false)).toBe("token-1");
    advance(59_999);
    expect(await source(false)).toBe("token-1");
    advance(1);
    expect(await source(false)).toBe("token-2");
  });

  it("is loaded anew when it was refused, however young", async () => {
    const { source } = counting();
    await source(false);
    expect(await source(true)).toBe("token-2");
  });

  it("is loaded once for callers that come together, refused ones too", async () => {
    const { source, loads } = counting();
    await Promise.all([source(false), source(false), source(true)]);
    expect(loads()).toBe(1);
  });

  it("does not keep a load that failed", async () => {
    let fail = true;
    const source = cacheToken(async () => {
      if (fail) throw new Error("away");
      return "token";
    }, 60_000);
    await expect(source(false)).rejects.toThrow("away");
    fail = false;
    expect(await source(false)).toBe("token");
  });
});
