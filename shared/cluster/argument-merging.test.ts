import { describe, expect, it } from "vitest";
import { isFault } from "../domain/fault.ts";
import type { FreightImage } from "../domain/freight.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import { mergeArguments } from "./argument-merging.ts";
import { type FetchedTemplate, flattenTemplates } from "./template-flattening.ts";

type Pairs = readonly { readonly name: string; readonly value: string }[];

const template = (name: string, spec: object): FetchedTemplate => ({
  reference: { name, kind: "AnalysisTemplate" },
  object: { metadata: { name }, spec },
});

/** What the templates declare and what a Stage gives, merged. */
function mergeFrom(
  templates: readonly FetchedTemplate[],
  given: { readonly args?: Pairs } = {},
  { vars = [], images = [] }: { readonly vars?: Pairs; readonly images?: readonly FreightImage[] } = {},
): ReturnType<typeof mergeArguments> {
  const stage: StageSnapshot = {
    uid: "uid-1",
    project: "shop",
    name: "test",
    resourceVersion: "1",
    deleting: false,
    controlFlow: false,
    verification: { analysisTemplates: [], args: given.args ?? [], labels: {}, annotations: {} },
    vars,
    requestedOrigins: ["Warehouse/w"],
    history: [],
    missingFreight: "verify-partial",
  };
  const artifacts = { commits: [], images, charts: [] };
  return mergeArguments(flattenTemplates(templates).args, stage, [
    { name: "f1", origin: "Warehouse/w", artifacts },
  ]);
}

/** `${{ body }}`, written so that it cannot be mistaken for a template string. */
const wrap = (body: string): string => `\${{ ${body} }}`;

function refusalOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (isFault(error, "Permanent")) return error.message;
    throw error;
  }
  throw new Error("it was not refused");
}

describe("arguments of Stage and templates", () => {
  const secret = { secretKeyRef: { name: "token", key: "value" } };

  it.each([
    ["template default", [{ name: "a", value: "1" }], [], [{ name: "a", value: "1" }]],
    ["template secret", [{ name: "a", valueFrom: secret }], [], [{ name: "a", valueFrom: secret }]],
    [
      "Stage over template value",
      [{ name: "a", value: "1" }],
      [{ name: "a", value: "2" }],
      [{ name: "a", value: "2" }],
    ],
    [
      "Stage over the template's secret, which goes",
      [{ name: "a", valueFrom: secret }],
      [{ name: "a", value: "2" }],
      [{ name: "a", value: "2" }],
    ],
    [
      "an empty Stage value counts as absent",
      [{ name: "a", value: "1" }],
      [{ name: "a", value: "" }],
      [{ name: "a", value: "1" }],
    ],
    ["an empty template value is a value", [{ name: "a", value: "" }], [], [{ name: "a", value: "" }]],
    [
      "the later of two equal Stage arguments",
      [{ name: "a" }],
      [
        { name: "a", value: "1" },
        { name: "a", value: "2" },
      ],
      [{ name: "a", value: "2" }],
    ],
    [
      "a name that means something to JavaScript",
      [{ name: "__proto__" }, { name: "constructor", value: "c" }],
      [{ name: "__proto__", value: "p" }],
      [
        { name: "__proto__", value: "p" },
        { name: "constructor", value: "c" },
      ],
    ],
  ])("%s", (_title, declared, args, expected) => {
    expect(mergeFrom([template("one", { args: declared })], { args }).args).toEqual(expected);
  });

  it("several templates: first place, same value fine, a later value or secret fills a gap, a secret stays", () => {
    const { args } = mergeFrom([
      template("one", {
        args: [{ name: "a" }, { name: "b", value: "1" }, { name: "c" }, { name: "d", valueFrom: secret }],
      }),
      template("two", {
        args: [
          { name: "d", value: "x" },
          { name: "c", valueFrom: secret },
          { name: "b", value: "1" },
          { name: "a", value: "2" },
        ],
      }),
    ]);
    expect(args).toEqual([
      { name: "a", value: "2" },
      { name: "b", value: "1" },
      { name: "c", valueFrom: secret },
      { name: "d", valueFrom: secret },
    ]);
  });

  it("Stage argument unknown to the template is left out, and said", () => {
    const { args, warnings } = mergeFrom([template("one", { args: [{ name: "a" }] })], {
      args: [
        { name: "a", value: "1" },
        { name: "exit-code", value: "0" },
      ],
    });
    expect(args).toEqual([{ name: "a", value: "1" }]);
    expect(warnings).toEqual([expect.stringContaining('argument "exit-code"')]);
  });

  it("every unresolved argument is named", () => {
    const message = refusalOf(() => mergeFrom([template("one", { args: [{ name: "a" }, { name: "b" }] })]));
    expect(message).toContain('unresolved argument "a"');
    expect(message).toContain('unresolved argument "b"');
    expect(message).toContain("Stage shop/test");
  });

  it("expressions see the Stage and its variables, later ones over earlier ones", () => {
    const url = `https://${wrap("ctx.stage")}.${wrap("vars.host")}/${wrap("ctx.project")}`;
    const vars = [
      { name: "host", value: "old.test" },
      { name: "domain", value: "example.test" },
      { name: "host", value: wrap("'www.' + vars.domain") },
      { name: "image", value: wrap("imageFrom('repo').Tag") },
    ];
    const { args } = mergeFrom(
      [template("one", { args: [{ name: "url" }] })],
      { args: [{ name: "url", value: url }] },
      { vars },
    );
    expect(args).toEqual([{ name: "url", value: "https://test.www.example.test/shop" }]);
  });

  it.each([
    ["5", "a number"],
    ["true", "a boolean"],
    ["nil", "null"],
    ['"[1]"', "a list"],
    ['"{}"', "an object"],
  ])("an argument that comes out as %s is refused and quote() suggested", (body, kind) => {
    const args = [{ name: "a", value: wrap(body) }];
    const message = refusalOf(() => mergeFrom([template("one", { args: [{ name: "a" }] })], { args }));
    expect(message).toContain('argument "a"');
    expect(message).toContain(kind);
    expect(message).toContain("quote()");
  });

  it("a variable that cannot be evaluated counts only where it is used", () => {
    const vars = [{ name: "image", value: wrap("imageFrom('repo').Tag") }];
    const args = [{ name: "a", value: wrap("vars.image") }];
    const message = refusalOf(() =>
      mergeFrom([template("one", { args: [{ name: "a" }] })], { args }, { vars }),
    );
    expect(message).toContain('argument "a"');
    expect(message).toContain("imageFrom");
  });

  it("a variable may name an artifact of the Freight that is verified", () => {
    const { args } = mergeFrom(
      [template("one", { args: [{ name: "a" }] })],
      { args: [{ name: "a", value: `release ${wrap("vars.tag")}` }] },
      {
        vars: [
          { name: "repo", value: "registry.example.test/api" },
          { name: "tag", value: wrap("imageFrom(vars.repo).Tag") },
        ],
        images: [{ repoURL: "registry.example.test/api", tag: "v1.2.3" }],
      },
    );
    expect(args).toEqual([{ name: "a", value: "release v1.2.3" }]);
  });

  it("variables that double each other end in a refusal, not in memory", () => {
    const vars = Array.from({ length: 200 }, (_, i) => ({
      name: `v${i}`,
      value: i === 0 ? "xx" : wrap(`vars.v${i - 1} + vars.v${i - 1}`),
    }));
    const args = [{ name: "a", value: wrap("vars.v199") }];
    refusalOf(() => mergeFrom([template("one", { args: [{ name: "a" }] })], { args }, { vars }));
  });
});
