import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ApiError } from "./api-status.ts";
import { decodeProtobuf } from "./protobuf-body.ts";

/** A length-delimited field, as a client writes it. */
function field(number: number, content: Buffer | string): Buffer {
  const bytes = Buffer.from(content);
  const varint = (value: number): number[] =>
    value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
  return Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
}

const entry = (key: string, value: string): Buffer => Buffer.concat([field(1, key), field(2, value)]);
const envelope = (apiVersion: string, kind: string, ...raw: Buffer[]): Buffer =>
  Buffer.concat([
    Buffer.from("k8s\0"),
    field(1, Buffer.concat([field(1, apiVersion), field(2, kind)])),
    field(2, Buffer.concat(raw)),
  ]);

describe("decodeProtobuf", () => {
  it("reads a Secret, bytes as base64", () => {
    const metadata = Buffer.concat([field(1, "key"), field(11, entry("a", "b")), field(11, entry("c", "d"))]);
    const body = envelope(
      "v1",
      "Secret",
      field(1, metadata),
      field(2, entry("token", "x")),
      field(3, "Opaque"),
    );
    expect(decodeProtobuf(body)).toEqual({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "key", labels: { a: "b", c: "d" } },
      data: { token: "eA==" },
      type: "Opaque",
    });
  });

  it("reads values longer than one length byte can say", () => {
    const body = envelope("v1", "ConfigMap", field(2, entry("a", "x".repeat(70_000))));
    expect(decodeProtobuf(body)).toMatchObject({ data: { a: "x".repeat(70_000) } });
  });

  it("answers 415 to a kind that it does not know, and 400 to anything else", () => {
    expect(() => decodeProtobuf(envelope("apps/v1", "Deployment"))).toThrow(/unknown format/);
    expect(() => decodeProtobuf(Buffer.from("{}"))).toThrow(/no Kubernetes protobuf/);
    const cut = envelope("v1", "Secret", field(1, field(1, "key"))).subarray(0, -2);
    expect(() => decodeProtobuf(cut)).toThrow(/no valid protobuf/);
  });

  it("refuses noise without breaking", () => {
    fc.assert(
      fc.property(fc.uint8Array(), (noise) => {
        try {
          decodeProtobuf(Buffer.concat([Buffer.from("k8s\0"), noise]));
        } catch (error) {
          expect(error).toBeInstanceOf(ApiError);
        }
      }),
    );
  });
});
