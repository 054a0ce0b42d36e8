import { Absent, formatJson, formatVersion, Structure, type Value, Version } from "./expression-values.ts";
import { findChart, findCommit, findImage, type Holdings, type Refuse } from "./held-artifacts.ts";
import { diffVersions, incrementVersion, parseVersion } from "./semantic-version.ts";

/** Longest text, in characters; texts that double each other would else grow without end. */
export const MAX_RESULT = 65_536;

type Call = (args: readonly Value[], holdings: Holdings | undefined, refuse: Refuse) => Value;

/** White space as Go has it. */
const EDGES =
  /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+|[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/g;

/** Kargo's functions, and those of expr-lang that take no more than a line. */
const FUNCTIONS: ReadonlyMap<string, Call> = new Map<string, Call>([
  // A text in quote() gets its quotes from the escaping itself; everything else is JSON within quotes.
  ["quote", one((value) => (typeof value === "string" ? JSON.stringify(value) : `"${formatJson(value)}"`))],
  ["unsafeQuote", one((value) => `"${formatJson(value)}"`)],
  ["asJSON", one((value) => `"${formatJson(value, "  ")}\n"`)],
  [
    "warehouse",
    texts(1, 1, ([name = ""], refuse) => {
      if (name === "") throw refuse("warehouse() needs a name");
      return new Structure("FreightOrigin", { Kind: "Warehouse", Name: name });
    }),
  ],
  [
    "imageFrom",
    (args, holdings, refuse) => {
      const { names, origin } = readSearch("imageFrom", args, 1, refuse);
      return findImage(needHoldings(holdings, refuse), names[0] ?? "", origin, refuse);
    },
  ],
  [
    "commitFrom",
    (args, holdings, refuse) => {
      const { names, origin } = readSearch("commitFrom", args, 1, refuse);
      return findCommit(needHoldings(holdings, refuse), names[0] ?? "", origin, refuse);
    },
  ],
  [
    "chartFrom",
    (args, holdings, refuse) => {
      const { names, origin } = readSearch("chartFrom", args, 2, refuse);
      return findChart(needHoldings(holdings, refuse), names[0] ?? "", names[1] ?? "", origin, refuse);
    },
  ],
  ["semverDiff", texts(2, 2, ([a = "", b = ""]) => diffVersions(a, b))],
  [
    "semverParse",
    texts(1, 1, ([text = ""], refuse) => {
      const version = parseVersion(text);
      if (version === undefined) throw refuse(`${JSON.stringify(text)} is no semantic version`);
      return version;
    }),
  ],
  // Beyond ASCII, the two languages have different ideas of upper and lower case.
  ["upper", texts(1, 1, ([text = ""], refuse) => needAscii(text, refuse).toUpperCase())],
  ["lower", texts(1, 1, ([text = ""], refuse) => needAscii(text, refuse).toLowerCase())],
  ["trim", texts(1, 1, ([text = ""]) => text.replace(EDGES, ""))],
  [
    "trimPrefix",
    texts(2, 2, ([text = "", head = ""]) => (text.startsWith(head) ? text.slice(head.length) : text)),
  ],
  [
    "trimSuffix",
    texts(2, 2, ([text = "", tail = ""]) =>
      text.endsWith(tail) ? text.slice(0, text.length - tail.length) : text,
    ),
  ],
  ["hasPrefix", texts(2, 2, ([text = "", head = ""]) => text.startsWith(head))],
  ["hasSuffix", texts(2, 2, ([text = "", tail = ""]) => text.endsWith(tail))],
  [
    "replace",
    texts(3, 3, ([text = "", old = "", by = ""], refuse) => {
      if (old === "") throw refuse("replace() needs something to replace");
      return joinTexts(text.split(old), by, refuse);
    }),
  ],
  [
    "split",
    texts(2, 2, ([text = "", by = ""], refuse) => {
      if (by === "") throw refuse("split() needs a separator");
      return text.split(by);
    }),
  ],
  [
    "join",
    (args, _holdings, refuse) => {
      const [list, by = ""] = args;
      if (args.length > 2 || !Array.isArray(list) || typeof by !== "string" || !list.every(isText)) {
        throw refuse("join() takes a list of texts and a separator");
      }
      return joinTexts(list, by, refuse);
    },
  ],
  [
    "len",
    one((value, refuse) => {
      if (typeof value === "string") return [...value].length;
      if (Array.isArray(value)) return value.length;
      throw refuse("len() takes a text or a list");
    }),
  ],
  [
    "string",
    one((value, refuse) => {
      // From a million on, Go writes `1e+06` for what was a fraction on its way, and `1000000` for what was none.
      const isPlain = Number.isInteger(value) && Math.abs(value as number) < 1_000_000;
      if (typeof value === "string" || typeof value === "boolean" || isPlain) return String(value);
      throw refuse("string() takes a text, a boolean or a whole number below a million; there is quote()");
    }),
  ],
]);

const CLUSTER = "Tallyman does not read";
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["configMap", `${CLUSTER} ConfigMaps`],
  ["sharedConfigMap", `${CLUSTER} ConfigMaps`],
  ["secret", `${CLUSTER} Secrets; let the AnalysisTemplate take it with valueFrom`],
  ["sharedSecret", `${CLUSTER} Secrets; let the AnalysisTemplate take it with valueFrom`],
  ["freightMetadata", `${CLUSTER} the metadata of Freight`],
  ["freightStatus", `${CLUSTER} the status of Freight`],
  ["stageMetadata", `${CLUSTER} the metadata of Stages`],
  ["artifactFrom", `${CLUSTER} artifacts other than commits, images and charts`],
  ["asYAML", "Tallyman writes no YAML; there is asJSON()"],
]);

/** Calls a function by its name. */
export function callFunction(
  name: string,
  args: readonly Value[],
  holdings: Holdings | undefined,
  refuse: Refuse,
): Value {
  const refusal = REFUSED.get(name);
  if (refusal !== undefined) throw refuse(`the function ${name} is not supported: ${refusal}`);
  const call = FUNCTIONS.get(name);
  if (call === undefined) {
    throw refuse(`the function ${name} is not supported; there are ${[...FUNCTIONS.keys()].join(", ")}`);
  }
  return call(args, holdings, (why) => refuse(why.startsWith("takes ") ? `${name}() ${why}` : why));
}

/** Calls a method; only versions have any. */
export function callMethod(value: Value, name: string, args: readonly Value[], refuse: Refuse): Value {
  if (value instanceof Version && args.length === 0) {
    const { major, minor, patch, prerelease, metadata, original } = value.parts;
    switch (name) {
      case "Major":
        return major;
      case "Minor":
        return minor;
      case "Patch":
        return patch;
      case "Prerelease":
        return prerelease;
      case "Metadata":
        return metadata;
      case "Original":
        if (original === undefined) break;
        return original;
      case "String":
        return formatVersion(value.parts);
      case "IncMajor":
        return incrementVersion(value, "major");
      case "IncMinor":
        return incrementVersion(value, "minor");
      case "IncPatch":
        return incrementVersion(value, "patch");
    }
  }
  throw refuse(`the method ${name} is not supported`);
}

function one(apply: (value: Value, refuse: Refuse) => Value): Call {
  return (args, _holdings, refuse) => {
    const [value] = args;
    if (value === undefined || args.length !== 1) throw refuse("takes one argument");
    return apply(value, refuse);
  };
}

function texts(min: number, max: number, apply: (args: readonly string[], refuse: Refuse) => Value): Call {
  return (args, _holdings, refuse) => {
    if (args.length >= min && args.length <= max && args.every(isText)) return apply(args, refuse);
    for (const value of args) if (value instanceof Absent) throw refuse(value.why);
    throw refuse(`takes ${min === 1 ? "one text" : `${min} texts`}`);
  };
}

/** The arguments of the functions that look for artifacts: so many names, and possibly an origin behind them. */
function readSearch(
  name: string,
  args: readonly Value[],
  maxNames: number,
  refuse: Refuse,
): { readonly names: readonly string[]; readonly origin: string | undefined } {
  const last = args.at(-1);
  const origin =
    last instanceof Structure && last.type === "FreightOrigin"
      ? `Warehouse/${String(last.fields.get("Name"))}`
      : undefined;
  const names = origin === undefined ? args : args.slice(0, -1);
  for (const value of names) if (value instanceof Absent) throw refuse(value.why);
  const isEmptyName = names.length === 2 && names[1] === "";
  if (names.length < 1 || names.length > maxNames || !names.every(isText) || isEmptyName) {
    const what = maxNames === 1 ? "a repository" : "a repository, the name of a chart where it needs one";
    throw refuse(`${name}() takes ${what} and, to tell origins apart, warehouse()`);
  }
  return { names, origin };
}

function needHoldings(holdings: Holdings | undefined, refuse: Refuse): Holdings {
  if (holdings === undefined) throw refuse("it is not known what Freight the Stage holds");
  return holdings;
}

/** Asks for the length before making the text. */
function joinTexts(list: readonly string[], by: string, refuse: Refuse): string {
  const length = list.reduce((sum, each) => sum + each.length, by.length * Math.max(0, list.length - 1));
  if (length > MAX_RESULT) throw refuse(`it is longer than ${MAX_RESULT} characters`);
  return list.join(by);
}

function needAscii(text: string, refuse: Refuse): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII starts with them
  if (!/^[\x00-\x7f]*$/.test(text)) throw refuse("letters beyond ASCII are not supported here");
  return text;
}

function isText(value: Value): value is string {
  return typeof value === "string";
}
