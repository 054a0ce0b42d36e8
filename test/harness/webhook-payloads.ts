/** Bodies as the senders write them, as far as rules look at them; names and numbers are made up. */

const repository = {
  id: 640_001_234,
  name: "lanterns",
  full_name: "quayside/lanterns",
  private: true,
  owner: { login: "quayside", id: 4_410_021, type: "Organization" },
  html_url: "https://github.example/quayside/lanterns",
  default_branch: "main",
};
const sender = { login: "mara-keeper", id: 7_702_119, type: "User", site_admin: false };
const COMMIT = "4be1c0ffee5a1dd00d1e2f3a4b5c6d7e8f901234";

const workflowRun = {
  id: 11_520_900_417,
  name: "smoke",
  head_branch: "main",
  head_sha: COMMIT,
  path: ".github/workflows/smoke.yaml",
  event: "workflow_dispatch",
  status: "completed",
  conclusion: "success",
  run_number: 212,
  run_attempt: 1,
  actor: sender,
  html_url: "https://github.example/quayside/lanterns/actions/runs/11520900417",
};

export const GITHUB = {
  /** Names the run that deployed: several things at once, of which one is the event. */
  deployment_status: {
    action: "created",
    deployment_status: {
      id: 3_300_817_205,
      state: "success",
      environment: "uat",
      description: "rolled out",
      creator: sender,
      created_at: "2030-01-02T03:04:00Z",
    },
    deployment: {
      id: 1_900_412_733,
      sha: COMMIT,
      ref: "main",
      task: "deploy",
      payload: { ticket: "QUAY-17" },
      environment: "uat",
      creator: sender,
    },
    check_run: { id: 32_010_555_002, name: "deploy / uat", status: "completed" },
    workflow: { id: 77_120_003, name: "deploy" },
    workflow_run: workflowRun,
    repository,
    organization: { login: "quayside", id: 4_410_021 },
    sender,
  },
  workflow_run: {
    action: "completed",
    workflow_run: workflowRun,
    workflow: { id: 77_120_004, name: "smoke", path: ".github/workflows/smoke.yaml", state: "active" },
    repository,
    sender,
  },
  check_run: {
    action: "completed",
    check_run: {
      id: 32_010_555_777,
      name: "contract tests",
      head_sha: COMMIT,
      external_id: "uat",
      status: "completed",
      conclusion: "failure",
      check_suite: { id: 28_001_777_345, head_branch: "main" },
      app: { id: 15_368, slug: "github-actions" },
    },
    repository,
    sender,
  },
  registry_package: {
    action: "published",
    registry_package: {
      id: 2_300_111,
      name: "lanterns",
      namespace: "quayside",
      ecosystem: "CONTAINER",
      package_type: "CONTAINER",
      package_version: {
        id: 99_002_113,
        version: "sha256:5f1c",
        container_metadata: { tag: { name: "2.14.0", digest: "sha256:5f1c" } },
      },
    },
    repository,
    sender,
  },
  ping: {
    zen: "Calm seas need no lighthouse.",
    hook_id: 410_223_991,
    hook: { type: "Repository" },
    repository,
    sender,
  },
} as const;

export const GITLAB = {
  deployment: {
    object_kind: "deployment",
    status: "success",
    status_changed_at: "2030-01-02 03:04:00 +0000",
    deployment_id: 5150,
    deployable_id: 90_441,
    environment: "uat",
    environment_tier: "staging",
    project: { id: 311, name: "lanterns", path_with_namespace: "quayside/lanterns" },
    short_sha: "4be1c0ff",
    user: { id: 71, name: "Mara Keeper", username: "mara" },
    ref: "main",
  },
  pipeline: {
    object_kind: "pipeline",
    object_attributes: {
      id: 20_177,
      iid: 44,
      ref: "main",
      sha: COMMIT,
      source: "push",
      status: "success",
      finished_at: "2030-01-02 03:04:00 UTC",
      variables: [{ key: "STAGE", value: "uat" }],
    },
    user: { id: 71, name: "Mara Keeper", username: "mara" },
    project: { id: 311, name: "lanterns", path_with_namespace: "quayside/lanterns" },
  },
} as const;

/** One alert of Prometheus; `stage` is a label of its rule. */
export function makeAlert(stage: string, status: "firing" | "resolved" = "firing", change: object = {}) {
  return {
    status,
    labels: {
      alertname: "ErrorBudgetBurn",
      namespace: "lighthouse",
      "kargo.akuity.io/stage": stage,
      severity: "page",
    },
    annotations: {
      summary: `errors in ${stage} burn the budget`,
      runbook_url: "https://runbooks.example/burn",
    },
    startsAt: "2030-01-02T03:00:00.123Z",
    endsAt: status === "firing" ? "0001-01-01T00:00:00Z" : "2030-01-02T03:04:00Z",
    generatorURL: "https://prometheus.example/graph?g0.expr=burn",
    fingerprint: `c0ffee00${Buffer.from(stage).toString("hex").padEnd(8, "0").slice(0, 8)}`,
    ...change,
  };
}

/** A group, as Alertmanager posts it. */
export function makeAlertGroup(alerts: readonly object[]) {
  return {
    version: "4",
    groupKey: '{}/{severity="page"}:{alertname="ErrorBudgetBurn"}',
    truncatedAlerts: 0,
    status: "firing",
    receiver: "tallyman",
    groupLabels: { alertname: "ErrorBudgetBurn" },
    commonLabels: { alertname: "ErrorBudgetBurn", namespace: "lighthouse", severity: "page" },
    commonAnnotations: {},
    externalURL: "https://alertmanager.example",
    alerts,
  };
}

/** What a template of Argo CD Notifications as in docs/webhooks.md makes. */
export const ARGOCD = {
  application: "lanterns-uat",
  annotations: { "kargo.akuity.io/authorized-stage": "lighthouse:uat" },
  project: "lighthouse",
  stage: "uat",
  phase: "Succeeded",
  revision: COMMIT,
  finishedAt: "2030-01-02T03:04:00Z",
} as const;
