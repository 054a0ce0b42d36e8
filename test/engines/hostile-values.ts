import fc from "fast-check";

/**
 * Input as an enemy or a broken program would make it. Every run tries the same inputs, so that what fails here fails
 * again; `TALLYMAN_FUZZ_SEED` and `TALLYMAN_FUZZ_RUNS` try others. A failure prints its seed and the input.
 */
const SEED = Number(process.env.TALLYMAN_FUZZ_SEED ?? 20_300_101);
const RUNS = Number(process.env.TALLYMAN_FUZZ_RUNS ?? 10_000);
// To shrink an input that is megabytes large takes longer than to read it.
const PARAMETERS = { seed: SEED, numRuns: RUNS, endOnFailure: true };

export function fuzz<T>(input: fc.Arbitrary<T>, check: (input: T) => void): void {
  fc.assert(fc.property(input, check), PARAMETERS);
}

/** Half characters, which no well-formed text has. */
const loneSurrogates = fc
  .array(fc.integer({ min: 0xd7f0, max: 0xe010 }), { minLength: 1, maxLength: 8 })
  .map((units) => String.fromCharCode(...units));

/** Bytes that are no UTF-8, as a decoder that does not throw makes text of them. */
const invalidUtf8 = fc
  .uint8Array({ minLength: 1, maxLength: 40 })
  .map((bytes) => Buffer.from(bytes).toString("utf8"));

const oversize = fc
  .tuple(fc.constantFrom("x", "é", "🚢", '"', "\u0000"), fc.constantFrom(64, 257, 1_100, 5_000, 70_000))
  .map(([letter, length]) => letter.repeat(length));

/** Words that mean something to JavaScript, to a shell, to a path or to us. */
const loaded = fc.constantFrom(
  ...["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "then", "valueOf", "length"],
  ...[
    "../../secrets",
    "a/b",
    "%2e%2e%2f",
    "\u0000",
    "\r\nX-Evil: 1",
    "$(env)",
    "{{args.x}}",
    "\u202e",
    "NaN",
  ],
  ...["0", "-1", "1e400", "9".repeat(400), "null", "true", "[object Object]", "Successful", "Aborted", ""],
);

export const hostileText: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: loaded },
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 30 }) },
  { weight: 1, arbitrary: loneSurrogates },
  { weight: 1, arbitrary: invalidUtf8 },
  { weight: 1, arbitrary: oversize },
);

const hostileNumber = fc.constantFrom(
  ...[0, -0, -1, 0.1, 1e308, -1e308, 5e-324, 2 ** 31, 2 ** 53, 2 ** 64],
  // As `JSON.parse` reads 1e400.
  Number.POSITIVE_INFINITY,
);

/** As `JSON.parse` makes it: the key is a property like any other, until somebody merges it. */
const polluting = fc
  .constantFrom(
    '{"__proto__":{"polluted":true}}',
    '{"constructor":{"prototype":{"polluted":true}}}',
    '{"__proto__":null}',
    '{"toString":1,"valueOf":2,"hasOwnProperty":3,"then":4}',
  )
  .map((text) => JSON.parse(text) as unknown);

const deep = fc.tuple(fc.constantFrom("[", '{"a":'), fc.constantFrom(50, 3_000)).map(([open, depth]) => {
  const close = open === "[" ? "]" : "}";
  return JSON.parse(`${open.repeat(depth)}1${close.repeat(depth)}`) as unknown;
});

/** Made anew each time: a later step may spoil what an earlier one put in. */
const small = fc
  .constantFrom("null", "true", "false", "[]", "{}", "[null]", "[[]]", "[{}]")
  .map((text) => JSON.parse(text) as unknown);

/** Any JSON value that was made to do harm. */
export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 6, arbitrary: hostileText },
  { weight: 3, arbitrary: hostileNumber },
  { weight: 2, arbitrary: small },
  { weight: 2, arbitrary: polluting },
  { weight: 1, arbitrary: deep },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
);

interface Step {
  readonly at: number;
  readonly how: "replace" | "remove" | "add" | "repeat";
  readonly key: string;
  readonly value: unknown;
}

const step: fc.Arbitrary<Step> = fc.record({
  at: fc.nat(),
  how: fc.constantFrom("replace", "replace", "replace", "remove", "add", "repeat"),
  key: hostileText,
  value: hostileValue,
});

type Container = Record<string, unknown> | unknown[];

/** A valid document, spoilt in up to four places: most of it is right, so that it comes far. */
export function spoil<T>(document: T): fc.Arbitrary<unknown> {
  return fc.array(step, { maxLength: 4 }).map((steps) => {
    const root = { document: structuredClone(document) as unknown };
    for (const each of steps) spoilOnce(root, each);
    return root.document;
  });
}

function spoilOnce(root: Container, { at, how, key, value }: Step): void {
  const places = listPlaces(root);
  const place = places[at % places.length];
  if (place === undefined) return;
  const { container, name } = place;
  if (Array.isArray(container)) {
    const index = Number(name);
    if (how === "remove") container.splice(index, 1);
    else if (how === "repeat") container.push(...Array.from({ length: 300 }, () => container[index]));
    else container[index] = value;
    return;
  }
  if (how === "remove") delete container[name];
  else if (how === "add") define(container, key, value);
  else define(container, name, how === "repeat" ? [container[name], container[name]] : value);
}

/** Never by assignment, which would set the prototype. */
function define(container: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(container, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Every property and entry of a document, in its upper layers: what lies deeper is hostile already. */
function listPlaces(root: Container): { container: Container; name: string }[] {
  const places: { container: Container; name: string }[] = [];
  let layer: Container[] = [root];
  for (let depth = 0; depth < 12 && layer.length > 0; depth++) {
    const next: Container[] = [];
    for (const container of layer) {
      for (const [name, value] of Object.entries(container).slice(0, 60)) {
        places.push({ container, name });
        if (typeof value === "object" && value !== null) next.push(value as Container);
      }
    }
    layer = next;
  }
  return places;
}
