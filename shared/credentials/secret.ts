import { GetSecretValueCommand, type SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { Fault } from "../domain/fault.ts";

/**
 * The text of a secret, by name or ARN.
 *
 * @throws Fault `Transient`, naming the secret: even a secret that is missing is no verification's fault, and messages
 *   that waited for it complete when it is there.
 */
export async function readSecret(client: SecretsManagerClient, id: string): Promise<string> {
  let text: string | undefined;
  try {
    ({ SecretString: text } = await client.send(new GetSecretValueCommand({ SecretId: id })));
  } catch (error) {
    const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new Fault("Transient", `secret ${id}: cannot be read: ${why}`, { cause: error });
  }
  if (text === undefined || text.trim() === "") {
    throw new Fault("Transient", `secret ${id}: holds no text; put the token into it as plain text`);
  }
  return text.trim();
}
