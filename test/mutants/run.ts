import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MUTANTS, type Mutant } from "./mutants.ts";

/**
 * Proves that the tests bite: `npm run test:mutants [-- WORD]` breaks a copy of the code on purpose, one fault at a
 * time, and fails unless each fault makes a test fail. With a word, only the mutants whose name contains it.
 */
const ROOT = join(import.meta.dirname, "../..");
const COPIED = [
  "shared",
  "functions",
  "local",
  "test",
  "tools",
  "docs",
  "deploy",
  "cli",
  "package.json",
  "tsconfig.json",
  "vitest.config.ts",
];

function runTests(copy: string, tests: readonly string[]): boolean {
  const vitest = join(copy, "node_modules/vitest/vitest.mjs");
  const { status } = spawnSync(process.execPath, [vitest, "run", "--bail", "1", ...tests], {
    cwd: copy,
    stdio: "ignore",
  });
  return status === 0;
}

function isCaught(copy: string, mutant: Mutant): boolean {
  const path = join(copy, mutant.file);
  const original = readFileSync(path, "utf8");
  const parts = original.split(mutant.find);
  if (parts.length !== 2) {
    throw new Error(
      `${mutant.file} holds ${parts.length - 1} times what mutant "${mutant.name}" wants to change`,
    );
  }
  writeFileSync(path, parts.join(mutant.replace));
  try {
    return !runTests(copy, mutant.tests);
  } finally {
    writeFileSync(path, original);
  }
}

const word = process.argv[2] ?? "";
const chosen = MUTANTS.filter((mutant) => mutant.name.includes(word));
const copy = mkdtempSync(join(tmpdir(), "tallyman-mutants-"));
try {
  for (const name of COPIED) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  symlinkSync(join(ROOT, ".cache"), join(copy, ".cache"));
  const files = [...new Set(chosen.flatMap((mutant) => mutant.tests))];
  if (!runTests(copy, files)) throw new Error(`the tests fail without any mutant: ${files.join(" ")}`);
  let missed = 0;
  for (const mutant of chosen) {
    const caught = isCaught(copy, mutant);
    if (!caught) missed++;
    console.log(`${caught ? "caught" : "MISSED"}  ${mutant.name}`);
  }
  console.log(`${chosen.length - missed} of ${chosen.length} mutants caught`);
  if (missed > 0 || chosen.length === 0) process.exitCode = 1;
} finally {
  rmSync(copy, { recursive: true, force: true });
}
