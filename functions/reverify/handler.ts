import { handleReverify } from "../../shared/operations/message.ts";
import { createWorker } from "../../shared/runtime/worker.ts";

/** Lambda: the `reverify` queue. */
export const handler = createWorker("reverify", handleReverify);
