import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const DOCS = import.meta.dirname;
const ROOT = join(DOCS, "..");

interface Claim {
  readonly document: string;
  readonly title: string;
  readonly file: string;
}

/** Rows of the tables that name a test by its title and the file it is in: `… | the test's title | in |`. */
function readClaims(document: string): Claim[] {
  const claims: Claim[] = [];
  let isTable = false;
  for (const line of readFileSync(join(DOCS, document), "utf8").split("\n")) {
    const cells = line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
    const [title, file] = cells.slice(-2);
    if (title === undefined || file === undefined) isTable = false;
    else if (title === "the test's title") isTable = true;
    else if (isTable && !/^-+$/.test(title)) claims.push({ document, title, file: file.replaceAll("`", "") });
  }
  return claims;
}

/** The texts of a test file that could be titles, whatever quotes they stand in. */
function readTexts(file: string): Set<string> {
  const source = readFileSync(join(ROOT, file), "utf8");
  const texts = source.matchAll(/"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g);
  return new Set([...texts].map(([, double, back]) => (double ?? back ?? "").replaceAll('\\"', '"')));
}

const documents = readdirSync(DOCS).filter((name) => name.endsWith(".md"));
const claims = documents.flatMap(readClaims);

describe("the documents name tests", () => {
  it("in tables that are read", () => {
    expect(claims.length).toBeGreaterThan(70);
  });

  it.each([...new Set(claims.map(({ file }) => file))])("that are in %s by their titles", (file) => {
    const texts = readTexts(file);
    const missing = claims.filter((claim) => claim.file === file && !texts.has(claim.title));
    expect(missing.map(({ document, title }) => `${document}: ${title}`)).toEqual([]);
  });
});
