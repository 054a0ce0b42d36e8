import { Version } from "./expression-values.ts";

/**
 * Semantic versions as the library behind Kargo's functions reads them, which is more tolerant than the standard: a
 * leading `v`, absent minor and patch numbers and leading zeros are fine.
 */
const VERSION =
  /^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$/;

/** Reads a version; `undefined` for what is none. */
export function parseVersion(text: string): Version | undefined {
  const match = VERSION.exec(text);
  if (match === null) return undefined;
  const [, major = "0", minor = "0", patch = "0", prerelease = "", metadata = ""] = match;
  const numbers = [Number(major), Number(minor), Number(patch)] as const;
  // A number that JavaScript cannot hold would come out as another version.
  if (!numbers.every(Number.isSafeInteger)) return undefined;
  // Pre-release numbers are compared, and the standard allows them no leading zero.
  if (prerelease.split(".").some((part) => /^0\d+$/.test(part))) return undefined;
  return new Version({
    major: numbers[0],
    minor: numbers[1],
    patch: numbers[2],
    prerelease,
    metadata,
    original: text,
  });
}

/** The most significant part in which two versions differ. Pre-releases do not count, for Kargo neither. */
export function diffVersions(
  one: string,
  other: string,
): "Major" | "Minor" | "Patch" | "Metadata" | "None" | "Incomparable" {
  const a = parseVersion(one)?.parts;
  const b = parseVersion(other)?.parts;
  if (a === undefined || b === undefined) return "Incomparable";
  if (a.major !== b.major) return "Major";
  if (a.minor !== b.minor) return "Minor";
  if (a.patch !== b.patch) return "Patch";
  return a.metadata === b.metadata ? "None" : "Metadata";
}

/** The next version at a part. The next patch of a pre-release is its release. */
export function incrementVersion({ parts }: Version, part: "major" | "minor" | "patch"): Version {
  const { major, minor, patch, prerelease } = parts;
  const release = { prerelease: "", metadata: "" };
  switch (part) {
    case "major":
      return new Version({ major: major + 1, minor: 0, patch: 0, ...release });
    case "minor":
      return new Version({ major, minor: minor + 1, patch: 0, ...release });
    case "patch":
      return new Version({ major, minor, patch: prerelease === "" ? patch + 1 : patch, ...release });
  }
}
