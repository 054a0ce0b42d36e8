import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { choosePort } from "./free-port.ts";

let other: Server;
let taken: number;
beforeAll(async () => {
  other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  taken = (other.address() as { port: number }).port;
});
afterAll(() => new Promise((resolve) => other.close(resolve)));

it("a usual port that is taken gives way to any that is free", async () => {
  expect(await choosePort(undefined, taken)).toBe(0);
});

it("a port that was asked for and is taken is refused by number", async () => {
  await expect(choosePort(taken, 0)).rejects.toThrow(`port ${taken} of 127.0.0.1 is taken`);
});

it("any port is any port, whatever the usual one is", async () => {
  expect(await choosePort(0, taken)).toBe(0);
});
