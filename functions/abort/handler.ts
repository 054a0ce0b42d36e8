import { handleAbort } from "../../shared/operations/message.ts";
import { createWorker } from "../../shared/runtime/worker.ts";

/** Lambda: the `abort` queue. */
export const handler = createWorker("abort", handleAbort);
