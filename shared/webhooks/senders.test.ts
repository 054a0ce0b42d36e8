import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ARGOCD, GITHUB, GITLAB, makeAlert, makeAlertGroup } from "../../test/harness/webhook-payloads.ts";
import { createWebhookBench, NOW, signGitHub, signStandard } from "../../test/harness/webhooks.ts";

const SECONDS = NOW / 1000;
const SECRET = "a secret that nobody would guess";
const WHSEC = `whsec_${Buffer.from("thirty-two bytes, or near enough").toString("base64")}`;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const secrets = [{ literal: SECRET }];
const json = (value: unknown): string => JSON.stringify(value);

describe("GitHub", () => {
  const bench = () =>
    createWebhookBench([
      {
        name: "gh",
        type: "github",
        secrets,
        rules: [
          {
            name: "deployed",
            events: ["deployment_status"],
            when: [
              { field: "$.deployment_status.state", equals: "success" },
              { field: "$.repository.full_name", in: ["quayside/lanterns", "quayside/bells"] },
            ],
            command: "reverify",
            project: "lighthouse",
            stage: "$.deployment.environment",
            actor: "github:{{ $.sender.login }}",
            reason: "{{ $.deployment.ref }} was deployed",
          },
          {
            name: "tested",
            events: ["workflow_run", "check_run"],
            when: [{ field: "$.action", equals: "completed" }],
            command: "verify",
            project: "$.repository.name",
            stage: "uat",
          },
          {
            name: "published",
            events: ["registry_package"],
            when: [
              {
                field: "$.registry_package.package_version.container_metadata.tag.name",
                matches: "\\d+\\.\\d+\\.\\d+",
              },
            ],
            command: "verify",
            cluster: "island",
            project: "lighthouse",
            stage: "dev",
          },
        ],
      },
    ]);
  const post = (event: string, payload: object, own = bench()) => {
    const body = json(payload);
    const headers = {
      "X-GitHub-Event": event,
      "X-GitHub-Delivery": "5d9b7a3e-28fd-11f0-9c0e-0a1b2c3d4e5f",
      "X-Hub-Signature-256": signGitHub(SECRET, body),
    };
    return own.post({ to: "gh", body, headers }).then((answer) => ({ ...answer, sent: own.sent }));
  };

  it("a deployment that succeeded reverifies the Stage of its environment, in its sender's name", async () => {
    const { status, body, sent } = await post("deployment_status", GITHUB.deployment_status);
    expect(status).toBe(202);
    expect(body).toEqual({
      requests: [
        {
          id: expect.stringMatching(UUID),
          rule: "deployed",
          command: "reverify",
          project: "lighthouse",
          stage: "uat",
        },
      ],
    });
    expect(sent).toEqual([
      {
        kind: "reverify",
        message: {
          specversion: "1.0",
          id: body.requests[0].id,
          source: "tallyman/webhook/gh",
          type: "dev.tallyman.reverify",
          time: "2030-01-02T03:04:05.000Z",
          datacontenttype: "application/json",
          data: {
            project: "lighthouse",
            stage: "uat",
            actor: "github:mara-keeper",
            reason: "main was deployed",
          },
        },
      },
    ]);
  });

  it("a run, a check and a package each ask for what their rule says", async () => {
    const run = await post("workflow_run", GITHUB.workflow_run);
    expect(run.sent[0]).toMatchObject({
      kind: "verify",
      message: { data: { project: "lanterns", actor: "webhook:gh" } },
    });
    const check = await post("check_run", GITHUB.check_run);
    expect(check.sent[0]?.message.data).toMatchObject({ stage: "uat" });
    const published = await post("registry_package", GITHUB.registry_package);
    expect(published.sent[0]?.message.data).toMatchObject({ cluster: "island", stage: "dev" });
  });

  it("a ping, an event that nobody asked for and one whose conditions do not hold ask for nothing", async () => {
    const failed = {
      ...GITHUB.deployment_status,
      deployment_status: { ...GITHUB.deployment_status.deployment_status, state: "failure" },
    };
    for (const answer of [
      await post("ping", GITHUB.ping),
      await post("push", { ref: "refs/heads/main" }),
      await post("deployment_status", failed),
    ]) {
      expect(answer).toMatchObject({ status: 202, body: { requests: [] }, sent: [] });
    }
  });

  it.each([
    ["deployment_status", "workflow_run"],
    ["deployment_status", "check_run"],
    ["workflow_run", "deployment_status"],
    ["check_run", "registry_package"],
  ] as const)("the body of %s is not taken for %s, whatever the header says", async (event, claimed) => {
    const answer = await post(claimed, GITHUB[event]);
    expect(answer).toMatchObject({ status: 400, sent: [] });
    expect(answer.body.detail).toContain(claimed);
  });

  it("a body without the event's name is not understood", async () => {
    const own = bench();
    const body = json(GITHUB.check_run);
    const headers = { "X-Hub-Signature-256": signGitHub(SECRET, body) };
    expect(await own.post({ to: "gh", body, headers })).toMatchObject({ status: 400 });
  });

  it.each<[what: string, headers: Record<string, string>]>([
    ["no signature", {}],
    [
      "an old signature",
      { "X-Hub-Signature": `sha1=${createHmac("sha1", SECRET).update("{}").digest("hex")}` },
    ],
    ["another secret's", { "X-Hub-Signature-256": signGitHub("another secret, of some length", "{}") }],
    ["another body's", { "X-Hub-Signature-256": signGitHub(SECRET, "{ }") }],
    ["one without prefix", { "X-Hub-Signature-256": signGitHub(SECRET, "{}").slice(7) }],
    ["half of one", { "X-Hub-Signature-256": signGitHub(SECRET, "{}").slice(0, 39) }],
    ["an empty one", { "X-Hub-Signature-256": "sha256=" }],
    ["one with something behind", { "X-Hub-Signature-256": `${signGitHub(SECRET, "{}")}zz` }],
    ["two of which one fits", { "X-Hub-Signature-256": `sha256=00,${signGitHub(SECRET, "{}")}` }],
    ["one of an empty key", { "X-Hub-Signature-256": signGitHub("", "{}") }],
  ])("%s is not let in, nor is the body looked at", async (_what, headers) => {
    const own = bench();
    const answer = await own.post({
      to: "gh",
      body: "{}",
      headers: { "X-GitHub-Event": "ping", ...headers },
    });
    expect(answer.status).toBe(401);
    expect(answer.headers["www-authenticate"]).toBeDefined();
    expect(own.sent).toEqual([]);
  });
});

describe("GitLab", () => {
  const rules = [
    {
      name: "deployed",
      events: ["deployment"],
      when: [{ field: "$.status", equals: "success" }],
      command: "reverify",
      project: "lighthouse",
      stage: "$.environment",
      actor: "gitlab:{{ $.user.username }}",
    },
    {
      name: "piped",
      events: ["pipeline"],
      command: "verify",
      project: "lighthouse",
      stage: "$.object_attributes.variables[0].value",
    },
  ];
  const signed = () =>
    createWebhookBench([
      { name: "gl", type: "gitlab", authentication: "signing-token", secrets: [{ literal: WHSEC }], rules },
    ]);

  it("a signing token signs id, time and body", async () => {
    const bench = signed();
    const body = json(GITLAB.deployment);
    const headers = {
      "X-Gitlab-Event": "Deployment Hook",
      ...signStandard(WHSEC, "e2c1f1a0-77aa", SECONDS, body),
    };
    expect(await bench.post({ to: "gl", body, headers })).toMatchObject({ status: 202 });
    expect(bench.sent[0]?.message.data).toMatchObject({ stage: "uat", actor: "gitlab:mara" });
    const other = await bench.post({ to: "gl", body: body.replace("uat", "prd"), headers });
    expect(other.status).toBe(401);
  });

  it("where it signs, the secret token alone opens nothing", async () => {
    const body = json(GITLAB.deployment);
    expect(await signed().post({ to: "gl", body, headers: { "X-Gitlab-Token": WHSEC } })).toMatchObject({
      status: 401,
    });
  });

  it("a secret token travels in its header", async () => {
    const bench = createWebhookBench([
      { name: "gl", type: "gitlab", authentication: "secret-token", secrets, rules },
    ]);
    const body = json(GITLAB.pipeline);
    expect(await bench.post({ to: "gl", body, headers: { "X-Gitlab-Token": SECRET } })).toMatchObject({
      status: 202,
    });
    expect(bench.sent[0]).toMatchObject({ kind: "verify", message: { data: { stage: "uat" } } });
    for (const token of ["", SECRET.slice(0, -1), `${SECRET}x`, SECRET.toUpperCase()]) {
      expect(await bench.post({ to: "gl", body, headers: { "X-Gitlab-Token": token } })).toMatchObject({
        status: 401,
      });
    }
  });
});

describe("Standard Webhooks", () => {
  const bench = () =>
    createWebhookBench([
      {
        name: "std",
        type: "standard-webhooks",
        secrets: [{ literal: WHSEC }],
        rules: [
          {
            name: "stop",
            events: ["release.withdrawn"],
            command: "abort",
            project: "$.data.project",
            stage: "$.data.stage",
            verificationId: "$.data.verification",
          },
        ],
      },
    ]);
  const body = json({
    type: "release.withdrawn",
    timestamp: "2030-01-02T03:04:05Z",
    data: { project: "lighthouse", stage: "uat", verification: "0b7d1d0c-9d5b-5a51-9e7e-2f0e6c7b8a90" },
  });

  it("a signed event asks for what its rule says", async () => {
    const own = bench();
    const answer = await own.post({
      to: "std",
      body,
      headers: signStandard(WHSEC, "msg_2Lr0", SECONDS, body),
    });
    expect(answer.status).toBe(202);
    expect(own.sent[0]).toMatchObject({
      kind: "abort",
      message: { data: { stage: "uat", verificationId: "0b7d1d0c-9d5b-5a51-9e7e-2f0e6c7b8a90" } },
    });
  });

  it("one of several signatures has to fit, as while a sender changes its secret", async () => {
    const headers = signStandard(WHSEC, "msg_2Lr0", SECONDS, body);
    const many = `v1,${Buffer.alloc(32).toString("base64")} v1a,${"A".repeat(86)}== ${headers["webhook-signature"]}`;
    expect(
      await bench().post({ to: "std", body, headers: { ...headers, "webhook-signature": many } }),
    ).toMatchObject({
      status: 202,
    });
    const joined = many.replaceAll(" ", ",");
    expect(
      await bench().post({ to: "std", body, headers: { ...headers, "webhook-signature": joined } }),
    ).toMatchObject({
      status: 401,
    });
  });

  it.each([
    ["five minutes old", -300, 202],
    ["five minutes ahead", 300, 202],
    ["older", -301, 401],
    ["further ahead", 301, 401],
  ])("a signature that is %s is answered accordingly", async (_what, seconds, status) => {
    const headers = signStandard(WHSEC, "msg_2Lr0", SECONDS + seconds, body);
    expect((await bench().post({ to: "std", body, headers })).status).toBe(status);
  });

  it.each(["webhook-id", "webhook-timestamp", "webhook-signature"])(
    "without %s nothing is let in",
    async (name) => {
      const { [name]: _, ...headers } = signStandard(WHSEC, "msg_2Lr0", SECONDS, body);
      expect((await bench().post({ to: "std", body, headers })).status).toBe(401);
    },
  );

  it("a time that is none, and an id that reaches into what is signed beside it, are not let in", async () => {
    for (const [id, time] of [
      ["msg_1", `${SECONDS}.0`],
      ["msg_1", `0x${SECONDS.toString(16)}`],
      ["msg_1", "NaN"],
      ["msg_1", ` ${SECONDS}`],
      [`a.${SECONDS}`, String(SECONDS)],
      ["a b", String(SECONDS)],
    ] as const) {
      const headers = signStandard(WHSEC, id, time as unknown as number, body);
      expect((await bench().post({ to: "std", body, headers })).status).toBe(401);
    }
  });
});

describe("Alertmanager", () => {
  const receiver = {
    name: "am",
    type: "alertmanager",
    authentication: "bearer",
    secrets,
    rules: [
      {
        name: "burning",
        when: [{ field: '$.alert.labels["kargo.akuity.io/stage"]', exists: true }],
        command: "reverify",
        project: "$.alert.labels.namespace",
        stage: '$.alert.labels["kargo.akuity.io/stage"]',
        actor: "alertmanager:{{ $.group.receiver }}",
        reason: "{{ $.alert.annotations.summary }}",
      },
    ],
  };
  const bearer = { Authorization: `Bearer ${SECRET}` };

  it("each alert of a group that matches asks for itself", async () => {
    const bench = createWebhookBench([receiver]);
    const other = makeAlert("x", "firing", { labels: { alertname: "Watchdog" } });
    const body = json(
      makeAlertGroup([makeAlert("uat"), makeAlert("qa"), makeAlert("dev", "resolved"), other]),
    );
    const answer = await bench.post({ to: "am", body, headers: bearer });
    expect(answer.status).toBe(202);
    expect(bench.sent.map(({ message }) => message.data)).toEqual(
      ["uat", "qa"].map((stage) => ({
        project: "lighthouse",
        stage,
        actor: "alertmanager:tallyman",
        reason: `errors in ${stage} burn the budget`,
      })),
    );
    expect(answer.body.requests).toHaveLength(2);
  });

  it("an alert that comes again with a group that grew is the same request, and a new firing is a new one", async () => {
    const bench = createWebhookBench([receiver]);
    const ids = async (alerts: object[]) => {
      const { body } = await bench.post({ to: "am", body: json(makeAlertGroup(alerts)), headers: bearer });
      return body.requests.map(({ id }: { id: string }) => id);
    };
    const [first] = await ids([makeAlert("uat")]);
    const grown = await ids([makeAlert("qa"), makeAlert("uat")]);
    expect(grown[1]).toBe(first);
    expect(grown[0]).not.toBe(first);
    const [again] = await ids([makeAlert("uat", "firing", { startsAt: "2030-01-02T04:00:00Z" })]);
    expect(again).not.toBe(first);
  });

  it("alerts without a fingerprint are told apart by their place in the group", async () => {
    const bench = createWebhookBench([receiver]);
    const bare = (stage: string) => makeAlert(stage, "firing", { fingerprint: undefined });
    const body = json(makeAlertGroup([bare("uat"), bare("qa")]));
    const answer = await bench.post({ to: "am", body, headers: bearer });
    expect(new Set(answer.body.requests.map(({ id }: { id: string }) => id)).size).toBe(2);
    const other = await bench.post({ to: "am", body: json(makeAlertGroup([bare("qa")])), headers: bearer });
    expect(answer.text).not.toContain(other.body.requests[0].id);
  });

  it("user and password open it where it asks for them", async () => {
    const basic = `alerts:${SECRET}`;
    const bench = createWebhookBench([
      { ...receiver, authentication: "basic", secrets: [{ literal: basic }] },
    ]);
    const body = json(makeAlertGroup([makeAlert("uat")]));
    const post = (value: string) => bench.post({ to: "am", body, headers: { Authorization: value } });
    const encode = (text: string): string => Buffer.from(text).toString("base64");
    expect(await post(`Basic ${encode(basic)}`)).toMatchObject({ status: 202 });
    expect(await post(`basic ${encode(basic)}`)).toMatchObject({ status: 202 });
    for (const value of [
      `Basic ${encode(`alerts:${SECRET}x`)}`,
      `Basic ${encode(basic)}!`,
      `Bearer ${basic}`,
      basic,
    ]) {
      expect((await post(value)).status).toBe(401);
    }
  });

  it.each([
    ["no alerts", { alerts: undefined }],
    ["alerts that are none", { alerts: [1] }],
    ["a list in a list", { alerts: [[]] }],
    ["an object of alerts", { alerts: { length: 1 } }],
    ["too many alerts", { alerts: Array.from({ length: 1001 }, () => ({})) }],
  ])("a group with %s is not understood", async (_what, change) => {
    const body = json({ ...makeAlertGroup([]), ...change });
    const answer = await createWebhookBench([receiver]).post({ to: "am", body, headers: bearer });
    expect(answer).toMatchObject({ status: 400, body: { detail: expect.stringContaining("alerts: ") } });
  });

  it("a group that asks for too much is refused whole", async () => {
    const bench = createWebhookBench([receiver]);
    const alerts = Array.from({ length: 51 }, (_, index) =>
      makeAlert(`s-${index}`, "firing", { fingerprint: `f${index}` }),
    );
    expect(await bench.post({ to: "am", body: json(makeAlertGroup(alerts)), headers: bearer })).toMatchObject(
      { status: 400 },
    );
    expect(bench.sent).toEqual([]);
  });
});

describe("Argo CD Notifications", () => {
  const rules = [
    {
      name: "synced",
      when: [{ field: "$.phase", equals: "Succeeded" }],
      command: "reverify",
      project: "$.project",
      stage: "$.stage",
      reason: "{{ $.application }} is at {{ $.revision }}",
    },
  ];
  const body = json(ARGOCD);

  it("a header that the service adds is the secret", async () => {
    const bench = createWebhookBench([{ name: "argo", type: "argocd", secrets, rules }]);
    expect(await bench.post({ to: "argo", body, headers: { "X-Tallyman-Token": SECRET } })).toMatchObject({
      status: 202,
    });
    expect(bench.sent[0]?.message.data).toMatchObject({ project: "lighthouse", stage: "uat" });
    expect((await bench.post({ to: "argo", body, headers: { Authorization: SECRET } })).status).toBe(401);
  });

  it("in Authorization it is a bearer token", async () => {
    const bench = createWebhookBench([
      { name: "argo", type: "argocd", header: "Authorization", secrets, rules },
    ]);
    expect(
      (await bench.post({ to: "argo", body, headers: { Authorization: `Bearer ${SECRET}` } })).status,
    ).toBe(202);
    expect((await bench.post({ to: "argo", body, headers: { Authorization: SECRET } })).status).toBe(401);
  });

  it("where something on the way signs, the signature counts and the token does not", async () => {
    const signature = { header: "X-Signature", algorithm: "sha512", encoding: "base64" };
    const bench = createWebhookBench([{ name: "argo", type: "argocd", signature, secrets, rules }]);
    const value = createHmac("sha512", SECRET).update(body).digest("base64");
    expect((await bench.post({ to: "argo", body, headers: { "X-Signature": value } })).status).toBe(202);
    expect((await bench.post({ to: "argo", body, headers: { "X-Tallyman-Token": SECRET } })).status).toBe(
      401,
    );
  });
});

describe("any sender with an HMAC", () => {
  const body = json({ project: "lighthouse", stage: "uat", build: 4711 });
  const rules = [
    {
      name: "built",
      command: "verify",
      project: "$.project",
      stage: "$.stage",
      actor: "build {{ $.build }}",
    },
  ];
  const bench = (signature: object) =>
    createWebhookBench([{ name: "any", type: "generic", signature, secrets, rules }]);

  it.each([
    ["sha256", "hex", ""],
    ["sha256", "base64", "sig="],
    ["sha512", "hex", "v1:"],
    ["sha512", "base64", ""],
  ] as const)("%s in %s behind '%s'", async (algorithm, encoding, prefix) => {
    const own = bench({ header: "X-Sig", algorithm, encoding, prefix });
    const signed = prefix + createHmac(algorithm, SECRET).update(body).digest(encoding);
    expect(await own.post({ to: "any", body, headers: { "x-sig": signed } })).toMatchObject({ status: 202 });
    expect(own.sent[0]?.message.data.actor).toBe("build 4711");
    const wrong = prefix + createHmac(algorithm, SECRET).update(`${body} `).digest(encoding);
    expect((await own.post({ to: "any", body, headers: { "x-sig": wrong } })).status).toBe(401);
  });

  it("a time that is signed bounds a replay", async () => {
    const signature = {
      header: "X-Slack-Signature",
      algorithm: "sha256",
      encoding: "hex",
      prefix: "v0=",
      timestampHeader: "X-Slack-Request-Timestamp",
      content: "v0:{timestamp}:{body}",
    };
    const post = (seconds: number, signedSeconds = seconds) => {
      const mac = createHmac("sha256", SECRET).update(`v0:${signedSeconds}:${body}`).digest("hex");
      const headers = { "X-Slack-Signature": `v0=${mac}`, "X-Slack-Request-Timestamp": String(seconds) };
      return bench(signature).post({ to: "any", body, headers });
    };
    expect((await post(SECONDS)).status).toBe(202);
    expect((await post(SECONDS - 301)).status).toBe(401);
    expect((await post(SECONDS, SECONDS - 301)).status).toBe(401);
  });

  it("an id that is signed tells one delivery from another with the same body", async () => {
    const own = bench({
      ...{ header: "X-Sig", algorithm: "sha256", encoding: "hex", idHeader: "X-Id", content: "{id}.{body}" },
    });
    const post = async (id: string, signedId = id) => {
      const mac = createHmac("sha256", SECRET).update(`${signedId}.${body}`).digest("hex");
      return own.post({ to: "any", body, headers: { "X-Sig": mac, "X-Id": id } });
    };
    const [first, again, second] = [await post("one"), await post("one"), await post("two")];
    expect(again.text).toBe(first.text);
    expect(second.body.requests[0].id).not.toBe(first.body.requests[0].id);
    expect((await post("three", "one")).status).toBe(401);
  });
});
