import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Headers } from "./headers.ts";
import type { ReceiverSettings, SignatureSettings } from "./receiver.ts";

/** How a receiver knows its sender. */
export type Scheme =
  /** An HMAC over the body and perhaps the delivery's id and time. */
  | {
      readonly kind: "hmac";
      readonly header: string;
      readonly algorithm: "sha256" | "sha512";
      readonly encoding: "hex" | "base64";
      readonly prefix: string;
      /** Whether the header may hold several, separated by spaces, of which one has to fit. */
      readonly several: boolean;
      readonly content: string;
      readonly idHeader: string | undefined;
      readonly timestampHeader: string | undefined;
      /** Seconds that a timestamp may lie in the past or in the future. */
      readonly tolerance: number;
      readonly key: "text" | "whsec";
    }
  /** A header that is the secret, behind a prefix. */
  | { readonly kind: "token"; readonly header: string; readonly prefix: string }
  | { readonly kind: "basic" };

/** A request as far as its signature is concerned. */
export interface SignedRequest {
  readonly headers: Headers;
  readonly body: Uint8Array;
}

/** Who sent it is known; `id` is the delivery's, where the signature covers it. */
export interface Authentic {
  readonly id: string | undefined;
}

/** The least that may be a secret, in bytes: a shorter one can be guessed. */
export const MIN_SECRET_BYTES = 16;
/** The longest header that is looked at. */
const MAX_HEADER = 4096;
/** No full stop or colon: an id must not reach into what is signed beside it. */
const ID = /^[\w-]{1,256}$/;
const SECONDS = /^\d{1,12}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const DIGEST_BYTES = { sha256: 32, sha512: 64 } as const;

/** What Standard Webhooks lays down: `v1` signatures in base64, of id, time and body. */
const STANDARD = {
  header: "webhook-signature",
  algorithm: "sha256",
  encoding: "base64",
  prefix: "v1,",
  idHeader: "webhook-id",
  timestampHeader: "webhook-timestamp",
  content: "{id}.{timestamp}.{body}",
} as const;

export function findScheme(settings: ReceiverSettings): Scheme {
  switch (settings.type) {
    case "standard-webhooks":
      return toHmac(STANDARD, settings.toleranceSeconds, { several: true, key: "whsec" });
    case "github":
      return toHmac({ header: "X-Hub-Signature-256", encoding: "hex", prefix: "sha256=" }, 0);
    case "gitlab":
      // GitLab's signing tokens follow Standard Webhooks to the letter.
      return settings.authentication === "signing-token"
        ? toHmac(STANDARD, settings.toleranceSeconds, { several: true, key: "whsec" })
        : { kind: "token", header: "X-Gitlab-Token", prefix: "" };
    case "alertmanager":
      return settings.authentication === "basic"
        ? { kind: "basic" }
        : { kind: "token", header: "Authorization", prefix: "Bearer " };
    case "argocd": {
      const { signature, header } = settings;
      if (signature !== undefined) return toHmac(signature, settings.toleranceSeconds);
      return { kind: "token", header, prefix: header.toLowerCase() === "authorization" ? "Bearer " : "" };
    }
    case "generic":
      return toHmac(settings.signature, settings.toleranceSeconds);
  }
}

function toHmac(
  signature: Partial<SignatureSettings> & Pick<SignatureSettings, "header" | "encoding">,
  tolerance: number,
  more: { readonly several: boolean; readonly key: "text" | "whsec" } = { several: false, key: "text" },
): Scheme {
  const { header, encoding, idHeader, timestampHeader } = signature;
  const { algorithm = "sha256", prefix = "", content = "{body}" } = signature;
  return {
    kind: "hmac",
    header,
    algorithm,
    encoding,
    prefix,
    content,
    tolerance,
    timestampHeader,
    ...more,
    idHeader,
  };
}

/** The key that a secret's text stands for; undefined for a text that cannot be one. */
export function readKey(scheme: Scheme, text: string): Buffer | undefined {
  let key = Buffer.from(text, "utf8");
  if (scheme.kind === "hmac" && scheme.key === "whsec") {
    const base64 = text.replace(/^whsec_/, "");
    if (!BASE64.test(base64)) return undefined;
    key = Buffer.from(base64, "base64");
  }
  if (scheme.kind === "basic" && !text.includes(":")) return undefined;
  return key.length < MIN_SECRET_BYTES ? undefined : key;
}

/**
 * Whether one of the keys made the request's signature. Undefined for a request that is not signed, not with these keys,
 * or too long ago; which of it, nobody is told. Takes the same time wherever a signature differs, and however many keys
 * there are, all of them are tried.
 *
 * @param now milliseconds since the epoch.
 */
export function authenticate(
  scheme: Scheme,
  request: SignedRequest,
  keys: readonly Buffer[],
  now: number,
): Authentic | undefined {
  switch (scheme.kind) {
    case "hmac":
      return verifyHmac(scheme, request, keys, now);
    case "token":
      return compareSecret(readToken(request.headers.get(scheme.header), scheme.prefix), keys);
    case "basic":
      return compareSecret(readBasic(request.headers.get("Authorization")), keys);
  }
}

function verifyHmac(
  scheme: Scheme & { kind: "hmac" },
  { headers, body }: SignedRequest,
  keys: readonly Buffer[],
  now: number,
): Authentic | undefined {
  const id = scheme.idHeader === undefined ? "" : (headers.get(scheme.idHeader) ?? "");
  const timestamp = scheme.timestampHeader === undefined ? "" : (headers.get(scheme.timestampHeader) ?? "");
  const isNamed = scheme.idHeader === undefined || ID.test(id);
  const isFresh =
    scheme.timestampHeader === undefined ||
    (SECONDS.test(timestamp) && Math.abs(now / 1000 - Number(timestamp)) <= scheme.tolerance);
  const candidates = readSignatures(scheme, headers.get(scheme.header) ?? "");
  const start = scheme.content
    .slice(0, -"{body}".length)
    .replace("{id}", () => id)
    .replace("{timestamp}", () => timestamp);
  let fits = false;
  for (const key of keys) {
    const digest = createHmac(scheme.algorithm, key).update(start).update(body).digest();
    for (const candidate of candidates) fits = timingSafeEqual(digest, candidate) || fits;
  }
  if (!fits || !isNamed || !isFresh) return undefined;
  return { id: scheme.idHeader === undefined ? undefined : id };
}

/** The signatures in a header that could be one of this scheme. */
function readSignatures({ algorithm, encoding, prefix, several }: Scheme & { kind: "hmac" }, header: string) {
  if (header.length > MAX_HEADER) return [];
  const texts = several ? header.split(" ") : [header];
  return texts.flatMap((text) => {
    if (!text.startsWith(prefix)) return [];
    const encoded = text.slice(prefix.length);
    // Node's decoders skip what they do not know; then many texts would be one signature.
    if (!(encoding === "hex" ? /^(?:[\da-f]{2})*$/i : BASE64).test(encoded)) return [];
    const signature = Buffer.from(encoded, encoding);
    return signature.length === DIGEST_BYTES[algorithm] ? [signature] : [];
  });
}

function readToken(header: string | undefined, prefix: string): string | undefined {
  // The name of an authentication scheme may be written in any case.
  if (header === undefined || !header.toLowerCase().startsWith(prefix.toLowerCase())) return undefined;
  return header.slice(prefix.length);
}

function readBasic(header: string | undefined): string | undefined {
  const encoded = readToken(header, "Basic ");
  return encoded === undefined || !BASE64.test(encoded)
    ? undefined
    : Buffer.from(encoded, "base64").toString("utf8");
}

/** Digests are compared, which have one length: the time says nothing of the secret's. */
function compareSecret(given: string | undefined, keys: readonly Buffer[]): Authentic | undefined {
  const digest = (value: string | Buffer): Buffer => createHash("sha256").update(value).digest();
  const wanted = digest(given ?? "");
  let fits = false;
  for (const key of keys) fits = timingSafeEqual(wanted, digest(key)) || fits;
  return fits && given !== undefined ? { id: undefined } : undefined;
}
