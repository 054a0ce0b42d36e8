const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Go's duration text (`90s`, `1m30s`, `500ms`) in milliseconds. @throws Error in Go's words. */
export function parseDuration(text: string): number {
  if (text === "0") return 0;
  if (!/^[+-]?(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+$/.test(text)) {
    throw new Error(`time: invalid duration ${JSON.stringify(text)}`);
  }
  let sum = 0;
  for (const [, number = "0", unit = "s"] of text.matchAll(/(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)/g)) {
    sum += Number(number) * (UNITS[unit] ?? 0);
  }
  return text.startsWith("-") ? -sum : sum;
}
