import * as z from "zod/mini";
import { MESSAGE_KINDS } from "../messages/schema.ts";
import { findExpressionFault } from "./expression.ts";
import { constantOf, describePath, parseTemplate } from "./template.ts";
import { parseValuePath } from "./value-path.ts";

/**
 * Receivers of webhooks as they are configured. The only definition there is: the CDK app validates with it before it
 * deploys, the function when it starts, and its types are the receivers' types.
 */

/** Events of GitHub that mean something to a Stage; other ones are answered and left alone. */
export const GITHUB_EVENTS = ["deployment_status", "workflow_run", "check_run", "registry_package"] as const;

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL_HELP = "must be a DNS label: up to 63 lower-case letters, digits and `-`, not first or last";

const label = z.string().check(z.regex(DNS_LABEL, LABEL_HELP));

/** A check whose message says what exactly is wrong. */
const judge = (find: (text: string) => string | undefined) =>
  z.check<string>(({ value, issues }) => {
    const message = find(value);
    if (message !== undefined) issues.push({ code: "custom", input: value, message, path: [] });
  });

const path = z
  .string()
  .check(judge((text) => (parseValuePath(text) === undefined ? describePath(text) : undefined)));

/** A template; one without places must be a value that fits. */
const template = (max: number, fits?: { readonly pattern: RegExp; readonly help: string }) =>
  z.string().check(
    z.minLength(1),
    z.maxLength(max),
    judge((text) => {
      const parsed = parseTemplate(text);
      if (typeof parsed === "string") return parsed;
      const constant = constantOf(parsed);
      return constant === undefined || fits === undefined || fits.pattern.test(constant)
        ? undefined
        : fits.help;
    }),
  );

const scalar = z.union([z.string().check(z.maxLength(1024)), z.number(), z.boolean()]);

const TESTS = ["equals", "in", "matches", "exists"] as const;
const TEST_HELP = `must say one of ${TESTS.join(", ")}`;

const conditionSchema = z
  .strictObject({
    /** The value that is looked at. */
    field: path,
    equals: z.optional(scalar),
    in: z.optional(z.array(scalar).check(z.minLength(1), z.maxLength(100))),
    /** A regular expression in RE2's syntax that the whole value has to match. */
    matches: z.optional(
      z.string().check(
        z.maxLength(512),
        judge((text) => {
          const fault = findExpressionFault(text);
          return fault === undefined ? undefined : `is not a regular expression of RE2: ${fault}`;
        }),
      ),
    ),
    exists: z.optional(z.boolean()),
  })
  .check(
    z.refine((condition) => TESTS.filter((test) => condition[test] !== undefined).length === 1, TEST_HELP),
  );

const ruleFields = {
  /** Part of the requests' identity: a rule that is renamed asks anew. */
  name: label,
  /** All must hold. */
  when: z._default(z.array(conditionSchema).check(z.maxLength(20)), []),
  command: z.enum(MESSAGE_KINDS, { error: `must be one of ${MESSAGE_KINDS.join(", ")}` }),
  /** Default: the installation's first cluster. */
  cluster: z.optional(template(512, { pattern: DNS_LABEL, help: LABEL_HELP })),
  project: template(512, { pattern: DNS_LABEL, help: LABEL_HELP }),
  stage: template(512, { pattern: SUBDOMAIN, help: "must be the name of a Stage, or a path to it" }),
  /** Default: the Stage's latest verification. */
  verificationId: z.optional(template(512)),
  /** Default: `webhook:` and the receiver's name. */
  actor: z.optional(template(1024)),
  reason: z.optional(template(1024)),
};

const eventName = z
  .string()
  .check(z.regex(/^[\w.:-]{1,128}$/, "must be the name of an event, as the sender writes it"));
const someEvents = z.array(eventName).check(z.minLength(1), z.maxLength(50));
const rule = z.strictObject(ruleFields);
const ruleWithEvents = z.strictObject({ ...ruleFields, events: z.optional(someEvents) });
const githubRule = z.strictObject({
  ...ruleFields,
  events: z
    .array(z.enum(GITHUB_EVENTS, { error: `must be one of ${GITHUB_EVENTS.join(", ")}` }))
    .check(z.minLength(1)),
});
const alertRule = z.strictObject({
  ...ruleFields,
  /** The alert's status. */
  events: z._default(
    z.array(z.enum(["firing", "resolved"], { error: "must be firing or resolved" })).check(z.minLength(1)),
    ["firing"],
  ),
});

/**
 * Where a secret is: the name or ARN of one in Secrets Manager, whose text is the secret and nothing else; or, outside
 * of AWS, an environment variable or the secret itself.
 */
const SECRET_HELP = 'must be the name or ARN of a Secrets Manager secret, or {"env":…} or {"literal":…}';
const secretReference = z.union(
  [
    z.string().check(
      z.regex(/^[A-Za-z0-9/_+=.@:-]{1,512}$/, SECRET_HELP),
      z.refine(
        (text) => !/^(whsec_|Bearer )/.test(text),
        "is a secret; put it into Secrets Manager and name that here",
      ),
    ),
    z.strictObject({
      env: z.string().check(z.regex(/^[A-Z][A-Z0-9_]{0,127}$/, "must be the name of a variable")),
    }),
    z.strictObject({ literal: z.string().check(z.minLength(1)) }),
  ],
  { error: SECRET_HELP },
);

const headerName = z
  .string()
  .check(z.regex(/^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/, "must be the name of a header"));
const tolerance = z.int().check(z.minimum(1), z.maximum(3600));

const PLACES = /\{(id|timestamp|body)\}/;

/** What an HMAC covers: `{body}` last, and before it what else is signed, with something between that is in neither. */
function findContentFault(content: string): string | undefined {
  const pieces = content.split(PLACES);
  const places = pieces.filter((_, index) => index % 2 === 1);
  if (places.at(-1) !== "body" || pieces.at(-1) !== "" || new Set(places).size !== places.length) {
    return "must end with {body}, and may have {id} and {timestamp} before it, each once";
  }
  const between = pieces.filter((_, index) => index % 2 === 0).slice(1, -1);
  return between.every((text) => /[^\w-]/.test(text))
    ? undefined
    : "must have a sign such as . or : between its places, or one could pass for the other";
}

const signatureSchema = z
  .strictObject({
    /** The header that carries it. */
    header: headerName,
    algorithm: z.enum(["sha256", "sha512"], { error: "must be sha256 or sha512" }),
    encoding: z.enum(["hex", "base64"], { error: "must be hex or base64" }),
    /** What stands before it in the header, for example `sha256=`. */
    prefix: z._default(z.string().check(z.maxLength(32)), ""),
    /** The header with the delivery's id. */
    idHeader: z.optional(headerName),
    /** The header with the time of sending in seconds since the epoch. */
    timestampHeader: z.optional(headerName),
    /** What is signed. */
    content: z._default(z.string().check(z.maxLength(128), judge(findContentFault)), "{body}"),
  })
  .check(({ value, issues }) => {
    for (const [place, header] of [
      ["id", "idHeader"],
      ["timestamp", "timestampHeader"],
    ] as const) {
      const isSigned = value.content.includes(`{${place}}`);
      if (isSigned && value[header] === undefined) {
        const message = `is missing, but content has {${place}}; name the header`;
        issues.push({ code: "custom", input: value, message, path: [header] });
      }
      if (!isSigned && value[header] !== undefined) {
        const message = `is worth nothing unless it is signed; add {${place}} to content`;
        issues.push({ code: "custom", input: value, message, path: [header] });
      }
    }
  });

const receiverFields = {
  /** Stands in the URL: `/webhooks/NAME`. */
  name: label,
  /** Two while one takes the other's place. */
  secrets: z.array(secretReference).check(z.minLength(1), z.maxLength(2)),
};
const rules = <T extends z.ZodMiniType>(each: T) => z.array(each).check(z.minLength(1), z.maxLength(50));

const receiver = z.discriminatedUnion(
  "type",
  [
    z.strictObject({
      ...receiverFields,
      type: z.literal("standard-webhooks"),
      toleranceSeconds: z._default(tolerance, 300),
      rules: rules(ruleWithEvents),
    }),
    z.strictObject({ ...receiverFields, type: z.literal("github"), rules: rules(githubRule) }),
    z.strictObject({
      ...receiverFields,
      type: z.literal("gitlab"),
      /** A signing token signs each delivery; a secret token only travels with it. */
      authentication: z.enum(["signing-token", "secret-token"], {
        error: "must be signing-token or secret-token",
      }),
      toleranceSeconds: z._default(tolerance, 300),
      rules: rules(ruleWithEvents),
    }),
    z.strictObject({
      ...receiverFields,
      type: z.literal("alertmanager"),
      /** The secret is the token, or `user:password`. */
      authentication: z.enum(["bearer", "basic"], { error: "must be bearer or basic" }),
      rules: rules(alertRule),
    }),
    z.strictObject({
      ...receiverFields,
      type: z.literal("argocd"),
      /** The header that carries the secret; in `Authorization` it stands behind `Bearer`. */
      header: z._default(headerName, "X-Tallyman-Token"),
      /** Where something on the way signs what Argo CD sends. */
      signature: z.optional(signatureSchema),
      toleranceSeconds: z._default(tolerance, 300),
      rules: rules(rule),
    }),
    z.strictObject({
      ...receiverFields,
      type: z.literal("generic"),
      signature: signatureSchema,
      toleranceSeconds: z._default(tolerance, 300),
      rules: rules(rule),
    }),
  ],
  { error: "must be one of standard-webhooks, github, gitlab, alertmanager, argocd, generic" },
);

/** Names tell receivers apart, and a receiver's rules. */
export const receiversSchema = z.array(receiver).check(z.maxLength(50), ({ value, issues }) => {
  const report = (input: unknown, where: (string | number)[], name: string): void => {
    const message = `${name} is used twice; give each its own`;
    issues.push({ code: "custom", input, message, path: [...where, "name"] });
  };
  for (const index of findRepeated(value.map((each) => each.name))) {
    report(value, [index], value[index]?.name ?? "");
  }
  for (const [index, each] of value.entries()) {
    const names = each.rules.map((one) => one.name);
    for (const at of findRepeated(names)) report(value, [index, "rules", at], names[at] ?? "");
  }
});

function findRepeated(names: readonly string[]): number[] {
  return names.flatMap((name, index) => (names.indexOf(name) === index ? [] : [index]));
}

export type ReceiverSettings = z.infer<typeof receiver>;
export type ReceiverRule = z.infer<typeof rule> & { readonly events?: readonly string[] | undefined };
export type Condition = z.infer<typeof conditionSchema>;
export type SecretReference = z.infer<typeof secretReference>;
export type SignatureSettings = z.infer<typeof signatureSchema>;
