import { createHash } from "node:crypto";
import { SANDBOX_PLUGIN } from "../sandbox/rollouts/providers.ts";
import type { ClusterObject, ClusterWriter } from "./cluster-writer.ts";
import type { FreightChoice } from "./promotions.ts";

/** The demo's Project: a made-up shop by a made-up harbour. */
export const PROJECT = "harbour-shop";

const KARGO = "kargo.akuity.io/v1alpha1";
const ROLLOUTS = "argoproj.io/v1alpha1";
const IMAGES = "images.example.com/harbour-shop";

/** One demo Freight; `alias` is how people call it. */
export interface DemoFreight extends FreightChoice {
  readonly alias: string;
}

function makeFreight(alias: string, warehouse: string, tags: Readonly<Record<string, string>>): DemoFreight {
  const images = Object.entries(tags).map(([image, tag]) => ({
    repoURL: `${IMAGES}/${image}`,
    tag,
    digest: `sha256:${digest("sha256", `${image}:${tag}`)}`,
  }));
  const parts = images.map((image) => `${image.repoURL}:${image.tag}@${image.digest}`).sort();
  return { alias, warehouse, images, name: digest("sha1", `Warehouse/${warehouse}:${parts.join("|")}`) };
}

function digest(algorithm: string, text: string): string {
  return createHash(algorithm).update(text).digest("hex");
}

export const FREIGHT = {
  otter: makeFreight("brisk-otter", "storefront", { web: "v1.4.0", api: "v2.1.0" }),
  heron: makeFreight("calm-heron", "storefront", { web: "v1.5.0", api: "v2.1.0" }),
  magpie: makeFreight("tidy-magpie", "payments", { payments: "v0.9.2" }),
} as const satisfies Record<string, DemoFreight>;

/** A metric whose measurements the template itself says; see the sandbox's Rollouts controller. */
function scripted(name: string, more: object, script: object): object {
  return { name, interval: "1s", ...more, provider: { plugin: { [SANDBOX_PLUGIN]: script } } };
}

function template(name: string, metrics: readonly object[], args: readonly object[] = []): ClusterObject {
  return {
    apiVersion: ROLLOUTS,
    kind: "AnalysisTemplate",
    metadata: { name, namespace: PROJECT },
    spec: { ...(args.length === 0 ? {} : { args }), metrics },
  };
}

function stage(
  name: string,
  requested: readonly { readonly warehouse: string; readonly from?: string }[],
  templates: readonly string[],
  more: { readonly args?: readonly object[]; readonly vars?: readonly object[] } = {},
): ClusterObject {
  return {
    apiVersion: KARGO,
    kind: "Stage",
    metadata: { name, namespace: PROJECT },
    spec: {
      requestedFreight: requested.map(({ warehouse, from }) => ({
        origin: { kind: "Warehouse", name: warehouse },
        sources: from === undefined ? { direct: true } : { stages: [from] },
      })),
      promotionTemplate: { spec: { steps: [{ uses: "set-metadata" }] } },
      ...(more.vars === undefined ? {} : { vars: more.vars }),
      verification: {
        analysisTemplates: templates.map((each) => ({ name: each })),
        ...(more.args === undefined ? {} : { args: more.args }),
      },
    },
  };
}

function warehouse(name: string, images: readonly string[]): ClusterObject {
  return {
    apiVersion: KARGO,
    kind: "Warehouse",
    metadata: { name, namespace: PROJECT },
    spec: {
      interval: "5m0s",
      subscriptions: images.map((image) => ({ image: { repoURL: `${IMAGES}/${image}` } })),
    },
  };
}

/** In percent; the checkout's error rate is always 0.8. */
const TIGHT_BUDGET = "0.5";
const FAIR_BUDGET = "1.0";
const budgetVars = (errorBudget: string): readonly object[] => [{ name: "errorBudget", value: errorBudget }];

const OBJECTS: readonly ClusterObject[] = [
  {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: PROJECT, labels: { "kargo.akuity.io/project": "true" } },
  },
  { apiVersion: KARGO, kind: "Project", metadata: { name: PROJECT } },
  warehouse("storefront", ["web", "api"]),
  warehouse("payments", ["payments"]),
  template("smoke", [scripted("pages-load", { count: 3 }, { outcomes: ["Successful"], value: "200" })]),
  template("latency", [
    // One slow answer of four is tolerated; the measurements show it, the verification passes.
    scripted(
      "p95-milliseconds",
      { count: 4, successCondition: "result < 250", failureLimit: 1 },
      { values: ["181", "312", "164", "158"] },
    ),
  ]),
  template(
    "error-budget",
    [
      scripted(
        "checkout-error-percent",
        { count: 3, successCondition: "result < {{args.limit}}", failureLimit: 1 },
        { values: ["0.8"] },
      ),
    ],
    [{ name: "limit" }],
  ),
  template("soak", [scripted("orders-go-through", { count: 4 }, { outcomes: ["Successful"], value: "17" })]),
  stage("dev", [{ warehouse: "storefront" }], ["smoke"]),
  stage("qa", [{ warehouse: "storefront", from: "dev" }], ["smoke", "latency"]),
  stage("prod", [{ warehouse: "storefront", from: "qa" }], ["soak"]),
  stage("checkout", [{ warehouse: "storefront", from: "dev" }, { warehouse: "payments" }], ["error-budget"], {
    vars: budgetVars(TIGHT_BUDGET),
    // A text that looks like a number would else become one.
    args: [{ name: "limit", value: `\${{ quote(vars.errorBudget) }}` }],
  }),
  ...Object.values(FREIGHT).map(
    (freight): ClusterObject => ({
      apiVersion: KARGO,
      kind: "Freight",
      metadata: {
        name: freight.name,
        namespace: PROJECT,
        labels: { "kargo.akuity.io/alias": freight.alias },
      },
      alias: freight.alias,
      origin: { kind: "Warehouse", name: freight.warehouse },
      images: freight.images,
    }),
  ),
];

/** Creates what is not there yet; what is stays as it is. */
export async function seedShop(writer: ClusterWriter): Promise<void> {
  for (const object of OBJECTS) await writer.create(object);
}

/** Whether Freight has been promoted in this cluster before. */
export async function wasPlayed(writer: ClusterWriter): Promise<boolean> {
  const dev = await writer.get("Stage", PROJECT, "dev");
  return dev?.status !== undefined;
}

/** Sets the error budget that `checkout` is verified against: tight, it fails; fair, it passes. */
export async function setErrorBudget(writer: ClusterWriter, budget: "tight" | "fair"): Promise<void> {
  const vars = budgetVars(budget === "tight" ? TIGHT_BUDGET : FAIR_BUDGET);
  await writer.patch("Stage", PROJECT, "checkout", { spec: { vars } });
}
