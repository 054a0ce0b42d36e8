/** What an expression works with. Reading a member looks at own properties only, so none reaches a prototype. */

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** A value while it is worked with; it leaves an expression as text. */
export type Value = JsonValue | readonly Value[] | Structure | Version | Absent;

/** Something that Kargo would return as a Go struct: fields by their Go names, JSON by its own. */
export class Structure {
  readonly type: string;
  readonly fields: ReadonlyMap<string, JsonValue>;

  constructor(type: string, fields: Readonly<Record<string, JsonValue>>) {
    this.type = type;
    this.fields = new Map(Object.entries(fields));
  }
}

/**
 * What was asked for and is not there. `??`, `?.` and comparison with `nil` know it as `nil`; anything else is refused
 * with its reason, where Kargo writes `null` into the middle of an argument.
 */
export class Absent {
  readonly why: string;
  /** It comes from `?.`: the rest of the chain is not looked at. */
  readonly skipped: boolean;

  constructor(why: string, skipped = false) {
    this.why = why;
    this.skipped = skipped;
  }
}

/** A semantic version, as `semverParse()` returns it. */
export interface VersionParts {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
  readonly prerelease: string;
  readonly metadata: string;
  /** As it was written; a version that was counted up was not. */
  readonly original?: string | undefined;
}

export class Version {
  readonly parts: VersionParts;

  constructor(parts: VersionParts) {
    this.parts = parts;
  }
}

/** `nil`, or what is not there. */
export function isNil(value: Value): value is null | Absent {
  return value === null || value instanceof Absent;
}

/** True for a map: an object of JSON, and none of the above. */
export function isMap(value: Value): value is { readonly [key: string]: JsonValue } {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Structure) &&
    !(value instanceof Version) &&
    !(value instanceof Absent)
  );
}

/** `1.2.3-rc.1+build`, without the `v` that it may have been written with. */
export function formatVersion({ major, minor, patch, prerelease, metadata }: VersionParts): string {
  return `${major}.${minor}.${patch}${prerelease === "" ? "" : `-${prerelease}`}${metadata === "" ? "" : `+${metadata}`}`;
}

/**
 * JSON as Go writes it: keys of maps sorted, empty fields of structures left out, `<`, `>` and `&` escaped.
 *
 * @throws Absent when there is something in it that is not there.
 */
export function formatJson(value: Value, indent = ""): string {
  const text = JSON.stringify(toPlain(value), undefined, indent);
  return text.replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function toPlain(value: Value): unknown {
  if (value instanceof Absent) throw value;
  if (value instanceof Version) return formatVersion(value.parts);
  if (value instanceof Structure) {
    const entries = [...value.fields].filter(([, field]) => field !== "" && !isEmptyMap(field));
    return Object.fromEntries(entries.map(([name, field]) => [jsonName(name), toPlain(field)]));
  }
  if (Array.isArray(value)) return value.map((each: Value) => toPlain(each));
  if (!isMap(value)) return value;
  const sorted = Object.entries(value).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return Object.fromEntries(sorted.map(([key, each]) => [key, toPlain(each)]));
}

function isEmptyMap(value: JsonValue): boolean {
  return isMap(value) && Object.keys(value).length === 0;
}

/** `RepoURL` is `repoURL` and `ID` is `id`: what every field of Kargo's artifacts follows. */
function jsonName(field: string): string {
  return field === "ID" ? "id" : field.charAt(0).toLowerCase() + field.slice(1);
}
