import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { isFault } from "../domain/fault.ts";
import type { FreightArtifacts } from "../domain/freight.ts";
import type { ExpressionScope } from "./expression-evaluation.ts";
import { evaluateTemplate } from "./expressions.ts";
import { normalizeGitUrl } from "./held-artifacts.ts";

const API = "registry.example.test/shop/api";
const BOTH = "registry.example.test/shop/base";
const GIT = "https://git.example.test/shop/api.git";
const CHARTS = "https://charts.example.test";
const OCI = "oci://registry.example.test/charts/api";

const front: FreightArtifacts = {
  commits: [{ repoURL: GIT, id: "ab123456789abcdef", branch: "main", message: "fix: door", author: "Ada" }],
  images: [
    {
      repoURL: API,
      tag: "v1.4.2",
      digest: "sha256:abc",
      annotations: { "org.example/revision": "r1", constructor: "own" },
    },
    { repoURL: BOTH, tag: "front-1" },
  ],
  charts: [
    { repoURL: CHARTS, name: "api", version: "2.0.1" },
    { repoURL: OCI, version: "3.1.0" },
  ],
};
const back: FreightArtifacts = { commits: [], images: [{ repoURL: BOTH, tag: "back-1" }], charts: [] };

const scope: ExpressionScope = {
  ctx: { project: "shop", stage: "test" },
  vars: new Map([["api", API]]),
  holdings: {
    requestedOrigins: ["Warehouse/front", "Warehouse/back", "Warehouse/absent"],
    freight: [
      { name: "f1", origin: "Warehouse/back", artifacts: back },
      { name: "f2", origin: "Warehouse/front", artifacts: front },
      {
        name: "f3",
        origin: "Warehouse/former",
        artifacts: { ...back, images: [{ repoURL: "former", tag: "x1" }] },
      },
    ],
  },
};

const wrap = (body: string): string => `\${{ ${body} }}`;

function refusalOf(body: string, within: ExpressionScope = scope): string {
  try {
    const value = evaluateTemplate(wrap(body), within, 'argument "a"');
    throw new Error(`it was not refused: ${JSON.stringify(value)}`);
  } catch (error) {
    if (!isFault(error, "Permanent")) throw error;
    expect(error.message).toContain('argument "a"');
    return error.message;
  }
}

describe("an expression reads the Freight that is verified", () => {
  it.each([
    ["an image's tag", `imageFrom("${API}").Tag`, "v1.4.2"],
    ["by a variable", "imageFrom(vars.api).Tag", "v1.4.2"],
    ["an image's digest", `imageFrom("${API}").Digest`, "sha256:abc"],
    ["an image's repository", `imageFrom("${API}").RepoURL`, API],
    ["an annotation", `imageFrom("${API}").Annotations["org.example/revision"]`, "r1"],
    ["an annotation with a name that means something", `imageFrom("${API}").Annotations.constructor`, "own"],
    [
      "an annotation only where it is",
      `"x" in imageFrom("${API}").Annotations ? "has" : "has not"`,
      "has not",
    ],
    ["the image of the Warehouse named", `imageFrom("${BOTH}", warehouse("back")).Tag`, "back-1"],
    ["Freight that is held though no longer requested", 'imageFrom("former", warehouse("former")).Tag', "x1"],
    ["a field that the Freight leaves out is empty", `imageFrom("${BOTH}", warehouse("back")).Digest`, ""],
    ["a commit", `commitFrom("${GIT}").ID[:7]`, "ab12345"],
    [
      "a commit by another way to write its repository",
      'commitFrom("https://ada:pw@Git.example.test/shop/api/").Branch',
      "main",
    ],
    [
      "its author and message",
      `commitFrom("${GIT}").Author + ": " + commitFrom("${GIT}").Message`,
      "Ada: fix: door",
    ],
    ["a chart by name", `chartFrom("${CHARTS}", "api").Version`, "2.0.1"],
    ["a chart by name and Warehouse", `chartFrom("${CHARTS}", "api", warehouse("front")).Version`, "2.0.1"],
    ["a chart of a registry", `chartFrom("${OCI}").Version`, "3.1.0"],
    ["a chart of a registry by Warehouse", `chartFrom("${OCI}", warehouse("front")).Name + "x"`, "x"],
    [
      "a chart that the Warehouse's Freight has not",
      `chartFrom("no", warehouse("front"))?.Version ?? "none"`,
      "none",
    ],
    ["what is not there, with an answer for it", 'imageFrom("no")?.Tag ?? "none"', "none"],
    ["whether it is there", `imageFrom("no") == nil && commitFrom("${GIT}") != nil ? "a" : "b"`, "a"],
    [
      "an image as a whole",
      `quote(imageFrom("${BOTH}", warehouse("back")))`,
      `{"repoURL":"${BOTH}","tag":"back-1"}`,
    ],
    ["an origin", 'warehouse("front").Kind + "/" + warehouse("front").Name', "Warehouse/front"],
    ["a version", `semverParse(imageFrom("${API}").Tag)`, "1.4.2"],
    ["part of a version", `quote(semverParse(imageFrom("${API}").Tag).Minor() + 1)`, "5"],
    ["the next version", 'semverParse("v1.2-rc.1+b").IncMinor().String() + "!"', "1.3.0!"],
    ["the release of a pre-release", 'semverParse("1.2.3-rc.1").IncPatch().String() + "!"', "1.2.3!"],
    ["the next major", 'semverParse("v1.2.3").IncMajor()', "2.0.0"],
    [
      "pre-release and build",
      'semverParse("1-a.1+b").Prerelease() + semverParse("1-a.1+b").Metadata()',
      "a.1b",
    ],
  ])("%s", (_title, body, expected) => {
    expect(evaluateTemplate(wrap(body), scope, "a")).toBe(expected);
  });

  it.each([
    ["2.0.0", "1.9.9", "Major"],
    ["v1.2", "1.3.0", "Minor"],
    ["1.2.3", "1.2.4", "Patch"],
    ["1.2.3+a", "1.2.3+b", "Metadata"],
    ["1.2.3-rc.1", "1.2.3", "None"],
    ["latest", "1.2.3", "Incomparable"],
    ["1.2.3-01", "1.2.3", "Incomparable"],
    ["99999999999999999999.0.0", "1.0.0", "Incomparable"],
  ])("semverDiff of %s and %s is %s", (one, other, expected) => {
    expect(evaluateTemplate(wrap(`semverDiff("${one}", "${other}")`), scope, "a")).toBe(expected);
  });
});

describe("what the Freight does not say is refused with the reason", () => {
  it.each([
    ["an image that is not there", 'imageFrom("no").Tag', "holds no Freight with image no"],
    ["as a whole", 'imageFrom("no")', "holds no Freight with image no"],
    ["in quotes", 'quote(imageFrom("no"))', "holds no Freight with image no"],
    ["as JSON", 'asJSON([imageFrom("no")])', "holds no Freight with image no"],
    ["as a part", '"v" + imageFrom("no")', "holds no Freight with image no"],
    ["through ?. alone", 'imageFrom("no")?.Tag', "holds no Freight with image no"],
    ["as the argument of another function", 'upper(imageFrom("no")?.Tag)', "holds no Freight with image no"],
    ["a commit that is not there", 'commitFrom("no").ID', "commit of no"],
    ["a chart that is not there, even with ??", 'chartFrom("no") ?? "x"', "chart no"],
    [
      "Freight from a Warehouse that the Stage holds none of",
      `imageFrom("${API}", warehouse("absent")).Tag`,
      "from Warehouse/absent",
    ],
    [
      "Freight that is not requested, unless its Warehouse is named",
      'imageFrom("former").Tag',
      "image former",
    ],
    ["an image in two Freight", `imageFrom("${BOTH}").Tag`, "Warehouse/back, Warehouse/front"],
    ["an annotation that is not there", `imageFrom("${API}").Annotations.nope`, "nope is not defined"],
    ["the prototype of annotations", `imageFrom("${API}").Annotations.__proto__`, "__proto__"],
    ["a field by its name in YAML", `imageFrom("${API}").tag`, "it has RepoURL, Tag, Digest"],
    ["the inside of a value of ours", `imageFrom("${API}").fields`, "has no field fields"],
    ["its methods", `imageFrom("${API}").constructor("x")`, "method constructor"],
    ["the methods of a map", `imageFrom("${API}").Annotations.hasOwnProperty("x")`, "method hasOwnProperty"],
    ["the inside of a version", 'semverParse("1.2.3").parts', "not defined"],
    ["a text for a Warehouse", `imageFrom("${API}", "front").Tag`, "warehouse()"],
    ["a Warehouse without a name", 'warehouse("")', "needs a name"],
    ["no repository", "imageFrom()", "takes a repository"],
    ["what is no version", 'semverParse("latest")', "no semantic version"],
    ["a method that versions have not", 'semverParse("1.2.3").toString()', "method toString"],
    ["how a version was written that was counted up", 'semverParse("1.2").IncMajor().Original()', "Original"],
    ["ConfigMaps", 'configMap("c").key', "Tallyman does not read ConfigMaps"],
    ["shared ConfigMaps", 'sharedConfigMap("c").key', "Tallyman does not read ConfigMaps"],
    ["Secrets", 'secret("s").key', "Tallyman does not read Secrets"],
    ["shared Secrets", 'sharedSecret("s").key', "Tallyman does not read Secrets"],
    ["metadata of Freight", 'freightMetadata("f").key', "Tallyman does not read the metadata of Freight"],
    ["status of Freight", 'freightStatus("f").key', "Tallyman does not read the status of Freight"],
    ["metadata of a Stage", 'stageMetadata("s").key', "Tallyman does not read the metadata of Stages"],
    ["other artifacts", 'artifactFrom("a")', "artifactFrom is not supported"],
    ["YAML", "asYAML(1)", "asJSON()"],
    ["what no language has", 'valueOf("x")', "the function valueOf is not supported"],
  ])("%s", (_title, body, part) => {
    expect(refusalOf(body)).toContain(part);
  });

  it("two entries for one image in one Freight are an ambiguity; by Warehouse the first counts", () => {
    const images = [
      { repoURL: API, tag: "one" },
      { repoURL: API, tag: "two" },
    ];
    const freight = [{ name: "f", origin: "Warehouse/w", artifacts: { ...back, images } }];
    const twice = { ...scope, holdings: { requestedOrigins: ["Warehouse/w"], freight } };
    expect(refusalOf(`imageFrom("${API}").Tag`, twice)).toContain("more than one");
    expect(evaluateTemplate(wrap(`imageFrom("${API}", warehouse("w")).Tag`), twice, "a")).toBe("one");
  });

  it("Freight of which nobody said what it consists of", () => {
    const holdings = { requestedOrigins: ["Warehouse/w"], freight: [{ name: "f9", origin: "Warehouse/w" }] };
    expect(refusalOf(`imageFrom("${API}")?.Tag ?? "x"`, { ...scope, holdings })).toContain("f9");
  });
});

it("the example in the documentation comes out", () => {
  const file = join(import.meta.dirname, "../../docs/verification-arguments.md");
  const [, yaml = ""] = /```yaml\n([^`]*)```/.exec(readFileSync(file, "utf8")) ?? [];
  const { spec } = parse(yaml);
  const freight = [
    {
      name: "f1",
      origin: "Warehouse/front",
      artifacts: {
        commits: [{ repoURL: "https://git.example.test/harbour/api.git", id: "1234567890" }],
        images: [
          { repoURL: "registry.example.test/harbour/api", tag: "2.0" },
          { repoURL: "registry.example.test/base", digest: "sha256:d" },
        ],
        charts: [{ repoURL: "https://charts.example.test", name: "api", version: "1.2.3" }],
      },
    },
  ];
  const example: ExpressionScope = {
    ctx: { project: "harbour", stage: "qa" },
    vars: new Map(spec.vars.map(({ name, value }: { name: string; value: string }) => [name, value])),
    holdings: { requestedOrigins: ["Warehouse/front"], freight },
  };
  const args = spec.verification.args.map(({ name, value }: { name: string; value: string }) => [
    name,
    evaluateTemplate(value, example, name),
  ]);
  expect(Object.fromEntries(args)).toEqual({
    tag: "2.0",
    commit: "1234567",
    base: "sha256:d",
    chart: "1.2.3",
    url: "https://qa.example.test/full",
  });
});

it("whatever stands between the delimiters, the value comes out of the Freight or it is refused", async () => {
  const word = fc.constantFrom(
    ...[
      "imageFrom",
      "commitFrom",
      "chartFrom",
      "warehouse",
      "semverParse",
      "quote",
      "asJSON",
      "split",
      "vars.api",
    ],
    ...[
      `"${API}"`,
      `"${GIT}"`,
      '"front"',
      ".Tag",
      ".Annotations",
      ".__proto__",
      ".constructor",
      ".fields",
      ".parts",
    ],
    ...[
      '["__proto__"]',
      '["constructor"]',
      ".prototype",
      ".call",
      ".toString",
      ".IncMinor",
      "(",
      ")",
      "()",
      "[",
      "]",
    ],
    ...[",", "+", "==", " in ", "??", "?.", "?", ":", "!", "0", "nil", "ctx", "secret"],
  );
  await fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 8 }), (words) => {
      try {
        const value = JSON.stringify(evaluateTemplate(wrap(words.join("")), scope, "a"));
        expect(value).not.toMatch(/\$\{[{%]|native code|\[object|=>/);
      } catch (error) {
        expect(isFault(error, "Permanent"), String(error)).toBe(true);
      }
    }),
    { numRuns: 3000 },
  );
  expect(Object.hasOwn(Object.prototype, "Tag")).toBe(false);
});

it.each([
  ["https://git.example.test/a/b", "https://git.example.test/a/b.git/"],
  ["https://git.example.test/a/b", "https://user:pw@git.example.test/A/B"],
  ["ssh://git@git.example.test/a/b", "git@git.example.test:a/b.git"],
  ["ssh://git@git.example.test:22/a/b", "ssh://git@git.example.test:22/a/b/"],
  ["https://git.example.test", "https://git.example.test/"],
  ["ssh://git.example.test", "git.example.test"],
])("the Git repository %s is also %s", (one, other) => {
  expect(normalizeGitUrl(other)).toBe(one);
});

it.each(["https://git.example.test/a?b=c", "not even a URL", "https://not a url"])(
  "%s is no URL of a Git repository and stays as it is",
  (text) => {
    expect(normalizeGitUrl(text)).toBe(text);
  },
);
