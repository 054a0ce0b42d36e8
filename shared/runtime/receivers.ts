import { readFileSync } from "node:fs";
import * as z from "zod/mini";
import { cacheToken } from "../credentials/cached-token.ts";
import { Fault } from "../domain/fault.ts";
import type { KeySource } from "../webhooks/receive.ts";
import { type ReceiverSettings, receiversSchema, type SecretReference } from "../webhooks/receiver.ts";
import { MIN_SECRET_BYTES, readKey, type Scheme } from "../webhooks/signature.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Names the file with the receivers as a JSON list: they are too long for a function's environment. */
export const RECEIVERS_VARIABLE = "TALLYMAN_RECEIVERS_FILE";

/**
 * Reads the receivers of webhooks; none where no file is named.
 *
 * @throws Fault `Invalid` with one reason for each thing that is wrong.
 */
export function readReceivers(env: Environment): readonly ReceiverSettings[] {
  const file = env[RECEIVERS_VARIABLE];
  if (file === undefined || file === "") return [];
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new Fault("Invalid", `${RECEIVERS_VARIABLE}: ${file} cannot be read as JSON: ${error}`);
  }
  const result = z.safeParse(receiversSchema, parsed);
  if (result.success) return result.data;
  throw new Fault(
    "Invalid",
    result.error.issues.map((issue) => `receivers.${issue.path.join(".")}: ${issue.message}`),
  );
}

/** A secret that was rotated is noticed within this time, or at the first signature that does not fit. */
const MAX_AGE_MS = 5 * 60_000;
/** Anybody can send a bad signature; what that may cost is bounded. */
const REFRESH_MS = 60_000;
/** A secret that cannot be read is not asked for again at once. */
const PAUSE_MS = 10_000;

export interface KeySourceOptions {
  readonly env: Environment;
  /** The text of a secret in Secrets Manager. */
  readonly readSecret: (id: string) => Promise<string>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * A receiver's keys, kept for a while. While one of two secrets cannot be read the other still serves; only where it does
 * not fit must nobody be told that the signature is bad.
 */
export function createKeySource(
  references: readonly SecretReference[],
  scheme: Scheme,
  { env, readSecret, now }: KeySourceOptions,
): KeySource {
  const sources = references.map((reference) =>
    cacheToken(
      pauseAfterFailure(() => loadSecret(reference, env, readSecret), now),
      MAX_AGE_MS,
      now,
    ),
  );
  let refreshedAt = Number.NEGATIVE_INFINITY;
  return async (fresh) => {
    const refresh = fresh && now() - refreshedAt >= REFRESH_MS;
    if (refresh) refreshedAt = now();
    const results = await Promise.allSettled(
      sources.map(async (source, index) => {
        const key = readKey(scheme, await source(refresh));
        if (key !== undefined) return key;
        throw new Fault("Transient", `${nameOf(references[index])}: ${describeKey(scheme)}`);
      }),
    );
    const failed = results.filter((result) => result.status === "rejected");
    const keys = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    if (keys.length === 0 || (fresh && failed.length > 0)) throw failed[0]?.reason;
    return keys;
  };
}

async function loadSecret(
  reference: SecretReference,
  env: Environment,
  readSecret: (id: string) => Promise<string>,
): Promise<string> {
  if (typeof reference === "string") return readSecret(reference);
  if ("literal" in reference) return reference.literal;
  const value = env[reference.env];
  if (value === undefined || value === "") throw new Fault("Transient", `${nameOf(reference)}: is not set`);
  return value;
}

function pauseAfterFailure(load: () => Promise<string>, now: () => number): () => Promise<string> {
  let failure: { readonly error: unknown; readonly at: number } | undefined;
  return async () => {
    if (failure !== undefined && now() - failure.at < PAUSE_MS) throw failure.error;
    try {
      return await load();
    } catch (error) {
      failure = { error, at: now() };
      throw error;
    }
  };
}

/** Never the secret itself. */
function nameOf(reference: SecretReference | undefined): string {
  if (typeof reference === "string") return `secret ${reference}`;
  return reference !== undefined && "env" in reference ? `variable ${reference.env}` : "a literal secret";
}

function describeKey(scheme: Scheme): string {
  if (scheme.kind === "basic") return `must be user:password, of at least ${MIN_SECRET_BYTES} bytes`;
  return scheme.kind === "hmac" && scheme.key === "whsec"
    ? `must be base64 of at least ${MIN_SECRET_BYTES} bytes, behind whsec_`
    : `must have at least ${MIN_SECRET_BYTES} bytes`;
}
