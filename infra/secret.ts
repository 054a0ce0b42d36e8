import { ArnFormat, Stack } from "aws-cdk-lib";
import { PolicyStatement } from "aws-cdk-lib/aws-iam";
import type { Construct } from "constructs";

/** The statement that lets somebody read a secret, by name or ARN, and no other. */
export function allowReadingSecret(scope: Construct, secret: string): PolicyStatement {
  return new PolicyStatement({
    actions: ["secretsmanager:GetSecretValue"],
    resources: [secret.startsWith("arn:") ? secret : findArn(scope, secret)],
  });
}

/** Six characters that only Secrets Manager knows follow a secret's name in its ARN. */
function findArn(scope: Construct, name: string): string {
  return Stack.of(scope).formatArn({
    service: "secretsmanager",
    resource: "secret",
    resourceName: `${name}-??????`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}
