import { CfnAccessEntry } from "aws-cdk-lib/aws-eks";
import { Construct } from "constructs";
import type { ClusterConfiguration } from "./configuration.ts";
import type { Lambda } from "./lambda.ts";
import { allowReadingSecret } from "./secret.ts";

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
      if (secret !== undefined) role.addToPolicy(allowReadingSecret(this, secret));
      if (eks?.accessEntries === true) {
        new CfnAccessEntry(this, name, {
          clusterName: eks.cluster,
          principalArn: role.roleArn,
          kubernetesGroups: [KUBERNETES_GROUP[cluster.mode ?? "managed"]],
        });
      }
    }
  }
}
