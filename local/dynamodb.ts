import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import dynalite from "dynalite";

export interface DynamoDbOptions {
  /** On 127.0.0.1; 0 (default) takes any that is free. */
  readonly port?: number;
  /** Folder of the data; in memory when absent. */
  readonly path?: string;
}

export interface RunningDynamoDb {
  readonly endpoint: string;
  stop(): Promise<void>;
}

const IDLE_LOOK_MS = 20;
/** For a client that sends without end. */
const PATIENCE_MS = 3_000;

/** Starts the embedded DynamoDB API, on loopback only. */
export async function startDynamoDb(options: DynamoDbOptions = {}): Promise<RunningDynamoDb> {
  const server: Server = dynalite({
    createTableMs: 0,
    updateTableMs: 0,
    deleteTableMs: 0,
    ...(options.path === undefined ? {} : { path: options.path }),
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    stop: () =>
      new Promise((resolve, reject) => {
        // dynalite throws out of the process when its database closes under a request, so requests end first.
        const idle = setInterval(() => server.closeIdleConnections(), IDLE_LOOK_MS);
        const patience = setTimeout(() => server.closeAllConnections(), PATIENCE_MS);
        server.close((error) => {
          clearInterval(idle);
          clearTimeout(patience);
          // dynalite calls back with null where node:http passes nothing.
          if (error) reject(error);
          else resolve();
        });
        server.closeIdleConnections();
      }),
  };
}
