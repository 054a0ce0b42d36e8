import { SignatureV4 } from "@smithy/signature-v4";

/** Who signs; an AWS SDK client's own `config` has all of it. */
export interface Signer {
  readonly credentials: ConstructorParameters<typeof SignatureV4>[0]["credentials"];
  readonly sha256: ConstructorParameters<typeof SignatureV4>[0]["sha256"];
}

export interface EksTokenOptions extends Signer {
  /** The EKS cluster's name; EKS refuses a token that was signed for another one. */
  readonly cluster: string;
  /** Of the STS endpoint, for example `eu-central-1`. */
  readonly region: string;
  readonly now?: () => Date;
}

/** How long the presigned URL itself may be used, seconds; EKS takes tokens for 15 minutes from their date. */
const URL_SECONDS = 60;
/** After this a token is made anew, milliseconds; well before EKS refuses it. */
export const EKS_TOKEN_AGE_MS = 10 * 60_000;

/**
 * A bearer token for an EKS cluster: the presigned URL of an STS `GetCallerIdentity` call that names the cluster in a
 * signed header. EKS sends the call and learns from STS who we are, so no secret leaves the function. Making it costs
 * no request.
 *
 * Source: the token format of aws-iam-authenticator, `k8s-aws-v1.` and the URL as unpadded base64url.
 */
export async function createEksToken(options: EksTokenOptions): Promise<string> {
  const { cluster, region, credentials, sha256 } = options;
  const signer = new SignatureV4({ service: "sts", region, credentials, sha256, applyChecksum: false });
  const hostname = `sts.${region}.${region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com"}`;
  const { query = {} } = await signer.presign(
    {
      method: "GET",
      protocol: "https:",
      hostname,
      path: "/",
      query: { Action: "GetCallerIdentity", Version: "2011-06-15" },
      headers: { host: hostname, "x-k8s-aws-id": cluster },
    },
    { expiresIn: URL_SECONDS, signingDate: options.now?.() ?? new Date() },
  );
  const search = Object.entries(query)
    .map(([name, value]) => `${percentEncode(name)}=${percentEncode(String(value))}`)
    .join("&");
  return `k8s-aws-v1.${Buffer.from(`https://${hostname}/?${search}`).toString("base64url")}`;
}

/** As the signature was computed: RFC 3986, which `encodeURIComponent` is but for five characters. */
function percentEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
