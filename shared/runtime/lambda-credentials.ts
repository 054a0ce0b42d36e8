import { fromEnv } from "@aws-sdk/credential-provider-env";

/**
 * Stands in the Lambda bundles for the SDK's chain of credential providers: a function always has its role's
 * credentials in its environment, and profiles, single sign-on and instance metadata would be a quarter of the bundle.
 */
export const defaultProvider = fromEnv;
