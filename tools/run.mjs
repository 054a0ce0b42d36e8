// Runs a script on the Node that package.json pins. npm puts node_modules/.bin first in PATH, so this
// is normally that Node already; after `npm ci --ignore-scripts` it is the machine's own, without a
// word, and everything would run on the wrong version. Plain JavaScript for Node 20.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const [script, ...args] = process.argv.slice(2);
if (script === undefined) {
  console.error("usage: node tools/run.mjs SCRIPT [ARGUMENT …]");
  process.exit(2);
}
const target = resolve(root, script);

if (Number(process.versions.node.split(".")[0]) >= 24) {
  process.argv = [process.argv[0], target, ...args];
  await import(pathToFileURL(target).href);
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
  const child = spawn(pinned, [target, ...args], { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => process.exit(code ?? (signal ? 1 : 0)));
}
