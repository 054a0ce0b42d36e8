import { describe, expect, it } from "vitest";
import * as z from "zod/mini";
import { receiversSchema } from "./receiver.ts";

const RULE = { name: "r", command: "verify", project: "lighthouse", stage: "uat" };
const GENERIC = {
  name: "any",
  type: "generic",
  secrets: ["webhooks/any"],
  signature: { header: "X-Sig", algorithm: "sha256", encoding: "hex" },
  rules: [RULE],
};
const GITHUB = { name: "gh", type: "github", secrets: ["a"], rules: [{ ...RULE, events: ["check_run"] }] };

/** `path: message` for each problem. */
function problemsOf(receivers: unknown): string[] {
  const result = z.safeParse(receiversSchema, receivers);
  return result.success
    ? []
    : result.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
}
const withRule = (change: object) => [{ ...GENERIC, rules: [{ ...RULE, ...change }] }];
const when = (condition: object) => withRule({ when: [condition] });
const signed = (change: object) => [{ ...GENERIC, signature: { ...GENERIC.signature, ...change } }];

it("what is left out has its default", () => {
  expect(z.parse(receiversSchema, [GENERIC])).toEqual([
    {
      ...GENERIC,
      toleranceSeconds: 300,
      signature: { ...GENERIC.signature, prefix: "", content: "{body}" },
      rules: [{ ...RULE, when: [] }],
    },
  ]);
  const [alerts] = z.parse(receiversSchema, [
    { name: "am", type: "alertmanager", authentication: "bearer", secrets: ["a"], rules: [RULE] },
  ]);
  expect(alerts?.rules[0]).toMatchObject({ events: ["firing"] });
});

describe("a receiver that cannot work is not deployed", () => {
  it.each<[what: string, receivers: unknown, problem: string | RegExp]>([
    [
      "a type that there is not",
      [{ ...GENERIC, type: "bitbucket" }],
      /^0\.type: must be one of standard-webhooks, github/,
    ],
    ["a bad name", [{ ...GENERIC, name: "Git_Hub" }], /^0\.name: must be a DNS label/],
    ["a name twice", [GENERIC, GENERIC], "1.name: any is used twice; give each its own"],
    ["an unknown key", [{ ...GENERIC, secret: "x" }], /^0: .*"secret"/],
    ["no secret", [{ ...GENERIC, secrets: [] }], /^0\.secrets: /],
    ["three secrets", [{ ...GENERIC, secrets: ["a", "b", "c"] }], /^0\.secrets: /],
    [
      "a secret for a secret's name",
      [{ ...GENERIC, secrets: ["whsec_AAAA"] }],
      /^0\.secrets\.0: is a secret; put it into Secrets Manager/,
    ],
    [
      "a secret that is no reference",
      [{ ...GENERIC, secrets: ["not a name"] }],
      /^0\.secrets\.0: must be the name or ARN/,
    ],
    ["no rules", [{ ...GENERIC, rules: [] }], /^0\.rules: /],
    [
      "a rule's name twice",
      [{ ...GENERIC, rules: [RULE, RULE] }],
      "0.rules.1.name: r is used twice; give each its own",
    ],
    [
      "a command that there is not",
      withRule({ command: "promote" }),
      "0.rules.0.command: must be one of verify, abort, reverify",
    ],
    [
      "a Project that can be none",
      withRule({ project: "Light house" }),
      /^0\.rules\.0\.project: must be a DNS label/,
    ],
    [
      "a Stage that can be none",
      withRule({ stage: "a/b" }),
      /^0\.rules\.0\.stage: must be the name of a Stage/,
    ],
    [
      "a path for a misspelt one",
      withRule({ stage: "$deployment" }),
      "0.rules.0.stage: $deployment is not a path",
    ],
    ["a filter", withRule({ stage: "$.a[?(@.b)]" }), /^0\.rules\.0\.stage: .* is not a path/],
    ["a wildcard", withRule({ stage: "{{ $..stage }}" }), /^0\.rules\.0\.stage: \$\.\.stage is not a path/],
    [
      "a brace too few",
      withRule({ actor: "by {{ $.a }" }),
      /^0\.rules\.0\.actor: has a \{\{ or \}\} without the other/,
    ],
    [
      "a condition without a test",
      when({ field: "$.a" }),
      /^0\.rules\.0\.when\.0: must say one of equals, in/,
    ],
    [
      "a condition with two",
      when({ field: "$.a", equals: 1, exists: true }),
      /^0\.rules\.0\.when\.0: must say one of/,
    ],
    [
      "a condition on no path",
      when({ field: "a", exists: true }),
      /^0\.rules\.0\.when\.0\.field: a is not a path/,
    ],
    [
      "an expression that is none",
      when({ field: "$.a", matches: "(" }),
      /^0\.rules\.0\.when\.0\.matches: is not a regular expression of RE2/,
    ],
    [
      "an expression that looks back",
      when({ field: "$.a", matches: "(a)\\1" }),
      /^0\.rules\.0\.when\.0\.matches: /,
    ],
    [
      "an expression that grows",
      when({ field: "$.a", matches: "((a{1000}){1000}){1000}" }),
      /^0\.rules\.0\.when\.0\.matches: /,
    ],
    ["an object to equal", when({ field: "$.a", equals: {} }), /^0\.rules\.0\.when\.0\.equals: /],
    ["a GitHub rule without events", [{ ...GITHUB, rules: [RULE] }], /^0\.rules\.0\.events: /],
    [
      "an event that no rule can use",
      [{ ...GITHUB, rules: [{ ...RULE, events: ["push"] }] }],
      /^0\.rules\.0\.events\.0: must be one of deployment_status/,
    ],
    ["events where there are none", withRule({ events: ["x"] }), /^0\.rules\.0: .*"events"/],
    [
      "GitLab without a way to know it",
      [{ ...GITHUB, type: "gitlab" }],
      /^0\.authentication: must be signing-token or secret-token/,
    ],
    ["an old algorithm", signed({ algorithm: "sha1" }), /^0\.signature\.algorithm: must be sha256 or sha512/],
    [
      "a body that is not signed",
      signed({ content: "{timestamp}", timestampHeader: "X-T" }),
      /^0\.signature\.content: must end with \{body\}/,
    ],
    [
      "a body that is signed twice",
      signed({ content: "{body}{body}" }),
      /^0\.signature\.content: must end with \{body\}/,
    ],
    [
      "something behind the body",
      signed({ content: "{body}." }),
      /^0\.signature\.content: must end with \{body\}/,
    ],
    [
      "an id that runs into the time",
      signed({ content: "{id}{timestamp}.{body}", idHeader: "I", timestampHeader: "T" }),
      /^0\.signature\.content: must have a sign/,
    ],
    [
      "a time that runs into the body",
      signed({ content: "{timestamp}0{body}", timestampHeader: "T" }),
      /^0\.signature\.content: must have a sign/,
    ],
    [
      "a signed time without a header",
      signed({ content: "{timestamp}.{body}" }),
      /^0\.signature\.timestampHeader: is missing/,
    ],
    [
      "a time that is not signed",
      signed({ timestampHeader: "X-T" }),
      /^0\.signature\.timestampHeader: is worth nothing unless it is signed/,
    ],
    [
      "an id that is not signed",
      signed({ idHeader: "X-T" }),
      /^0\.signature\.idHeader: is worth nothing unless it is signed/,
    ],
    [
      "a header's name that is none",
      signed({ header: "X Sig" }),
      /^0\.signature\.header: must be the name of a header/,
    ],
    ["a window of a day", [{ ...GENERIC, toleranceSeconds: 86_400 }], /^0\.toleranceSeconds: /],
  ])("%s", (_what, receivers, problem) => {
    const problems = problemsOf(receivers);
    expect(problems).toHaveLength(1);
    if (typeof problem === "string") expect(problems[0]?.startsWith(problem)).toBe(true);
    else expect(problems[0]).toMatch(problem);
  });

  it("and every problem is told at once", () => {
    expect(
      problemsOf([{ ...GENERIC, name: "A", rules: [{ ...RULE, stage: "$", command: "x" }] }]),
    ).toHaveLength(3);
  });
});
