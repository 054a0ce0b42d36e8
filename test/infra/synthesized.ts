import { type App, Stack } from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import { buildApp } from "../../infra/build-app.ts";

/** A configuration that says only what it must. */
export const CLUSTER = {
  name: "main",
  server: "https://kubernetes.example.com",
  tokenSecret: "tallyman/main/token",
};

export const RECEIVER = {
  name: "gh",
  type: "github",
  secrets: ["tallyman/webhooks/gh"],
  rules: [
    {
      name: "deployed",
      events: ["deployment_status"],
      when: [{ field: "$.deployment_status.state", equals: "success" }],
      command: "reverify",
      project: "lighthouse",
      stage: "$.deployment.environment",
    },
  ],
};

export interface Resource {
  readonly id: string;
  readonly properties: Readonly<Record<string, unknown>>;
  readonly [attribute: string]: unknown;
}

export interface Synthesized {
  readonly app: App;
  readonly template: Template;
  /** Resources of a type whose logical id begins with the text. */
  find(type: string, idPrefix?: string): Resource[];
}

/** The stack as it would be deployed. */
export function synthesize(configuration: object = { clusters: [CLUSTER] }): Synthesized {
  const app = buildApp({ context: { tallyman: configuration } });
  const template = Template.fromStack(app.node.children.find((child) => child instanceof Stack) as Stack);
  return {
    app,
    template,
    find: (type, idPrefix = "") =>
      Object.entries(template.findResources(type))
        .filter(([id]) => id.startsWith(idPrefix))
        .map(([id, resource]) => ({ ...resource, id, properties: resource.Properties ?? {} })),
  };
}
