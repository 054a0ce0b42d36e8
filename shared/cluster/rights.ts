import type { Mode } from "../domain/policy.ts";

/** Verbs on one resource that Tallyman uses, and what for. `deploy/rbac/` grants exactly these. */
export interface Right {
  /** `""` is the core group. */
  readonly group: string;
  /** `stages`, or `stages/status` for a subresource. */
  readonly resource: string;
  readonly verbs: readonly string[];
  /** Completes the sentence "needed to …". */
  readonly purpose: string;
  /** True where Tallyman works without it, and only that purpose falls away. */
  readonly optional?: true;
}

const KARGO = "kargo.akuity.io";
const ROLLOUTS = "argoproj.io";

const STAGES: Right = {
  group: KARGO,
  resource: "stages",
  verbs: ["get", "list", "watch", "patch"],
  purpose: "watch Stages and handle their request annotations",
};
const APPLICATIONS: Right = {
  group: ROLLOUTS,
  resource: "applications",
  verbs: ["list", "watch"],
  purpose: "look again at the Stages that an Argo CD Application names",
  optional: true,
};
const EVENTS: Right = {
  group: "",
  resource: "events",
  verbs: ["create"],
  purpose: "tell of outcomes and refused requests where kubectl describe shows it",
};

const templates = (resource: string): Right => ({
  group: ROLLOUTS,
  resource,
  verbs: ["get", "list", "watch"],
  purpose: "build AnalysisRuns from templates and see when these change",
});

/** What a cluster has to allow, by who verifies there. */
export const RIGHTS: Readonly<Record<Mode, readonly Right[]>> = {
  managed: [
    STAGES,
    { group: KARGO, resource: "promotions", verbs: ["list"], purpose: "name Promotions that nobody saw" },
    {
      group: KARGO,
      resource: "freights",
      verbs: ["get", "list"],
      purpose: "own runs by their Freight, and let control flow pass",
    },
    ...["stages/status", "freights/status"].map((resource) => ({
      group: KARGO,
      resource,
      verbs: ["patch"],
      purpose: "write outcomes back",
    })),
    {
      group: ROLLOUTS,
      resource: "analysisruns",
      verbs: ["get", "list", "watch", "create", "patch"],
      purpose: "start, follow and terminate AnalysisRuns",
    },
    templates("analysistemplates"),
    templates("clusteranalysistemplates"),
    APPLICATIONS,
    EVENTS,
  ],
  companion: [
    STAGES,
    {
      group: ROLLOUTS,
      resource: "analysisruns",
      verbs: ["get", "list", "watch"],
      purpose: "record what AnalysisRuns report",
    },
    APPLICATIONS,
    EVENTS,
  ],
};
