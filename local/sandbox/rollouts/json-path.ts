import { isRecord } from "../objects.ts";

/**
 * The first value at a path such as `{$.data.rate}`, `{$.items[0]['name']}` or `{$}`.
 *
 * @throws Error when the path is written otherwise or leads nowhere.
 */
export function findValue(path: string, root: unknown): unknown {
  const inner = /^\{\s*\$?(.*?)\s*\}$/s.exec(path.trim())?.[1];
  if (inner === undefined) throw new Error(`unrecognized JSONPath ${JSON.stringify(path)}`);
  let value = root;
  let rest = inner;
  while (rest !== "" && rest !== ".") {
    const step = /^(?:\.([^.[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\])/.exec(rest);
    if (step === null) throw new Error(`unrecognized JSONPath ${JSON.stringify(path)}`);
    rest = rest.slice(step[0].length);
    const name = step[1] ?? step[3] ?? step[4];
    if (name === undefined) {
      value = Array.isArray(value) ? value[Number(step[2])] : undefined;
    } else {
      value = isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;
    }
    if (value === undefined)
      throw new Error(`Could not find JSONPath in body: ${name ?? step[2]} is not found`);
  }
  return value;
}
