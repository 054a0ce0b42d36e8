/** Gives a bearer token; `refresh` is true after the API server refused the last one. */
export type TokenSource = (refresh: boolean) => Promise<string>;

/**
 * Keeps a token for `maxAgeMs` milliseconds. Callers that come together wait for one load; a load that fails is not
 * kept, and a refused token is loaded anew however young it is.
 */
export function cacheToken(
  load: () => Promise<string>,
  maxAgeMs: number,
  now: () => number = Date.now,
): TokenSource {
  let cached: { readonly token: Promise<string>; readonly loadedAt: number; settled: boolean } | undefined;
  return (refresh) => {
    // A load under way is as fresh as can be.
    const usable =
      cached !== undefined && (!cached.settled || (!refresh && now() - cached.loadedAt < maxAgeMs));
    if (cached !== undefined && usable) return cached.token;
    const entry = { token: load(), loadedAt: now(), settled: false };
    cached = entry;
    entry.token.then(
      () => {
        entry.settled = true;
      },
      () => {
        if (cached === entry) cached = undefined;
      },
    );
    return entry.token;
  };
}
