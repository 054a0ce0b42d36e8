import type { FreightArtifacts, FreightChart, FreightCommit, FreightImage } from "../domain/freight.ts";
import { isPlainObject, readList, readPath, readText } from "./plain-object.ts";

/**
 * Reads what a piece of Freight consists of: from a Freight object, or from the copy of it that a Stage's status
 * holds. Both have the same fields at the top. Entries without a repository are what no expression can ask for.
 */
export function readArtifacts(freight: unknown): FreightArtifacts {
  return {
    commits: readEach<FreightCommit>(freight, "commits", (commit) =>
      readTexts(commit, ["id", "branch", "tag", "message", "author", "committer", "subscriptionName"]),
    ),
    images: readEach<FreightImage>(freight, "images", (image) => {
      const annotations = readAnnotations(image);
      return {
        ...readTexts(image, ["tag", "digest", "subscriptionName"]),
        ...(annotations === undefined ? {} : { annotations }),
      };
    }),
    charts: readEach<FreightChart>(freight, "charts", (chart) =>
      readTexts(chart, ["name", "version", "subscriptionName"]),
    ),
  };
}

function readEach<T extends { readonly repoURL: string }>(
  freight: unknown,
  field: string,
  read: (entry: unknown) => Omit<T, "repoURL">,
): T[] {
  return readList(readPath(freight, field)).flatMap((entry) => {
    const repoURL = readText(readPath(entry, "repoURL"));
    return repoURL === undefined ? [] : [{ repoURL, ...read(entry) } as T];
  });
}

function readTexts<K extends string>(entry: unknown, names: readonly K[]): { [key in K]?: string } {
  const texts: { [key in K]?: string } = {};
  for (const name of names) {
    const value = readText(readPath(entry, name));
    if (value !== undefined) texts[name] = value;
  }
  return texts;
}

function readAnnotations(image: unknown): Record<string, string> | undefined {
  const map = readPath(image, "annotations");
  if (!isPlainObject(map)) return undefined;
  const entries = Object.entries(map).filter(
    // The key `__proto__` would vanish on its way through a message.
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[0] !== "__proto__",
  );
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}
