import { randomUUID } from "node:crypto";
import type { ScheduledEvent } from "aws-lambda";
import type { Clock } from "../shared/runtime/clock.ts";
import type { Log } from "../shared/runtime/telemetry.ts";
import { type Invocation, invoke } from "./lambda-context.ts";

export interface ScheduleOptions extends Invocation<ScheduledEvent> {
  readonly everyMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** Invokes a function at an interval, never beside itself; what one invocation throws is logged. */
export function startSchedule(options: ScheduleOptions): { stop(): Promise<void> } {
  const { clock, everyMs, functionName, log, region } = options;
  const stop = new AbortController();
  const loop = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(everyMs, stop.signal);
      if (stop.signal.aborted) return;
      try {
        await invoke(options, buildEvent(functionName, region, clock.now()));
      } catch (error) {
        log.error("the scheduled function failed; it is invoked again next time", { functionName, error });
      }
    }
  };
  const done = loop();
  return {
    async stop() {
      stop.abort();
      await done;
    },
  };
}

function buildEvent(name: string, region: string, now: number): ScheduledEvent {
  return {
    version: "0",
    id: randomUUID(),
    account: "000000000000",
    time: `${new Date(now).toISOString().slice(0, 19)}Z`,
    region,
    resources: [`arn:aws:events:${region}:000000000000:rule/${name}`],
    source: "aws.events",
    "detail-type": "Scheduled Event",
    detail: {},
  };
}
