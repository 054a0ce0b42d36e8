import { ArnFormat, Stack } from "aws-cdk-lib";
import { CfnAccessEntry } from "aws-cdk-lib/aws-eks";
import { PolicyStatement } from "aws-cdk-lib/aws-iam";
import { Construct } from "constructs";
import type { ClusterConfiguration } from "./configuration.ts";
import type { Lambda } from "./lambda.ts";

/** The Kubernetes group that the access entries put the functions in; `deploy/rbac` gives it its rights. */
const KUBERNETES_GROUP = { managed: "tallyman", companion: "tallyman-companion" } as const;

export interface ClusterAccessProps {
  /** As configured: the way in is read from it. */
  readonly cluster: ClusterConfiguration;
  /** The functions that talk to the cluster, by a name that stays. */
  readonly functions: Readonly<Record<string, Lambda>>;
}

/** Lets functions into a cluster: by access entries on EKS, elsewhere by the secret that they may read. */
export class ClusterAccess extends Construct {
  constructor(scope: Construct, id: string, { cluster, functions }: ClusterAccessProps) {
    super(scope, id);
    const { eks, tokenSecret, kubeconfigSecret } = cluster;
    const secret = tokenSecret ?? kubeconfigSecret;
    for (const [name, { role }] of Object.entries(functions)) {
      if (secret !== undefined) role.addToPolicy(this.allowReading(secret));
      if (eks?.accessEntries === true) {
        new CfnAccessEntry(this, name, {
          clusterName: eks.cluster,
          principalArn: role.roleArn,
          kubernetesGroups: [KUBERNETES_GROUP[cluster.mode ?? "managed"]],
        });
      }
    }
  }

  private allowReading(secret: string): PolicyStatement {
    return new PolicyStatement({
      actions: ["secretsmanager:GetSecretValue"],
      resources: [secret.startsWith("arn:") ? secret : this.findArn(secret)],
    });
  }

  /** Six characters that only Secrets Manager knows follow a secret's name in its ARN. */
  private findArn(name: string): string {
    return Stack.of(this).formatArn({
      service: "secretsmanager",
      resource: "secret",
      resourceName: `${name}-??????`,
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
  }
}
