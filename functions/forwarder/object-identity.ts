/** What is known of an object that could not be projected; enough to find it with kubectl. */
export interface ObjectIdentity {
  readonly namespace?: string;
  readonly name?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
}

/** Reads an identity from anything; fields that are missing or of another type are left out. */
export function identityOf(object: unknown): ObjectIdentity {
  const metadata = (object as { metadata?: Record<string, unknown> } | null | undefined)?.metadata ?? {};
  const identity: Record<string, string> = {};
  for (const field of ["namespace", "name", "uid", "resourceVersion"]) {
    const value = metadata[field];
    if (typeof value === "string" && value !== "") identity[field] = value;
  }
  return identity;
}
