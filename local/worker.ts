import { isFault } from "../shared/domain/fault.ts";
import { createLog } from "../shared/runtime/powertools.ts";
import { startFunctions } from "./functions.ts";

/**
 * Process entry: the Lambda functions with their event sources, configured by the same environment as on Lambda.
 * `TALLYMAN_SWEEP_SECONDS` (60) and `TALLYMAN_WORKER_CONCURRENCY` (4 batches for each queue) are its own.
 */
const log = createLog("worker");

/** The variable's value when it is a positive number; otherwise the fallback. */
function readNumber(name: string, fallback: number): number {
  const value = Number(process.env[name]);
  return Number.isFinite(value) && value > 0 ? value : fallback;
}

try {
  const functions = await startFunctions({
    log,
    sweepEveryMs: readNumber("TALLYMAN_SWEEP_SECONDS", 60) * 1000,
    concurrency: readNumber("TALLYMAN_WORKER_CONCURRENCY", 4),
    waitSeconds: 1,
  });
  log.info("worker started", { pid: process.pid });
  let stopping = false;
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      if (stopping) return;
      stopping = true;
      functions
        .stop()
        .then(() => {
          log.info("worker stopped");
          // Keep-alive connections would hold the process for a while.
          process.exit(0);
        })
        .catch((error: unknown) => {
          log.error("the worker could not stop in order", { error });
          process.exit(1);
        });
    });
  }
} catch (error) {
  log.error("the worker cannot start", isFault(error) ? { reasons: error.reasons } : { error });
  process.exit(1);
}
