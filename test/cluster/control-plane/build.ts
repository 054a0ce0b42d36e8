/**
 * Builds etcd, kube-apiserver and the Argo Rollouts controller from the
 * versions that go.mod pins. What is built already is left alone.
 *
 *   node test/cluster/control-plane/build.ts
 *
 * The first build takes minutes and the Go proxy; later ones take neither.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { type Binaries, cacheFolder, findBinaries, goVersion } from "./binaries.ts";

type Say = (line: string) => void;

interface Target {
  readonly name: string;
  readonly package: string;
  readonly linkerFlags: readonly string[];
  /** The rest is of use without it. */
  readonly isOptional: boolean;
}

const progressEveryMs = 15_000;
const here = import.meta.dirname;

/**
 * Finds the programs, building what is missing or was built from other
 * versions.
 * @throws when etcd or the API server cannot be built. A Rollouts controller
 *   that cannot be built is only reported, through `say`.
 */
export async function ensureBinaries(say: Say = console.log): Promise<Binaries> {
  const folder = cacheFolder();
  mkdirSync(folder, { recursive: true });
  const unlock = await lock(folder, say);
  try {
    for (const target of planTargets()) {
      try {
        await ensureTarget(target, folder, say);
      } catch (failure) {
        if (!target.isOptional) throw failure;
        say(`WARNING: ${target.name} could not be built; tests that need it are skipped.`);
        say(String(failure));
      }
    }
  } finally {
    unlock();
  }
  const binaries = findBinaries();
  if (binaries === undefined) throw new Error(`the build left nothing in ${folder}`);
  return binaries;
}

function planTargets(): Target[] {
  const kubernetes = pinnedVersion("k8s.io/kubernetes");
  const [major = "", minor = ""] = kubernetes.slice(1).split(".");
  const stamp = (name: string, value: string) => `-X k8s.io/component-base/version.${name}=${value}`;
  const own: Target[] = [
    {
      name: "etcd",
      package: "go.etcd.io/etcd/server/v3",
      linkerFlags: [],
      isOptional: false,
    },
    {
      name: "kube-apiserver",
      package: "k8s.io/kubernetes/cmd/kube-apiserver",
      // Outside its own release process the server would not know its version.
      linkerFlags: [stamp("gitVersion", kubernetes), stamp("gitMajor", major), stamp("gitMinor", minor)],
      isOptional: false,
    },
  ];
  const rollouts: Target = {
    name: "rollouts-controller",
    package: "github.com/argoproj/argo-rollouts/cmd/rollouts-controller",
    linkerFlags: [],
    isOptional: true,
  };
  return process.env.KUBEBUILDER_ASSETS !== undefined && findBinaries() !== undefined
    ? [rollouts]
    : [...own, rollouts];
}

function pinnedVersion(module: string): string {
  const pin = new RegExp(`^\\s*(?:require )?${module.replaceAll(".", "\\.")} (v\\S+)`, "m");
  const version = readFileSync(join(here, "go.mod"), "utf8").match(pin)?.[1];
  if (version === undefined) throw new Error(`go.mod does not require ${module}`);
  return version;
}

async function ensureTarget(target: Target, folder: string, say: Say): Promise<void> {
  const binary = join(folder, target.name);
  const stampFile = `${binary}.stamp`;
  const stamp = fingerprint(target);
  if (existsSync(binary) && hasContent(stampFile, stamp)) {
    say(`${target.name}: up to date`);
    return;
  }
  if (goVersion() === undefined) {
    if (!existsSync(binary)) throw new Error(`a Go toolchain is needed to build ${target.name}`);
    say(`WARNING: ${target.name} is of other versions than go.mod pins, and there is no Go toolchain`);
    return;
  }

  // A build that is interrupted must not leave something that looks finished.
  const unfinished = `${binary}.${process.pid}.tmp`;
  try {
    await compile(target, unfinished, say);
    renameSync(unfinished, binary);
    writeFileSync(stampFile, stamp);
  } finally {
    rmSync(unfinished, { force: true });
  }
}

function fingerprint(target: Target): string {
  const hash = createHash("sha256").update(JSON.stringify(target));
  for (const file of ["go.mod", "go.sum"]) hash.update(readFileSync(join(here, file)));
  return hash.digest("hex");
}

function hasContent(file: string, content: string): boolean {
  return existsSync(file) && readFileSync(file, "utf8") === content;
}

async function compile(target: Target, output: string, say: Say): Promise<void> {
  const started = performance.now();
  const seconds = () => Math.round((performance.now() - started) / 1000);
  const flags = ["-s", "-w", ...target.linkerFlags].join(" ");
  const go = ["go", "build", "-v", "-trimpath", "-ldflags", flags, "-o", output, target.package];
  say(`${target.name}: building ${target.package}`);

  // A test's build gives way to whatever else the machine is doing.
  const child = spawn("nice", ["-n", "10", ...go], {
    cwd: here,
    env: { ...process.env, CGO_ENABLED: "0" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lastLines: string[] = [];
  let packages = 0;
  createInterface({ input: child.stderr }).on("line", (line) => {
    packages += 1;
    lastLines.push(line);
    if (lastLines.length > 20) lastLines.shift();
  });
  const progress = setInterval(
    () => say(`${target.name}: ${packages} packages after ${seconds()} s`),
    progressEveryMs,
  );
  const [code] = await once(child, "close").finally(() => clearInterval(progress));
  if (code !== 0) throw new Error(`go build ${target.package} failed:\n${lastLines.join("\n")}`);
  say(`${target.name}: built in ${seconds()} s`);
}

/** Test files that start together must not each compile Kubernetes. */
async function lock(folder: string, say: Say): Promise<() => void> {
  const file = join(folder, "build.lock");
  let hasSaidSo = false;
  for (;;) {
    try {
      writeFileSync(file, String(process.pid), { flag: "wx" });
      return () => rmSync(file, { force: true });
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code !== "EEXIST") throw failure;
    }
    if (!isOwnerAlive(file)) {
      rmSync(file, { force: true });
      continue;
    }
    if (!hasSaidSo) say("waiting for another build of the control plane");
    hasSaidSo = true;
    await delay(500);
  }
}

function isOwnerAlive(file: string): boolean {
  try {
    process.kill(Number(readFileSync(file, "utf8")), 0);
    return true;
  } catch (failure) {
    // EPERM: alive, but another user's.
    return (failure as NodeJS.ErrnoException).code === "EPERM";
  }
}

if (import.meta.main) {
  const binaries = await ensureBinaries();
  console.log(binaries);
}
