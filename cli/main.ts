import { randomUUID } from "node:crypto";
import { hostname, userInfo } from "node:os";
import { fileURLToPath } from "node:url";
import { systemClock } from "../shared/runtime/clock.ts";
import { openConnection } from "./connection.ts";
import { runCli } from "./program.ts";
import { createTerminal } from "./terminal.ts";

const { env } = process;

/** A container may run under a number without a name. */
function readUser(): string {
  try {
    return userInfo().username;
  } catch {
    return env.USER || "unknown";
  }
}

// A reader that has seen enough (`| head`) is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

process.exitCode = await runCli(process.argv.slice(2), {
  terminal: createTerminal(process.stdout, process.stderr, env),
  clock: systemClock,
  env,
  user: `${readUser()}@${hostname()}`,
  invokedAs: env.TALLYMAN_INVOKED_AS || "tallyman",
  newId: () => randomUUID(),
  connect: (data) =>
    openConnection({ env, cwd: process.cwd(), root: fileURLToPath(new URL("..", import.meta.url)), data }),
});
