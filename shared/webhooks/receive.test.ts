import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { GITHUB } from "../../test/harness/webhook-payloads.ts";
import {
  createEvent,
  createMemoryStore,
  createWebhookBench,
  signGitHub,
  signStandard,
  type WebhookBench,
} from "../../test/harness/webhooks.ts";
import { Fault } from "../domain/fault.ts";
import { MAX_BODY_BYTES } from "./receive.ts";

const SECRET = "a secret that nobody would guess";
const OTHER = "another secret, just as good as it";
const WHSEC = `whsec_${Buffer.from("thirty-two bytes, or near enough").toString("base64")}`;
const RULE = {
  name: "deployed",
  events: ["deployment_status"],
  command: "reverify",
  project: "lighthouse",
  stage: "$.deployment.environment",
};
const github = (change: object = {}) => ({
  ...{ name: "gh", type: "github", secrets: [{ literal: SECRET }], rules: [RULE] },
  ...change,
});
const BODY = JSON.stringify(GITHUB.deployment_status);

function postGitHub(
  bench: WebhookBench,
  change: { body?: string | Buffer; secret?: string; headers?: object } = {},
) {
  const { body = BODY, secret = SECRET, headers = {} } = change;
  return bench.post({
    to: "gh",
    body,
    headers: {
      "X-GitHub-Event": "deployment_status",
      "X-GitHub-Delivery": "11111111-2222-3333-4444-555555555555",
      "X-Hub-Signature-256": signGitHub(secret, body),
      ...headers,
    },
  });
}

const named = (name: string, more: object = {}): Error => Object.assign(new Error("no"), { name, ...more });
const transient = (cause: unknown): Fault => new Fault("Transient", "SQS could not take it", { cause });

describe("a delivery that comes again", () => {
  it("is answered as the first time, byte for byte, and asks for nothing new", async () => {
    const bench = createWebhookBench([github()]);
    const first = await postGitHub(bench);
    bench.now += 86_400_000;
    const again = await postGitHub(bench);
    expect(again).toEqual(first);
    expect(bench.sent).toHaveLength(2);
    // What went to the queue the second time is the very same message: queue and ledger take it for a repeat.
    expect(bench.sent[1]).toEqual(bench.sent[0]);
    expect(bench.counted).toEqual(["WebhooksAccepted gh 1", "WebhooksRepeated gh 1"]);
  });

  it("does so under any other delivery id: that one is not signed", async () => {
    const bench = createWebhookBench([github()]);
    const first = await postGitHub(bench);
    const again = await postGitHub(bench, {
      headers: { "X-GitHub-Delivery": "99999999-2222-3333-4444-555555555555" },
    });
    expect(again.text).toBe(first.text);
  });

  it("and another body under the same unsigned id is another delivery, which nobody can swallow", async () => {
    const bench = createWebhookBench([github()]);
    const first = await postGitHub(bench);
    const second = await postGitHub(bench, { body: BODY.replace("3300817205", "3300817206") });
    expect(second.status).toBe(202);
    expect(second.body.requests[0].id).not.toBe(first.body.requests[0].id);
  });

  it("with a signed id is the same whatever its body, and another id is another delivery of the same body", async () => {
    const rules = [{ name: "r", command: "verify", project: "lighthouse", stage: "$.stage" }];
    const bench = createWebhookBench([
      { name: "std", type: "standard-webhooks", secrets: [{ literal: WHSEC }], rules },
    ]);
    const post = (id: string, body: string) =>
      bench.post({ to: "std", body, headers: signStandard(WHSEC, id, bench.now / 1000, body) });
    const first = await post("msg_1", '{"stage":"uat"}');
    bench.now += 3_600_000;
    expect(await post("msg_1", '{ "stage": "uat" }')).toEqual(first);
    expect(await post("msg_1", '{"stage":"dev"}')).toEqual(first);
    expect(bench.sent.map(({ message }) => message.data.stage)).toEqual(["uat", "uat", "uat"]);
    expect((await post("msg_2", '{"stage":"uat"}')).text).not.toBe(first.text);
  });

  it("by several senders' receivers is one for each of them", async () => {
    const bench = createWebhookBench([github(), github({ name: "gh-2" })]);
    const first = await postGitHub(bench);
    const headers = {
      "X-GitHub-Event": "deployment_status",
      "X-Hub-Signature-256": signGitHub(SECRET, BODY),
    };
    const second = await bench.post({ to: "gh-2", body: BODY, headers });
    expect(second.body.requests[0].id).not.toBe(first.body.requests[0].id);
  });

  it("in many copies at once still is one request", async () => {
    const bench = createWebhookBench([github()]);
    const answers = await Promise.all(Array.from({ length: 20 }, () => postGitHub(bench)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(new Set(bench.sent.map(({ message }) => JSON.stringify(message))).size).toBe(1);
  });

  it("after a crash between entry and queue is sent as it was decided, though the rules have changed", async () => {
    const store = createMemoryStore();
    const bench = createWebhookBench([github()], store);
    bench.failSend = transient(named("TimeoutError"));
    expect((await postGitHub(bench)).status).toBe(503);
    expect(bench.sent).toEqual([]);
    const changed = createWebhookBench(
      [github({ rules: [{ ...RULE, name: "x", stage: "prod", command: "abort" }] })],
      store,
    );
    changed.now += 60_000;
    const repeated = await postGitHub(changed);
    expect(repeated.body.requests).toMatchObject([{ rule: "deployed", command: "reverify", stage: "uat" }]);
    expect(changed.sent).toHaveLength(1);
    expect(changed.sent[0]).toMatchObject({
      kind: "reverify",
      message: { id: repeated.body.requests[0].id, time: "2030-01-02T03:04:05.000Z", data: { stage: "uat" } },
    });
  });

  it("is not remembered where it asked for nothing, so that a rule that is mended can be tried", async () => {
    let entries = 0;
    const bench = createWebhookBench(
      [github({ rules: [{ ...RULE, when: [{ field: "$.x", exists: true }] }] })],
      {
        enter: async ({ content }) => {
          entries += 1;
          return { content, isNew: true };
        },
      },
    );
    expect((await postGitHub(bench)).body).toEqual({ requests: [] });
    expect(entries).toBe(0);
  });
});

describe("a trouble that passes", () => {
  it.each([
    ["a queue that throttles", "failSend", transient(named("RequestThrottled")), 429],
    ["a ledger that throttles", "failEnter", transient(named("ProvisionedThroughputExceededException")), 429],
    [
      "a ledger that says so in another way",
      "failEnter",
      transient(named("X", { $retryable: { throttling: true } })),
      429,
    ],
    ["a queue that does not answer", "failSend", transient(named("TimeoutError")), 503],
    ["a ledger that does not answer", "failEnter", transient(named("InternalServerError")), 503],
  ] as const)("%s is told as such, with a time to come again", async (_what, where, failure, status) => {
    const bench = createWebhookBench([github()]);
    bench[where] = failure;
    const answer = await postGitHub(bench);
    expect(answer.status).toBe(status);
    expect(answer.headers).toMatchObject({ "retry-after": "5", "content-type": "application/problem+json" });
    expect(bench.counted).toEqual(["WebhooksDeferred gh 1"]);
    expect((await postGitHub(bench)).status).toBe(202);
  });

  it("a mistake of ours is a 500 that tells nothing, and is logged", async () => {
    const bench = createWebhookBench([github()]);
    bench.failEnter = new TypeError("x is not a function at /var/task/index.mjs");
    const answer = await postGitHub(bench);
    expect(answer.status).toBe(500);
    expect(answer.text).not.toMatch(/function|task/);
    expect(bench.logged.join()).toContain("nobody foresaw");
  });
});

describe("secrets", () => {
  const receiver = github({ secrets: ["webhooks/new", "webhooks/old"] });

  it("two are valid at once, and a third is not", async () => {
    const bench = createWebhookBench([receiver]);
    bench.secrets.set("webhooks/new", OTHER).set("webhooks/old", SECRET);
    expect((await postGitHub(bench, { secret: SECRET })).status).toBe(202);
    expect((await postGitHub(bench, { secret: OTHER })).status).toBe(202);
    expect((await postGitHub(bench, { secret: `${OTHER}!` })).status).toBe(401);
  });

  it("are kept, read anew when a signature does not fit, and by bad signatures at most once a minute", async () => {
    const bench = createWebhookBench([github({ secrets: ["webhooks/new"] })]);
    bench.secrets.set("webhooks/new", SECRET);
    await postGitHub(bench);
    await postGitHub(bench);
    expect(bench.secretReads).toHaveLength(1);
    bench.secrets.set("webhooks/new", OTHER);
    expect((await postGitHub(bench, { secret: OTHER })).status).toBe(202);
    expect(bench.secretReads).toHaveLength(2);
    for (let count = 0; count < 50; count++) await postGitHub(bench, { secret: "x" });
    expect(bench.secretReads).toHaveLength(2);
    expect((await postGitHub(bench, { secret: SECRET })).status).toBe(401);
    bench.now += 60_000;
    await postGitHub(bench, { secret: "x" });
    expect(bench.secretReads).toHaveLength(3);
  });

  it("one that cannot be read leaves the other in force; what does not fit that is not called bad", async () => {
    const bench = createWebhookBench([receiver]);
    bench.secrets.set("webhooks/new", SECRET);
    expect((await postGitHub(bench)).status).toBe(202);
    const answer = await postGitHub(bench, { secret: OTHER });
    expect(answer.status).not.toBe(401);
    expect(answer.text).not.toContain("webhooks/");
    const reads = bench.secretReads.length;
    for (let count = 0; count < 50; count++) await postGitHub(bench, { secret: OTHER });
    expect(bench.secretReads.length - reads).toBeLessThan(3);
    bench.secrets.set("webhooks/old", OTHER);
    bench.now += 60_000;
    expect((await postGitHub(bench, { secret: OTHER })).status).toBe(202);
  });

  it.each([
    ["is too short to be one", github({ secrets: ["s"] }), "fifteen letters"],
    [
      "is no base64",
      { ...github({ secrets: ["s"] }), type: "standard-webhooks" },
      "whsec_not base64, by any means",
    ],
    ["has no user", { ...github({ secrets: ["s"] }), type: "alertmanager", authentication: "basic" }, SECRET],
  ])("one that %s opens nothing, and the log says which and not what", async (_what, settings, text) => {
    const rules = [{ ...RULE, events: undefined }];
    const bench = createWebhookBench([settings.type === "github" ? settings : { ...settings, rules }]);
    bench.secrets.set("s", text);
    const answer = await postGitHub(bench, { secret: text });
    expect(answer.status).toBe(503);
    expect(bench.logged.join()).toMatch(/secret s: must/);
    expect(bench.logged.join()).not.toContain(text);
    expect(answer.text).not.toContain("secret");
  });

  it("may come from the environment", async () => {
    const bench = createWebhookBench([github({ secrets: [{ env: "WEBHOOK_SECRET" }] })]);
    expect((await postGitHub(bench, { secret: "a secret out of the environment" })).status).toBe(202);
    const unset = createWebhookBench([github({ secrets: [{ env: "NO_SECRET" }] })]);
    expect((await postGitHub(unset)).status).toBe(503);
    expect(unset.logged.join()).toContain("variable NO_SECRET: is not set");
  });
});

describe("what an enemy sends", () => {
  it("an unknown receiver looks like a known one, but for its status", async () => {
    const bench = createWebhookBench([github()]);
    const unknown = await bench.post({
      to: "gh-x",
      body: BODY,
      headers: { "X-Hub-Signature-256": signGitHub("", BODY) },
    });
    expect(unknown.status).toBe(404);
    for (const name of ["__proto__", "constructor", "toString", "", "GH", "gh%00", "../gh", "unknown"]) {
      const answer = await bench.post({ to: name, body: BODY, headers: { "X-Signature": "00".repeat(32) } });
      expect(answer.text).toBe(unknown.text);
    }
    expect(new Set(bench.counted)).toEqual(new Set(["WebhooksRejected unknown 1"]));
    expect(bench.secretReads).toEqual([]);
  });

  it("a signature says nothing by its answer: every bad one is answered alike", async () => {
    const bench = createWebhookBench([github()]);
    const right = signGitHub(SECRET, BODY);
    const answers = await Promise.all(
      [
        undefined,
        "",
        "sha256=",
        "sha1=00",
        right.slice(0, -1),
        `${right.slice(0, -1)}0`,
        `${right} `,
        "x".repeat(9_000),
      ].map((value) =>
        postGitHub(bench, { headers: { "X-Hub-Signature-256": value === right ? "" : (value ?? "") } }),
      ),
    );
    expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1);
    expect(answers[0]?.status).toBe(401);
    expect(bench.sent).toEqual([]);
  });

  it("a body that is not signed is not parsed", async () => {
    const bench = createWebhookBench([github()]);
    const broken = await bench.post({ to: "gh", body: "{", headers: { "X-Hub-Signature-256": "sha256=00" } });
    expect(broken.status).toBe(401);
    expect((await postGitHub(bench, { body: "{" })).status).toBe(400);
  });

  it("a header twice, in whatever case, counts for nothing", async () => {
    const bench = createWebhookBench([github()]);
    const event = createEvent("gh", BODY, { "x-github-event": "deployment_status" });
    const signature = signGitHub(SECRET, BODY);
    const send = async (headers: Record<string, string>) =>
      (await bench.event({ ...event, headers: { ...event.headers, ...headers } })).statusCode;
    expect(await send({ "X-HUB-SIGNATURE-256": signature })).toBe(202);
    expect(await send({ "x-hub-signature-256": signature, "X-Hub-Signature-256": signature })).toBe(401);
    expect(await send({ "x-hub-signature-256": `${signature},${signature}` })).toBe(401);
  });

  it("bytes are signed, not text: base64 brings the same ones, and nothing else", async () => {
    const bench = createWebhookBench([github()]);
    const first = await postGitHub(bench);
    expect((await postGitHub(bench, { body: Buffer.from(BODY) })).text).toBe(first.text);
    const event = createEvent("gh", Buffer.from(BODY), {
      "x-github-event": "deployment_status",
      "x-hub-signature-256": signGitHub(SECRET, BODY),
    });
    const change = async (body: string | undefined, isBase64Encoded: boolean) =>
      (await bench.event({ ...event, ...(body === undefined ? {} : { body }), isBase64Encoded })).statusCode;
    expect(await change(event.body, true)).toBe(202);
    expect(await change(event.body, false)).toBe(401);
    expect(await change(BODY, true)).toBe(400);
    expect(await change(`${event.body?.slice(0, 8)}\n${event.body?.slice(8)}`, true)).toBe(400);
  });

  it.each<[what: string, body: string | Buffer]>([
    ["nothing", ""],
    ["no JSON", "payload=%7B%7D"],
    ["JSON that is no object", "[]"],
    ["null", "null"],
    ["half a character", Buffer.from([0x7b, 0x22, 0xc3, 0x22, 0x7d])],
    ["something packed", gzipSync(BODY)],
    ["a nest that is very deep", "[".repeat(100_000)],
    ["a nest that is very deep and closes", `{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
  ])("%s, well signed, is not understood", async (_what, body) => {
    const bench = createWebhookBench([github()]);
    expect((await postGitHub(bench, { body })).status).toBe(400);
    expect(bench.counted).toEqual(["WebhooksRejected gh 1"]);
  });

  it("a body may have 256 KB and no byte more, signed or not", async () => {
    const bench = createWebhookBench([github()]);
    const padded = (bytes: number): string => `${BODY}${" ".repeat(bytes - Buffer.byteLength(BODY))}`;
    expect((await postGitHub(bench, { body: padded(MAX_BODY_BYTES) })).status).toBe(202);
    expect((await postGitHub(bench, { body: padded(MAX_BODY_BYTES + 1) })).status).toBe(413);
    expect((await postGitHub(bench, { body: Buffer.from(padded(MAX_BODY_BYTES + 1)) })).status).toBe(413);
    expect((await postGitHub(bench, { body: Buffer.alloc(6_000_000) })).status).toBe(413);
    const unsigned = await bench.post({ to: "gh", body: padded(MAX_BODY_BYTES + 1) });
    const unknown = await bench.post({ to: "nobody", body: padded(MAX_BODY_BYTES + 1) });
    expect([unsigned.status, unknown.text]).toEqual([413, unsigned.text]);
  });

  it("what a body inherits is not in it, and what it is given changes nothing else", async () => {
    const rules = [
      { ...RULE, stage: "$.__proto__.stage" },
      { ...RULE, name: "b", when: [{ field: "$.constructor.name", exists: true }] },
      { ...RULE, name: "c", when: [{ field: "$.deployment.environment.length", exists: true }] },
    ];
    const bench = createWebhookBench([github({ rules })]);
    const answer = await postGitHub(bench);
    expect(answer.body).toEqual({
      requests: [],
      refused: [{ rule: "deployed", reasons: ["stage: there is no text at $.__proto__.stage"] }],
    });
    await postGitHub(bench, { body: BODY.replace("{", '{"__proto__":{"stage":"uat","polluted":1},') });
    expect(bench.sent).toHaveLength(1);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it.each<[what: string, environment: unknown, reason: RegExp]>([
    ["a path", "../../other/prod", /data.stage: must be a Kubernetes object name/],
    ["a name that is too long", "a".repeat(254), /data.stage: /],
    ["many lines", "uat\nprod", /data.stage: /],
    ["nothing", "", /data.stage: /],
    ["null", null, /there is no text at/],
    ["a list", ["uat"], /there is no text at/],
    ["an object", { toString: "uat" }, /there is no text at/],
  ])("%s for a Stage's name asks for nothing, and says why", async (_what, environment, reason) => {
    const bench = createWebhookBench([github()]);
    const deployment = { ...GITHUB.deployment_status.deployment, environment };
    const answer = await postGitHub(bench, {
      body: JSON.stringify({ ...GITHUB.deployment_status, deployment }),
    });
    expect(answer).toMatchObject({ status: 202, body: { requests: [] } });
    expect(answer.body.refused[0].reasons[0]).toMatch(reason);
    expect(bench.counted).toEqual(["WebhookCommandsRefused gh 1", "WebhooksUnmatched gh 1"]);
    expect(bench.sent).toEqual([]);
  });

  it("a cluster that is none of ours asks for nothing", async () => {
    const bench = createWebhookBench([github({ rules: [{ ...RULE, cluster: "$.repository.name" }] })]);
    expect((await postGitHub(bench)).body.refused[0].reasons).toEqual([
      "data.cluster: lanterns is none of this installation's clusters",
    ]);
  });

  it("an actor and a reason are one line of bounded length", async () => {
    const rules = [{ ...RULE, actor: "{{ $.sender.login }}", reason: "{{ $.repository.name }}" }];
    const bench = createWebhookBench([github({ rules })]);
    const payload = {
      ...GITHUB.deployment_status,
      sender: { login: `root\u001b[2J\r\n\u202e${"\ud83d\ude80".repeat(5_000)}` },
      repository: { name: `\u0000${"x".repeat(100_000)}` },
    };
    await postGitHub(bench, { body: JSON.stringify(payload) });
    const { actor = "", reason = "" } = bench.sent[0]?.message.data ?? {};
    expect(actor).toMatch(/^root \[2J \ud83d/);
    expect([actor.length, reason.length, actor.isWellFormed()]).toEqual([512, 1024, true]);
    expect(actor + reason).not.toMatch(/\p{Cc}|\u202e/u);
  });

  it("other methods are not known", async () => {
    const bench = createWebhookBench([github()]);
    const event = createEvent("gh", BODY, {});
    for (const method of ["GET", "PUT", "DELETE", "OPTIONS", "post"]) {
      const http = { ...event.requestContext.http, method };
      const result = await bench.event({ ...event, requestContext: { ...event.requestContext, http } });
      expect([result.statusCode, result.headers?.allow]).toEqual([405, "POST"]);
    }
  });

  it("the receiver's name may be left to the path", async () => {
    const bench = createWebhookBench([github()]);
    const { pathParameters: _, ...event } = createEvent("gh", BODY, {
      "x-github-event": "deployment_status",
      "x-hub-signature-256": signGitHub(SECRET, BODY),
    });
    expect((await bench.event(event)).statusCode).toBe(202);
    expect((await bench.event({ ...event, rawPath: "/webhooks/gh/x" })).statusCode).toBe(404);
  });

  it("nothing of a secret or a signature is in an answer or a log", async () => {
    const bench = createWebhookBench([github()]);
    const answers = [
      await postGitHub(bench),
      await postGitHub(bench, { secret: OTHER }),
      await postGitHub(bench, { body: "{" }),
    ];
    const text = JSON.stringify([answers, bench.logged]);
    for (const hidden of [SECRET, OTHER, signGitHub(SECRET, BODY), signGitHub(OTHER, BODY)]) {
      expect(text).not.toContain(hidden);
    }
  });
});
