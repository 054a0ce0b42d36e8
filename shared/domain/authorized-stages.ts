/** One entry of an Application's `authorized-stage` annotation. A `*` in either part stands for any characters. */
export interface StagePattern {
  readonly project: string;
  readonly stage: string;
}

/** What an `authorized-stage` annotation says: the entries that can be used, and why the others cannot. */
export interface AuthorizedStages {
  readonly patterns: readonly StagePattern[];
  readonly malformed: readonly string[];
}

/** Characters of an entry that an error repeats. */
const SHOWN = 80;

/**
 * Reads the value of an Application's `kargo.akuity.io/authorized-stage` annotation: `project:stage`, or several of
 * them with commas between. Blanks around parts and empty entries do not matter. Unlike with Kargo, one bad entry does
 * not spoil the others, and a `*` is taken, since we only route events by it and grant nothing.
 */
export function parseAuthorizedStages(value: string): AuthorizedStages {
  const patterns: StagePattern[] = [];
  const malformed: string[] = [];
  for (const text of value.split(",")) {
    const entry = text.trim();
    if (entry === "") continue;
    const colon = entry.indexOf(":");
    const project = entry.slice(0, Math.max(0, colon)).trim();
    const stage = entry.slice(colon + 1).trim();
    if (colon < 0 || project === "" || stage === "") {
      malformed.push(
        `${JSON.stringify(entry.length > SHOWN ? `${entry.slice(0, SHOWN)}…` : entry)} is not of the form project:stage`,
      );
    } else {
      patterns.push({ project, stage });
    }
  }
  if (patterns.length === 0 && malformed.length === 0) malformed.push("no Stage is named");
  return { patterns, malformed };
}

/** True when the pattern names more than one Stage could have. */
export function isGlob({ project, stage }: StagePattern): boolean {
  return project.includes("*") || stage.includes("*");
}

/** The known Stages that patterns name, each once, in the order in which they are known. */
export function matchStages<T extends { readonly project: string; readonly name: string }>(
  patterns: readonly StagePattern[],
  known: Iterable<T>,
): T[] {
  const exact = new Set(
    patterns.filter((pattern) => !isGlob(pattern)).map(({ project, stage }) => `${project}/${stage}`),
  );
  const globs = patterns.filter(isGlob);
  return [...known].filter(
    ({ project, name }) =>
      exact.has(`${project}/${name}`) ||
      globs.some((glob) => matchGlob(glob.project, project) && matchGlob(glob.stage, name)),
  );
}

/** Linear in the text for each part between stars: an annotation is somebody else's input. */
function matchGlob(glob: string, text: string): boolean {
  const [first = "", ...rest] = glob.split("*");
  const last = rest.pop();
  if (last === undefined) return glob === text;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last))
    return false;
  let position = first.length;
  const end = text.length - last.length;
  for (const part of rest) {
    const found = text.indexOf(part, position);
    if (found < 0 || found + part.length > end) return false;
    position = found + part.length;
  }
  return true;
}
