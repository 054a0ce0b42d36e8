import { createHash, createHmac } from "node:crypto";
import { SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { describe, expect, it } from "vitest";
import { createEksToken } from "./eks-token.ts";

const SECRET = "made-up-secret/with+signs";
const sha256 = new SecretsManagerClient({ region: "eu-central-1" }).config.sha256;
const make = (over: Partial<Parameters<typeof createEksToken>[0]> = {}) =>
  createEksToken({
    cluster: "harbour",
    region: "eu-central-1",
    credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey: SECRET, sessionToken: "session/+=" },
    sha256,
    now: () => new Date("2030-01-02T03:04:05Z"),
    ...over,
  });
const read = (token: string) =>
  new URL(Buffer.from(token.slice("k8s-aws-v1.".length), "base64url").toString());

/** What STS computes for the request that EKS makes of the URL: signature version 4, by the book. */
function sign(url: URL, cluster: string): string {
  const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest();
  const hash = (text: string) => createHash("sha256").update(text).digest("hex");
  const query = url.search
    .slice(1)
    .split("&")
    .filter((part) => !part.startsWith("X-Amz-Signature="))
    .sort()
    .join("&");
  const canonical = [
    "GET",
    "/",
    query,
    `host:${url.host}`,
    `x-k8s-aws-id:${cluster}`,
    "",
    "host;x-k8s-aws-id",
  ];
  const scope = "20300102/eu-central-1/sts/aws4_request";
  const text = ["AWS4-HMAC-SHA256", "20300102T030405Z", scope, hash([...canonical, hash("")].join("\n"))];
  const key = ["20300102", "eu-central-1", "sts", "aws4_request"].reduce<string | Buffer>(
    hmac,
    `AWS4${SECRET}`,
  );
  return hmac(key, text.join("\n")).toString("hex");
}

describe("a token for EKS", () => {
  it("is a presigned GetCallerIdentity whose signature STS finds right for this cluster, and for no other", async () => {
    const token = await make();
    expect(token).toMatch(/^k8s-aws-v1\.[\w-]+$/);
    const url = read(token);
    expect(url.origin).toBe("https://sts.eu-central-1.amazonaws.com");
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      Action: "GetCallerIdentity",
      "X-Amz-Expires": "60",
      "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
      "X-Amz-Security-Token": "session/+=",
    });
    expect(url.searchParams.get("X-Amz-Signature")).toBe(sign(url, "harbour"));
    expect(url.searchParams.get("X-Amz-Signature")).not.toBe(sign(url, "outpost"));
  });

  it("asks the STS of the cluster's partition", async () => {
    expect(read(await make({ region: "cn-north-1" })).host).toBe("sts.cn-north-1.amazonaws.com.cn");
  });

  it("holds no secret", async () => {
    expect(read(await make()).href).not.toContain("made-up-secret");
  });
});
