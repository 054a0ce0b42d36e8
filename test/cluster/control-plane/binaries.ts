/**
 * Where the programs of the control plane are.
 *
 * KUBEBUILDER_ASSETS names a folder with `etcd` and `kube-apiserver`, as it
 * does for envtest; without it they are taken from the folder that build.ts
 * fills.
 */
import { execFileSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { join, resolve } from "node:path";

export const repositoryRoot = resolve(import.meta.dirname, "../../..");

export interface Binaries {
  readonly etcd: string;
  readonly kubeApiserver: string;
  /** Undefined when it was not built: the tests that need it are skipped. */
  readonly rolloutsController: string | undefined;
}

/** The folder that build.ts fills and that git ignores. */
export function cacheFolder(): string {
  return process.env.TALLYMAN_CONTROL_PLANE_CACHE ?? join(repositoryRoot, ".cache", "control-plane");
}

/** Undefined unless both etcd and the API server are there. */
export function findBinaries(): Binaries | undefined {
  const assets = process.env.KUBEBUILDER_ASSETS;
  const folders = assets === undefined ? [cacheFolder()] : [assets, cacheFolder()];
  const find = (name: string) =>
    folders.map((folder) => join(folder, name)).find((file) => isExecutable(file));

  const etcd = find("etcd");
  const kubeApiserver = find("kube-apiserver");
  if (etcd === undefined || kubeApiserver === undefined) return undefined;
  return { etcd, kubeApiserver, rolloutsController: find("rollouts-controller") };
}

/**
 * Why there can be no control plane here, for a test to say aloud when it
 * skips itself; undefined when the programs exist or can be built.
 */
export function findObstacle(): string | undefined {
  if (findBinaries() !== undefined || goVersion() !== undefined) return undefined;
  return (
    "there is neither a built control plane (looked in KUBEBUILDER_ASSETS and in " +
    `${cacheFolder()}) nor a Go toolchain to build one with`
  );
}

/** The toolchain's version line, or undefined when there is no toolchain. */
export function goVersion(): string | undefined {
  try {
    return execFileSync("go", ["version"], { encoding: "utf8", stdio: "pipe" }).trim();
  } catch {
    return undefined;
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
