import type { FieldError } from "./api-status.ts";
import { isRecord, readPath } from "./objects.ts";
import { CONFIG_MAP, EVENT, NAMESPACE, type ResourceKind, SECRET } from "./resources.ts";
import { checkSchema } from "./schema-rules.ts";

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const KEY_NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const MAX_ANNOTATIONS = 262_144;
/** What a ConfigMap or Secret may hold. */
const MAX_DATA = 1_048_576;

/** What is wrong with an object, the kind's required fields included; empty when nothing is. */
export function validate(resource: ResourceKind, object: Readonly<Record<string, unknown>>): FieldError[] {
  const errors: FieldError[] = [];
  const metadata = isRecord(object.metadata) ? object.metadata : {};
  const name = metadata.name;
  const [pattern, limit, what] =
    resource === NAMESPACE ? ([LABEL, 63, "label"] as const) : ([SUBDOMAIN, 253, "subdomain"] as const);
  if (typeof name !== "string" || name === "") {
    errors.push({
      field: "metadata.name",
      reason: "FieldValueRequired",
      message: "Required value: name or generateName is required",
    });
  } else if (name.length > limit || !pattern.test(name)) {
    errors.push({
      field: "metadata.name",
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(name)}: a lowercase RFC 1123 ${what} must consist of lower case alphanumeric characters, '-'${what === "label" ? "" : " or '.'"}, must start and end with an alphanumeric character and be no more than ${limit} characters`,
    });
  }
  errors.push(...validateLabels(metadata.labels), ...validateAnnotations(metadata.annotations));
  errors.push(...validateOwners(metadata.ownerReferences));
  if (resource.custom) errors.push(...checkSchema(resource.kind, object));
  if (resource === EVENT) errors.push(...validateEvent(object, metadata.namespace));
  if (resource === CONFIG_MAP || resource === SECRET) errors.push(...validateSize(resource, object));
  return errors;
}

/** Events about cluster-scoped objects lie in `default`, all others beside what they are about. */
function validateEvent(object: Readonly<Record<string, unknown>>, namespace: unknown): FieldError[] {
  const about = readPath(object, ["involvedObject", "namespace"]) ?? "";
  if (about === namespace || (about === "" && namespace === "default")) return [];
  return [
    {
      field: "involvedObject.namespace",
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(about)}: does not match event.namespace`,
    },
  ];
}

function validateSize(resource: ResourceKind, object: Readonly<Record<string, unknown>>): FieldError[] {
  let size = 0;
  for (const field of ["data", "binaryData"]) {
    for (const value of Object.values(isRecord(object[field]) ? object[field] : {})) {
      const isBase64 = resource === SECRET || field === "binaryData";
      size += Buffer.byteLength(String(value), isBase64 ? "base64" : "utf8");
    }
  }
  if (size <= MAX_DATA) return [];
  const message = `Too long: may not be more than ${MAX_DATA} bytes`;
  return [{ field: resource === SECRET ? "data" : "[]", reason: "FieldValueTooLong", message }];
}

function isQualifiedKey(key: string): boolean {
  const slash = key.indexOf("/");
  const prefix = slash < 0 ? undefined : key.slice(0, slash);
  const name = key.slice(slash + 1);
  return (
    name.length <= 63 &&
    KEY_NAME.test(name) &&
    (prefix === undefined || (prefix.length <= 253 && SUBDOMAIN.test(prefix)))
  );
}

function validateLabels(labels: unknown): FieldError[] {
  if (labels === undefined || labels === null) return [];
  if (!isRecord(labels)) return [wrongType("metadata.labels", "map")];
  return Object.entries(labels).flatMap(([key, value]): FieldError[] => {
    if (!isQualifiedKey(key)) return [invalidKey("metadata.labels", key)];
    if (typeof value !== "string") return [wrongType(`metadata.labels[${key}]`, "string")];
    if (value.length <= 63 && LABEL_VALUE.test(value)) return [];
    return [
      {
        field: "metadata.labels",
        reason: "FieldValueInvalid",
        message: `Invalid value: ${JSON.stringify(value)}: ${
          value.length > 63
            ? "must be no more than 63 characters"
            : "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        }`,
      },
    ];
  });
}

function validateAnnotations(annotations: unknown): FieldError[] {
  if (annotations === undefined || annotations === null) return [];
  if (!isRecord(annotations)) return [wrongType("metadata.annotations", "map")];
  let size = 0;
  const errors: FieldError[] = [];
  for (const [key, value] of Object.entries(annotations)) {
    if (!isQualifiedKey(key)) errors.push(invalidKey("metadata.annotations", key));
    if (typeof value !== "string") errors.push(wrongType(`metadata.annotations[${key}]`, "string"));
    else size += key.length + value.length;
  }
  if (size > MAX_ANNOTATIONS) {
    errors.push({
      field: "metadata.annotations",
      reason: "FieldValueTooLong",
      message: `Too long: may not be more than ${MAX_ANNOTATIONS} bytes`,
    });
  }
  return errors;
}

function validateOwners(owners: unknown): FieldError[] {
  if (owners === undefined || owners === null) return [];
  if (!Array.isArray(owners)) return [wrongType("metadata.ownerReferences", "array")];
  const errors: FieldError[] = [];
  for (const [index, owner] of owners.entries()) {
    for (const field of ["apiVersion", "kind", "name", "uid"]) {
      const value = readPath(owner, [field]);
      if (typeof value === "string" && value !== "") continue;
      errors.push({
        field: `metadata.ownerReferences[${index}].${field}`,
        reason: "FieldValueRequired",
        message: "Required value: must not be empty",
      });
    }
  }
  if (owners.filter((owner) => readPath(owner, ["controller"]) === true).length > 1) {
    errors.push({
      field: "metadata.ownerReferences",
      reason: "FieldValueInvalid",
      message: "Invalid value: Only one reference can have Controller set to true",
    });
  }
  return errors;
}

function wrongType(field: string, type: string): FieldError {
  return { field, reason: "FieldValueTypeInvalid", message: `Invalid value: must be of type ${type}` };
}

function invalidKey(field: string, key: string): FieldError {
  return {
    field,
    reason: "FieldValueInvalid",
    message: `Invalid value: ${JSON.stringify(key)}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character`,
  };
}
