import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { delimiter, join } from "node:path";
import { installDynamoDbLocal } from "./install.ts";

export interface RunningEngine {
  readonly endpoint: string;
  stop(): Promise<void>;
}

/** Starts DynamoDB Local in memory on a free loopback port; resolves when it answers. */
export async function startDynamoDbLocal(): Promise<RunningEngine> {
  const home = await installDynamoDbLocal();
  const port = await findFreePort();
  const child = spawn(
    "java",
    [
      `-Djava.library.path=${join(home, "DynamoDBLocal_lib")}`,
      "-cp",
      [join(home, "DynamoDBLocal.jar"), join(home, "DynamoDBLocal_lib", "*")].join(delimiter),
      join(import.meta.dirname, "LoopbackServer.java"),
      ...["-inMemory", "-disableTelemetry", "-port", String(port)],
    ],
    { cwd: home, stdio: ["ignore", "pipe", "pipe"] },
  );
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  let output = "";
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    void exited.then(() =>
      reject(new Error(`DynamoDB Local ended before it listened: ${output.slice(-2000)}`)),
    );
    const read = (chunk: Buffer): void => {
      output += chunk.toString();
      if (output.includes("listening on loopback")) resolve();
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
  });
  return {
    endpoint: `http://127.0.0.1:${port}`,
    async stop() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
