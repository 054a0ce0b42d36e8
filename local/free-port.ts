import { createServer } from "node:net";

/**
 * The port to listen on: the one that was asked for (0 for any), or else the usual one if it is free, since a
 * stable address is easier to use. Looked at beforehand, because an engine that cannot listen has opened, and
 * locked, its files already.
 *
 * @throws Error when the port that was asked for is taken.
 */
export async function choosePort(asked: number | undefined, usual: number): Promise<number> {
  const port = asked ?? usual;
  if (port === 0 || (await isFree(port))) return port;
  if (asked === undefined) return 0;
  throw new Error(`port ${port} of 127.0.0.1 is taken by another program`);
}

function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  return new Promise((resolve) => {
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}
