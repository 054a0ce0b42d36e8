import { createServer, type Server } from "node:http";
import { readConfiguration } from "../../shared/runtime/configuration.ts";
import { createLog, createMeter } from "../../shared/runtime/powertools.ts";
import type { Forwarder } from "./forwarder.ts";
import { runSession } from "./session.ts";
import { wireSession } from "./wiring.ts";

/**
 * The forwarder as a process that runs for ever, in a cluster or on a desk. It lists everything at its start (a
 * restart costs one list and no lost deletion), works beside another forwarder without harm, and exits non-zero
 * on what it cannot mend, for its supervisor to start it anew. With `TALLYMAN_HEALTH_PORT` it answers probes.
 */
const log = createLog("forwarder");
const meter = createMeter("forwarder", process.env.TALLYMAN_FORWARDER_CLUSTER);
const METRICS_EVERY_MS = 60_000;
/** A watch sends a bookmark each minute or so; without any sign for this long the process is no use. */
const SILENCE_MS = 300_000;

const stop = new AbortController();
for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => stop.abort());

let forwarder: Forwarder | undefined;
const health = startHealthServer(process.env.TALLYMAN_HEALTH_PORT);
const metrics = setInterval(() => meter.metrics.publishStoredMetrics(), METRICS_EVERY_MS);
try {
  const session = wireSession(
    readConfiguration(process.env),
    process.env.TALLYMAN_FORWARDER_CLUSTER,
    log,
    meter,
  );
  log.info("forwarder starts", { cluster: session.cluster });
  await runSession(
    {
      ...session,
      resume: false,
      exclusive: false,
      onRunning: (running) => {
        forwarder = running;
      },
    },
    stop.signal,
  );
  log.info("forwarder stopped", { cluster: session.cluster });
} catch (error) {
  log.error("the forwarder cannot go on", { error });
  process.exitCode = 1;
} finally {
  clearInterval(metrics);
  meter.metrics.publishStoredMetrics();
  health?.close();
}

/** `/readyz`: everything was listed once; `/livez`: every watch showed a sign of life lately. */
function startHealthServer(port: string | undefined): Server | undefined {
  if (port === undefined || port === "") return undefined;
  const startedAt = Date.now();
  const server = createServer((request, response) => {
    const last = Object.values(forwarder?.lastActivity() ?? {}).map((at) => at ?? startedAt);
    const alive = last.every((at) => Date.now() - at < SILENCE_MS);
    const ok = request.url === "/readyz" ? (forwarder?.isSynced() ?? false) : alive;
    response.writeHead(ok ? 200 : 503, { "content-type": "text/plain" }).end(ok ? "ok\n" : "not ok\n");
  });
  return server.listen(Number(port), process.env.TALLYMAN_HEALTH_HOST ?? "127.0.0.1");
}
