import { ConditionalCheckFailedException } from "@aws-sdk/client-dynamodb";
import { Fault, isFault } from "../domain/fault.ts";

/**
 * Runs one SDK call; whatever goes wrong is `Transient`: no answer of DynamoDB may change a phase. A condition that does
 * not hold comes through as it is.
 */
export async function callDynamoDb<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (isFault(error) || error instanceof ConditionalCheckFailedException) throw error;
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new Fault("Transient", `the ledger did not take part: ${text}`, { cause: error });
  }
}
