/**
 * The real Argo Rollouts controller, which carries out AnalysisRuns, beside
 * the API server of a test.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type StartedProcess, startProcess, waitUntil } from "./process.ts";

/**
 * The controller offers metrics and health on all interfaces and has no flag
 * for the address. It goes on when it cannot listen, and this is no port.
 */
const noPort = "99999";

/**
 * Starts the controller and resolves when its caches are filled and its
 * workers run. The CRDs of AnalysisRun, AnalysisTemplate and
 * ClusterAnalysisTemplate have to be there.
 *
 * There is no Job controller in this control plane: a `job` metric stays
 * Running. `web` and other metrics that the controller measures by itself work.
 */
export async function launchRolloutsController(options: {
  readonly binary: string;
  readonly kubeconfigPath: string;
  readonly dir: string;
}): Promise<StartedProcess> {
  const logFile = join(options.dir, "rollouts-controller.log");
  const alreadyLogged = readIfPresent(logFile).length;
  const controller = await startProcess({
    command: options.binary,
    args: [
      `--kubeconfig=${options.kubeconfigPath}`,
      "--controllers=analysis",
      "--leader-elect=false",
      `--metricsPort=${noPort}`,
      `--healthzPort=${noPort}`,
    ],
    logFile,
  });
  try {
    await waitUntil(
      "the Argo Rollouts controller",
      async () => readIfPresent(logFile).slice(alreadyLogged).includes("Started controller") || undefined,
      { process: controller },
    );
  } catch (failure) {
    await controller.stop("SIGKILL");
    throw failure;
  }
  return controller;
}

function readIfPresent(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
