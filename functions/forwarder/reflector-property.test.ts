import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { createTransport } from "../../shared/cluster/https-transport.ts";
import { eventually } from "../../test/engines/eventually.ts";
import {
  keyOf,
  type Projected,
  projectPhase,
  type StageEvent,
} from "../../test/engines/reflector-harness.ts";
import {
  openWatch,
  refuse,
  reset,
  type ScriptedAnswer,
  type ScriptedApiServer,
  startScriptedApiServer,
  statusObject,
} from "../../test/engines/scripted-api-server.ts";
import { createVirtualClock } from "../../test/engines/virtual-clock.ts";
import { createReflector } from "./reflector.ts";

type Step =
  | { readonly do: "put"; readonly name: string; readonly phase: string }
  | { readonly do: "remove" | "vanish"; readonly name: string }
  | { readonly do: "next"; readonly kind: "list" | "watch"; readonly fault: keyof typeof faults }
  | {
      readonly do:
        | "compact"
        | "end"
        | "reset"
        | "bookmark"
        | "breathe"
        | "settle"
        | "restart"
        | "failHandler";
    };

const error = (code: number) => `${JSON.stringify({ type: "ERROR", object: statusObject(code) })}\n`;

const faults = {
  reset,
  500: refuse(500),
  410: refuse(410),
  429: refuse(429, { "retry-after": "1" }),
  truncated: openWatch((response) => response.end('{"type":"MODIFIED","object":{"meta')),
  notAList: refuse(200, {}, { kind: "Banner" }),
  gone: openWatch((response) => response.end(error(410))),
  inStream: openWatch((response) => response.end(error(500))),
  broken: openWatch((response) => response.socket?.destroy()),
} satisfies Record<string, ScriptedAnswer>;

const name = fc.constantFrom("quay", "depot", "pier", "yard", "lock");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("put"), name, phase: fc.constantFrom("a", "b", "nonsense") }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("remove", "vanish"), name }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("next"),
      kind: fc.constantFrom("list" as const, "watch" as const),
      fault: fc.constantFrom(...(Object.keys(faults) as (keyof typeof faults)[])),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ do: "settle" }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("compact", "end", "reset", "bookmark", "breathe", "restart", "failHandler"),
    }),
  },
) as fc.Arbitrary<Step>;

/** Objects that cannot be projected are left out: what is known of them may be of any age. */
function comparable(state: Map<string, Projected>, api: ScriptedApiServer): Record<string, unknown> {
  const unclear = new Set(
    [...api.objects().values()].filter(({ phase }) => phase === "nonsense").map((object) => keyOf(object)),
  );
  return Object.fromEntries([...state].filter(([key]) => !unclear.has(key)).sort());
}

/** Applies events one by one and checks that each fits what was before it. */
function apply(mirror: Map<string, Projected>, event: StageEvent): void {
  if (event.type === "synced" || event.type === "bookmark") return;
  expect(mirror.get(event.key)).toEqual("previous" in event ? event.previous : undefined);
  if ("current" in event) mirror.set(event.key, event.current);
  else mirror.delete(event.key);
}

describe("whatever the server does", () => {
  it("known state and told state equal the server's final state, by one watch at a time", async () => {
    const api = await startScriptedApiServer();
    onTestFinished(() => api.stop());

    async function play(steps: readonly Step[]): Promise<void> {
      const clock = createVirtualClock();
      const transport = createTransport({ server: api.url });
      const mirror = new Map<string, Projected>();
      let failing = false;
      const reflector = createReflector<Projected>({
        transport,
        path: "/apis/kargo.akuity.io/v1alpha1/stages",
        pageSize: 2,
        clock,
        random: () => 0.5,
        key: keyOf,
        project: projectPhase,
        handler: (events) => {
          if (failing) {
            failing = false;
            throw new Error("scripted");
          }
          for (const event of events) apply(mirror, event);
        },
      });
      const stop = new AbortController();
      // As a caller does that starts anew after a failed handler.
      const running = (async () => {
        while (!stop.signal.aborted) await reflector.run(stop.signal).catch(() => {});
      })();
      const wake = () => clock.wakeNext(30_000);
      const settle = () =>
        eventually(
          "the server's state",
          () => {
            const truth = comparable(new Map([...api.objects().values()].flatMap(projected)), api);
            return (
              api.liveWatches() === 1 &&
              reflector.state().synced &&
              isEqual(comparable(mirror, api), truth) &&
              isEqual(comparable(new Map(reflector.entries()), api), truth)
            );
          },
          4_000,
          wake,
        );
      const breathe = async () => {
        for (let turn = 0; turn < 3; turn += 1) {
          wake();
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      };
      try {
        for (const each of steps) {
          if (each.do === "put") api.put(each.name, { phase: each.phase });
          else if (each.do === "remove") api.remove(each.name);
          else if (each.do === "vanish") {
            // Deleted and forgotten while nobody was watching.
            api.resetWatches();
            api.remove(each.name);
            api.compact();
          } else if (each.do === "next") api.next(each.kind, faults[each.fault]);
          else if (each.do === "compact") api.compact();
          else if (each.do === "end") api.endWatches();
          else if (each.do === "reset") api.resetWatches();
          else if (each.do === "bookmark") api.bookmark();
          else if (each.do === "failHandler") failing = true;
          else if (each.do === "breathe") await breathe();
          else if (each.do === "settle") await settle();
          else if (each.do === "restart") {
            await api.stop();
            await breathe();
            await api.start();
          }
        }
        failing = false;
        await settle();
        expect(api.maxLiveWatches()).toBe(1);
      } finally {
        stop.abort();
        await running;
        transport.close();
        for (const name of [...api.objects().keys()]) api.remove(name);
        api.forgetFaults();
        await eventually("no watch", () => api.liveWatches() === 0);
      }
    }

    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 30, size: "max" }), play), { numRuns: 60 });
  }, 60_000);
});

function projected(object: unknown): [string, Projected][] {
  try {
    return [[keyOf(object), projectPhase(object)]];
  } catch {
    return [];
  }
}

function isEqual(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
