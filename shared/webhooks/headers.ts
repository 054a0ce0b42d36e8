/** A request's headers, whatever the case of their names. */
export interface Headers {
  /** Undefined for one that is missing, empty, or there more than once: then nobody knows which was meant. */
  get(name: string): string | undefined;
}

/** Headers of pairs. API Gateway joins what came twice under one name with a comma; such a value fits no signature. */
export function readHeaders(entries: Iterable<readonly [string, string | undefined]>): Headers {
  const values = new Map<string, string | undefined>();
  for (const [name, value] of entries) {
    const key = name.toLowerCase();
    values.set(key, values.has(key) ? undefined : value);
  }
  return { get: (name) => values.get(name.toLowerCase()) || undefined };
}
