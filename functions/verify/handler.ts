import { handleVerify } from "../../shared/operations/message.ts";
import { createWorker } from "../../shared/runtime/worker.ts";

/** Lambda: the `verify` queue. */
export const handler = createWorker("verify", handleVerify);
