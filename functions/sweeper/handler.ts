import { injectLambdaContext } from "@aws-lambda-powertools/logger/middleware";
import { logMetrics } from "@aws-lambda-powertools/metrics/middleware";
import middy from "@middy/core";
import { type SweepReport, sweepCluster } from "../../shared/operations/sweep.ts";
import type { World } from "../../shared/operations/world.ts";
import { readConfiguration } from "../../shared/runtime/configuration.ts";
import { createInstallation } from "../../shared/runtime/installation.ts";
import { createLog, createMeter } from "../../shared/runtime/powertools.ts";
import { createRetention } from "../../shared/runtime/retention.ts";

const log = createLog("sweeper");
const meter = createMeter("sweeper");
const configuration = readConfiguration(process.env);
const retention = createRetention(configuration);
const world: World = { ...createInstallation(configuration, log, meter).world, retention };

/**
 * Lambda, on a schedule: sweeps every cluster. One that cannot be reached does not keep the others from being
 * swept; it is named in the log and swept next time.
 */
export const handler = middy<unknown, Record<string, SweepReport>>()
  .use(injectLambdaContext(log.logger))
  .use(logMetrics(meter.metrics))
  .handler(async () => {
    const reports: Record<string, SweepReport> = {};
    for (const { name } of configuration.clusters) {
      try {
        const report = await sweepCluster(world, name);
        reports[name] = report;
        const level = report.failures.length > 0 ? "warn" : "info";
        log[level]("cluster swept", { cluster: name, ...report });
      } catch (error) {
        meter.count("ClustersNotSwept");
        log.error("a cluster could not be swept", { cluster: name, error });
        reports[name] = { open: 0, repaired: 0, failures: [String(error)] };
      }
    }
    return reports;
  });
