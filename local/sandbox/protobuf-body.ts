import { badRequest, unsupportedMediaType } from "./api-status.ts";

/** What kubectl's typed commands (`create secret`, `auth can-i`, …) send; their answers may be JSON. */
export const PROTOBUF = "application/vnd.kubernetes.protobuf";

type Field =
  | { readonly name: string; readonly type: "string" | "bytes" | "bool" }
  | { readonly name: string; readonly type: "strings" | "map" | "bytesMap" }
  | { readonly name: string; readonly type: "message" | "messages"; readonly of: Message };

/** A message's fields by number: only those that a client sets on the kinds below. */
type Message = Readonly<Record<number, Field>>;

const OWNER: Message = {
  1: { name: "kind", type: "string" },
  3: { name: "name", type: "string" },
  4: { name: "uid", type: "string" },
  5: { name: "apiVersion", type: "string" },
  6: { name: "controller", type: "bool" },
  7: { name: "blockOwnerDeletion", type: "bool" },
};

const METADATA: Field = {
  name: "metadata",
  type: "message",
  of: {
    1: { name: "name", type: "string" },
    2: { name: "generateName", type: "string" },
    3: { name: "namespace", type: "string" },
    11: { name: "labels", type: "map" },
    12: { name: "annotations", type: "map" },
    13: { name: "ownerReferences", type: "messages", of: OWNER },
    14: { name: "finalizers", type: "strings" },
  },
};

const KINDS: Readonly<Record<string, Message>> = {
  "v1 Namespace": { 1: METADATA },
  "v1 ConfigMap": {
    1: METADATA,
    2: { name: "data", type: "map" },
    3: { name: "binaryData", type: "bytesMap" },
    4: { name: "immutable", type: "bool" },
  },
  "v1 Secret": {
    1: METADATA,
    2: { name: "data", type: "bytesMap" },
    3: { name: "type", type: "string" },
    4: { name: "stringData", type: "map" },
    5: { name: "immutable", type: "bool" },
  },
  "authorization.k8s.io/v1 SelfSubjectAccessReview": {},
};

const UNKNOWN: Message = {
  1: {
    name: "typeMeta",
    type: "message",
    of: { 1: { name: "apiVersion", type: "string" }, 2: { name: "kind", type: "string" } },
  },
};

/** One field as it lies on the wire: a number, or bytes. */
interface WireField {
  readonly number: number;
  readonly value: number | Buffer;
}

function readWire(buffer: Buffer): readonly WireField[] {
  const fields: WireField[] = [];
  let at = 0;
  const readVarint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = buffer[at++];
      if (byte === undefined || shift > 63) throw badRequest("the body of the request is no valid protobuf");
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < buffer.length) {
    const tag = readVarint();
    const number = Math.floor(tag / 8);
    const type = tag % 8;
    if (type === 0) {
      fields.push({ number, value: readVarint() });
      continue;
    }
    const length = type === 2 ? readVarint() : type === 1 ? 8 : type === 5 ? 4 : Number.NaN;
    if (!(at + length <= buffer.length)) throw badRequest("the body of the request is no valid protobuf");
    fields.push({ number, value: buffer.subarray(at, at + length) });
    at += length;
  }
  return fields;
}

function decodeMessage(message: Message, buffer: Buffer): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const { number, value } of readWire(buffer)) {
    const field = message[number];
    if (field === undefined) continue;
    const bytes = typeof value === "number" ? Buffer.alloc(0) : value;
    const list = Array.isArray(result[field.name]) ? (result[field.name] as unknown[]) : [];
    switch (field.type) {
      case "bool":
        result[field.name] = value === 1;
        break;
      case "string":
        result[field.name] = bytes.toString("utf8");
        break;
      case "bytes":
        result[field.name] = bytes.toString("base64");
        break;
      case "strings":
        result[field.name] = [...list, bytes.toString("utf8")];
        break;
      case "message":
        result[field.name] = decodeMessage(field.of, bytes);
        break;
      case "messages":
        result[field.name] = [...list, decodeMessage(field.of, bytes)];
        break;
      case "map":
      case "bytesMap": {
        const type = field.type === "map" ? "string" : "bytes";
        const entry = decodeMessage(
          { 1: { name: "key", type: "string" }, 2: { name: "value", type } },
          bytes,
        );
        const { key = "", value: text = "" } = entry;
        result[field.name] = { ...(result[field.name] as object), [String(key)]: text };
        break;
      }
    }
  }
  return result;
}

/** Decodes a Kubernetes protobuf body into the object's JSON form. @throws ApiError 400, 415 for other kinds. */
export function decodeProtobuf(body: Buffer): Record<string, unknown> {
  if (body.subarray(0, 4).toString("latin1") !== "k8s\0") {
    throw badRequest("the body of the request is no Kubernetes protobuf");
  }
  const envelope = body.subarray(4);
  const { typeMeta } = decodeMessage(UNKNOWN, envelope);
  const { apiVersion, kind } = (typeMeta ?? {}) as { apiVersion?: string; kind?: string };
  const message = KINDS[`${apiVersion} ${kind}`];
  if (message === undefined) throw unsupportedMediaType(PROTOBUF, ["application/json"]);
  const raw = readWire(envelope).find(({ number }) => number === 2)?.value;
  const object = decodeMessage(message, Buffer.isBuffer(raw) ? raw : Buffer.alloc(0));
  return { ...object, apiVersion, kind };
}
