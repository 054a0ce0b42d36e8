import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { RIGHTS } from "./rights.ts";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

describe("the rights that doctor checks", () => {
  it.each(["managed", "companion"] as const)("are those that deploy/rbac/%s.yaml grants", (mode) => {
    const text = readFileSync(join(import.meta.dirname, `../../deploy/rbac/${mode}.yaml`), "utf8");
    const granted = parseAllDocuments(text)
      .map((document) => document.toJS() as { kind: string; rules?: readonly Rule[] })
      .filter(({ kind }) => kind === "ClusterRole")
      .flatMap(({ rules = [] }) => rules)
      .flatMap(({ apiGroups, resources, verbs }) =>
        resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}.${apiGroups[0]}`)),
      );
    const checked = RIGHTS[mode].flatMap(({ group, resource, verbs }) =>
      verbs.map((verb) => `${verb} ${resource}.${group}`),
    );
    expect(checked.sort()).toEqual(granted.sort());
  });
});
