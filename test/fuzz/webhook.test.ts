import { createHmac } from "node:crypto";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Fault } from "../../shared/domain/fault.ts";
import { decodeMessage } from "../../shared/messages/codec.ts";
import { readHeaders } from "../../shared/webhooks/headers.ts";
import { readOccurrences } from "../../shared/webhooks/occurrence.ts";
import { type Command, compileRule, type Rule, toMessage } from "../../shared/webhooks/rule.ts";
import { authenticate, findScheme, type Scheme } from "../../shared/webhooks/signature.ts";
import { parseValuePath, readValue } from "../../shared/webhooks/value-path.ts";
import { fuzz, hostileText, hostileValue, spoil } from "../engines/hostile-values.ts";
import { ARGOCD, GITHUB, GITLAB, makeAlert, makeAlertGroup } from "../harness/webhook-payloads.ts";
import { parseReceivers } from "../harness/webhooks.ts";

vi.setConfig({ testTimeout: 120_000 });

afterEach(() => {
  for (const name of ["polluted", "a"]) expect(Object.prototype).not.toHaveProperty(name);
});

const NOW = Date.UTC(2030, 0, 2);
const common = { secrets: [{ literal: "a secret that nobody would guess" }] };
const fields = { actor: "{{ $.sender.login }} {{ $.user.name }}", reason: "{{ $.ref }}: {{ $.action }}" };
const RECEIVERS = parseReceivers([
  {
    ...{ ...common, name: "gh", type: "github" },
    rules: [
      {
        ...{
          ...fields,
          name: "a",
          events: ["deployment_status", "workflow_run", "check_run", "registry_package"],
        },
        ...{ command: "reverify", project: "$.repository.name", stage: "$.deployment.environment" },
      },
      {
        ...{ ...fields, name: "b", events: ["check_run"], command: "verify" },
        ...{ project: "lighthouse", stage: "{{ $.check_run.name }}", cluster: "$.action" },
        when: [{ field: "$.check_run.name", matches: "(a|b|c)*.*" }],
      },
    ],
  },
  {
    ...{ ...common, name: "gl", type: "gitlab", authentication: "secret-token" },
    rules: [{ ...fields, name: "a", command: "verify", project: "$.project.name", stage: "$.environment" }],
  },
  {
    ...{ ...common, name: "am", type: "alertmanager", authentication: "bearer" },
    rules: [
      {
        ...{ name: "a", command: "abort", project: "$.alert.labels.namespace" },
        stage: '$.alert.labels["kargo.akuity.io/stage"]',
        verificationId: "$.group.groupKey",
      },
    ],
  },
  {
    ...{ ...common, name: "argo", type: "argocd" },
    rules: [{ ...fields, name: "a", command: "reverify", project: "$.project", stage: "$.stage" }],
  },
]);
const RULES = new Map<string, Rule[]>(
  RECEIVERS.map(({ name, rules }) => [name, rules.map((rule) => compileRule(rule))]),
);

const deliveries = fc.oneof(
  ...(["deployment_status", "workflow_run", "check_run", "registry_package"] as const).map((event) =>
    fc.tuple(fc.constant(0), fc.oneof(fc.constant<string>(event), hostileText), spoil(GITHUB[event])),
  ),
  fc.tuple(fc.constant(1), fc.constant(""), spoil(GITLAB.deployment)),
  fc.tuple(fc.constant(2), fc.constant(""), spoil(makeAlertGroup([makeAlert("uat"), makeAlert("qa")]))),
  fc.tuple(fc.constant(3), fc.constant(""), fc.oneof(spoil(ARGOCD), hostileValue)),
);

describe("a well signed body of any content", () => {
  it("is refused with reasons, or asks for what a worker takes, as often as not", () => {
    let asked = 0;
    fuzz(deliveries, ([index, event, document]) => {
      const receiver = RECEIVERS[index];
      if (receiver === undefined) throw new Error("no receiver");
      const body = Buffer.from(JSON.stringify(document) ?? "");
      const headers = readHeaders([["x-github-event", event]]);
      const decide = () => ask(receiver.name, receiver.type, headers, body);
      const commands = decide();
      for (const { id, kind, data } of commands) {
        asked++;
        expect(id).toMatch(/^[0-9a-f-]{36}$/);
        const text = JSON.stringify(
          toMessage({ id, kind, rule: "a", time: new Date(NOW).toISOString(), data }, receiver.name),
        );
        expect(decodeMessage(text, kind).data).toEqual(data);
        expect(`${data.actor}${data.reason ?? ""}`).not.toMatch(/[\p{Cc}\u202a-\u202e]/u);
        expect([undefined, "harbour", "created", "completed"]).toContain(data.cluster);
        expect(text.length).toBeLessThan(20_000);
      }
      expect(decide()).toEqual(commands);
    });
    // Inputs that never come this far would prove nothing.
    expect(asked).toBeGreaterThan(1_000);
  });
});

function ask(
  name: string,
  type: (typeof RECEIVERS)[number]["type"],
  headers: ReturnType<typeof readHeaders>,
  body: Buffer,
) {
  let occurrences: ReturnType<typeof readOccurrences>;
  try {
    occurrences = readOccurrences(type, { headers, body }, "sha256:00");
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    expect(error.kind).toBe("Invalid");
    expect(error.message.length).toBeLessThan(300);
    return [];
  }
  const commands: Command[] = [];
  for (const occurrence of occurrences) {
    for (const rule of RULES.get(name) ?? []) {
      const result = rule(occurrence, {
        receiver: name,
        clusters: ["harbour", "created", "completed"],
        now: NOW,
      });
      if (result === undefined) continue;
      if (!("reasons" in result)) {
        commands.push(result);
        continue;
      }
      expect(result.reasons.length).toBeGreaterThan(0);
      for (const reason of result.reasons) expect(reason.length).toBeLessThanOrEqual(300);
    }
  }
  return commands;
}

describe("a signature of any form", () => {
  const KEY = Buffer.from("a secret that nobody would guess");
  const BODY = Buffer.from('{"stage":"uat"}');
  const schemes: Scheme[] = RECEIVERS.map(findScheme);
  const [, gitlab] = RECEIVERS;
  if (gitlab?.type === "gitlab") schemes.push(findScheme({ ...gitlab, authentication: "signing-token" }));

  it("that its secret did not make opens nothing", () => {
    const right = createHmac("sha256", KEY).update(BODY).digest();
    const almost = fc
      .tuple(fc.nat(31), fc.integer({ min: 1, max: 255 }), fc.boolean())
      .map(([at, flip, isHex]) => {
        const bytes = Buffer.from(right);
        bytes[at] = (bytes[at] ?? 0) ^ flip;
        return isHex ? `sha256=${bytes.toString("hex")}` : `v1,${bytes.toString("base64")}`;
      });
    const header = fc.oneof(
      hostileText,
      almost,
      hostileText.map((text) => `sha256=${text}`),
      hostileText.map((text) => `Bearer ${text}`),
    );
    fuzz(fc.tuple(fc.constantFrom(...schemes), header, header, header), ([scheme, one, two, three]) => {
      const headers = readHeaders([
        ["x-hub-signature-256", one],
        ["authorization", one],
        ["x-gitlab-token", one],
        ["x-tallyman-token", one],
        ["webhook-signature", one],
        ["webhook-id", two],
        ["webhook-timestamp", three],
      ]);
      expect(authenticate(scheme, { headers, body: BODY }, [KEY], NOW)).toBeUndefined();
    });
  });
});

describe("a path of any text", () => {
  it("is none, or leads into any document to something that is in it", () => {
    const text = fc.oneof(
      hostileText,
      hostileText.map((each) => `$.${each}`),
      hostileText.map((each) => `$["${each}"]`),
      fc.constantFrom("$.__proto__", "$.a", "$.constructor.prototype", "$.a[0].a", '$["length"]'),
    );
    fuzz(fc.tuple(text, hostileValue), ([each, document]) => {
      const path = parseValuePath(each);
      if (path === undefined) return;
      const [first] = path.steps;
      const value = readValue(document, path);
      if (value === undefined) return;
      expect(Object.keys(document as object)).toContain(String(first));
    });
  });
});
