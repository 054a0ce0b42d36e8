// Runs before `npm start` and `npm test`, on whatever Node the machine has: brings node_modules to
// what package-lock.json says, so that a fresh clone needs one command. Plain JavaScript for Node 20.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** True when npm's own record of what it installed lists the same packages as the lockfile. */
function isInstalled() {
  const record = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(record)) return false;
  const wanted = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  const have = JSON.parse(readFileSync(record, "utf8")).packages;
  return Object.entries(wanted).every(
    ([path, entry]) => path === "" || entry.optional || have[path]?.version === entry.version,
  );
}

if (!isInstalled()) {
  console.error("tallyman: installing dependencies (npm ci) …");
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const result = spawnSync(npm, ["ci", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    shell: process.platform === "win32",
  });
  if (result.status !== 0) {
    console.error("tallyman: npm ci failed; its output is above. Mend that and run the command again.");
    process.exit(result.status ?? 1);
  }
}
