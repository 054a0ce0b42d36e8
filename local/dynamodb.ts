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
        // dynalite calls back with null where node:http passes nothing.
        server.close((error) => (error ? reject(error) : resolve()));
        server.closeAllConnections();
      }),
  };
}
