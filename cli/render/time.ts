const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `12s ago`, `4m ago`, `3h ago`, `12d ago`; `now` also for what another clock says is yet to come. */
export function formatAge(at: number, now: number): string {
  const passed = now - at;
  if (passed < SECOND) return "now";
  if (passed < MINUTE) return `${Math.floor(passed / SECOND)}s ago`;
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)}m ago`;
  if (passed < 2 * DAY) return `${Math.floor(passed / HOUR)}h ago`;
  return `${Math.floor(passed / DAY)}d ago`;
}

/** `<1s`, `9s`, `1m30s`, `2h5m`, `3d4h`. */
export function formatDuration(ms: number): string {
  if (ms < SECOND) return "<1s";
  const [large, small, largeUnit, smallUnit] =
    ms < MINUTE
      ? [SECOND, SECOND, "s", ""]
      : ms < HOUR
        ? [MINUTE, SECOND, "m", "s"]
        : ms < DAY
          ? [HOUR, MINUTE, "h", "m"]
          : [DAY, HOUR, "d", "h"];
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)}${largeUnit}${rest === 0 || smallUnit === "" ? "" : `${rest}${smallUnit}`}`;
}

/** `2026-03-01 07:04:38Z`. */
export function formatAbsolute(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")}Z`;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR };

/** Milliseconds of `90s`, `10m`, `1h30m`; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  if (!/^(\d+(ms|s|m|h))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, amount, unit = ""] of text.matchAll(/(\d+)(ms|s|m|h)/g))
    sum += Number(amount) * (UNITS[unit] ?? 0);
  return sum > 0 && Number.isSafeInteger(sum) ? sum : undefined;
}
