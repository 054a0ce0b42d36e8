#!/usr/bin/env node
// Runs cli/main.ts on the Node that package.json pins, as tools/run.mjs does, but from any folder: main.ts is
// TypeScript, which the Node 20 that a machine may have cannot read. Plain JavaScript for Node 20.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const main = join(root, "cli", "main.ts");
// kubectl finds its plugins by name; help then speaks of the command as it was typed.
const invokedAs = basename(process.argv[1] ?? "").startsWith("kubectl-") ? "kubectl tallyman" : "tallyman";
process.env.TALLYMAN_INVOKED_AS = invokedAs;

if (Number(process.versions.node.split(".")[0]) >= 24) {
  await import(pathToFileURL(main).href);
} else {
  const pinned = join(
    root,
    "node_modules",
    "node",
    "bin",
    process.platform === "win32" ? "node.exe" : "node",
  );
  if (!existsSync(pinned)) {
    console.error(
      `tallyman: this is Node ${process.versions.node} and the pinned Node 24 is not installed. Run: npm rebuild node`,
    );
    process.exit(1);
  }
  const child = spawn(pinned, [main, ...process.argv.slice(2)], { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
  // As a shell would say it: ended by a signal is no exit code of ours.
  child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
