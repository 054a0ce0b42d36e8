import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The npm package that carries the jar; pinned, since another version may carry another DynamoDB Local. */
const PACKAGE = "amplify-dynamodb-simulator@2.9.30";
const HOME = join(import.meta.dirname, "../../../.cache/dynamodb-local", PACKAGE);

/** Why DynamoDB Local cannot be used here; `undefined` when it can. */
export async function findObstacle(): Promise<string | undefined> {
  try {
    // A JDK, not a mere JRE: the starter is a source file.
    await run("javac", ["-version"]);
    return undefined;
  } catch {
    return "no JDK (java and javac) on this machine";
  }
}

/**
 * Fetches DynamoDB Local into an ignored folder, once, and returns the folder of its jar. It comes under the
 * Amazon DynamoDB Local License, which lies beside the jar: for development and tests, never shipped with Tallyman.
 */
export async function installDynamoDbLocal(): Promise<string> {
  const emulator = join(HOME, "package", "emulator");
  if (existsSync(join(emulator, "DynamoDBLocal.jar"))) return emulator;
  await mkdir(join(HOME, ".."), { recursive: true });
  const temporary = await mkdtemp(`${HOME}-`);
  try {
    console.error(
      `fetching DynamoDB Local (${PACKAGE}); it is licensed under the Amazon DynamoDB Local License, see ${emulator}/LICENSE.txt`,
    );
    await run("npm", ["pack", PACKAGE, "--pack-destination", temporary, "--silent"], { cwd: temporary });
    const archive = (await readdir(temporary)).find((name) => name.endsWith(".tgz"));
    if (archive === undefined) throw new Error(`npm pack ${PACKAGE} brought no archive`);
    await run("tar", ["xzf", archive], { cwd: temporary });
    await rm(join(temporary, archive));
    // Whole or not at all; a second one that raced us finds the place taken, which is as good.
    await rename(temporary, HOME).catch((error: unknown) => {
      if (!existsSync(join(emulator, "DynamoDBLocal.jar"))) throw error;
    });
    return emulator;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}
