const UNIT_SECONDS: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1 };
const WHOLE = /^(\d{1,9}(\.\d{1,3})?(h|m|s))+$/;
const PART = /(\d+(?:\.\d+)?)(h|m|s)/g;

/** Seconds of a duration as Kubernetes users write it: `30m`, `1h30m`, `90s`; `0` is none. Undefined for other text. */
export function parseDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (!WHOLE.test(text)) return undefined;
  let seconds = 0;
  for (const [, amount = "0", unit = "s"] of text.matchAll(PART)) {
    seconds += Number(amount) * (UNIT_SECONDS[unit] ?? 0);
  }
  return seconds;
}

/** `1h30m` for 5400 seconds. */
export function formatDuration(seconds: number): string {
  const parts = [
    [Math.floor(seconds / 3600), "h"],
    [Math.floor((seconds % 3600) / 60), "m"],
    [Math.round((seconds % 60) * 1000) / 1000, "s"],
  ] as const;
  const text = parts.flatMap(([amount, unit]) => (amount === 0 ? [] : [`${amount}${unit}`])).join("");
  return text === "" ? "0s" : text;
}
