import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createRunTraces, planRunDeletion, planRunMessage } from "../../functions/forwarder/run-trace.ts";
import { createStageTraces, planStageMessages } from "../../functions/forwarder/stage-trace.ts";
import { MAX_SNAPSHOT_BYTES, readAnalysisRun } from "../../shared/cluster/analysis-run-reader.ts";
import { readAnnotationRequest } from "../../shared/cluster/annotations.ts";
import { readStage } from "../../shared/cluster/stage-reader.ts";
import { readStageSettings } from "../../shared/cluster/stage-settings.ts";
import { mergeVerification } from "../../shared/cluster/stage-status.ts";
import { Fault } from "../../shared/domain/fault.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import { decodeMessage, fitMessage } from "../../shared/messages/codec.ts";
import { fuzz, hostileText, hostileValue, spoil } from "../engines/hostile-values.ts";
import { IDENTITY, PROJECT, RUN_NAME, RUN_OBJECT, STAGE, STAGE_OBJECT } from "./documents.ts";

const origin = { cluster: "harbour", source: "tallyman/forwarder/harbour", now: () => new Date(0) };

vi.setConfig({ testTimeout: 60_000 });

afterEach(() => {
  for (const name of ["polluted", "a"]) expect(Object.prototype).not.toHaveProperty(name);
});

/** Whoever writes to it fails. */
function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const each of Object.values(value)) freeze(each);
}

/** What a reader makes of an object; undefined where it refused it with reasons that name object and field. */
function readOrRefuse<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    expect(error.kind).toBe("Invalid");
    expect(error.reasons.length).toBeGreaterThan(0);
    for (const reason of error.reasons) {
      expect(reason).toMatch(/^(Stage|AnalysisRun) [\s\S]*: /u);
      expect(reason.length).toBeLessThan(1_000);
    }
    return undefined;
  }
}

describe("an annotation of any text", () => {
  it("that asks for a reverify or an abort asks for one bounded thing, for nothing, or is refused", () => {
    const object = fc.record(
      {
        id: hostileValue,
        ID: hostileValue,
        actor: hostileValue,
        controlPlane: hostileValue,
        extra: hostileValue,
      },
      { requiredKeys: [] },
    );
    const value = fc.oneof(
      hostileText,
      object.map((each) => JSON.stringify(each)),
      hostileValue.map((each) => JSON.stringify(each)),
    );
    fuzz(value, (text) => {
      const reading = readAnnotationRequest(text);
      if (reading.kind === "rejected") expect(reading.reason).toMatch(/\w+ /);
      if (reading.kind !== "request") return;
      const { id, actor, controlPlane, value: kept } = reading.request;
      expect(id.length).toBeGreaterThan(0);
      expect(id.length).toBeLessThanOrEqual(256);
      expect((actor ?? "").length).toBeLessThanOrEqual(512);
      expect([undefined, true, false]).toContain(controlPlane);
      expect(kept).toBe(text);
    });
  });

  it("that sets how a Stage is verified is one of the settings there are, or none, with a warning", () => {
    const keys = ["missing-freight", "on-supersede", "mode", "deadline", "start-deadline"];
    const annotations = fc.dictionary(
      fc.constantFrom(...keys.map((key) => `tallyman.dev/${key}`)),
      fc.oneof(hostileValue, fc.constantFrom("hold", "abort", "companion", "1h", "0", "99999999999h")),
    );
    fuzz(annotations, (each) => {
      const settings = readStageSettings({ metadata: { annotations: each } });
      expect(["hold", "verify-partial"]).toContain(settings.missingFreight);
      expect([undefined, "abort"]).toContain(settings.onSupersede);
      expect([undefined, "managed", "companion"]).toContain(settings.mode);
      for (const limit of [settings.deadline, settings.startDeadline]) {
        if (limit !== undefined) expect(Number.isSafeInteger(limit) && limit >= 0).toBe(true);
      }
      for (const warning of settings.warnings ?? []) expect(warning.length).toBeLessThan(600);
    });
  });
});

describe("a Stage object of any shape", () => {
  it("is refused with reasons, or makes messages about itself that every worker takes", () => {
    fuzz(spoil(STAGE_OBJECT), (object) => {
      const stage = readOrRefuse(() => readStage(object));
      if (stage === undefined) return;
      const traces = createStageTraces({});
      const trace = traces.project(object);
      const snapshot = traces.take(trace);
      if (snapshot === undefined) throw new Error("the trace has lost its snapshot");
      for (const { kind, message } of planStageMessages(origin, snapshot, undefined, trace, false, {})) {
        const fitted = fitMessage(message);
        const decoded = decodeMessage(JSON.stringify(fitted), kind);
        expect(decoded.data).toMatchObject({ cluster: "harbour", project: stage.project, stage: stage.name });
        if (kind !== "verify")
          expect([stage.abort?.id, stage.reverify?.id]).toContain(decoded.data.verificationId);
      }
    });
  });

  it("is written back to without touching what is not ours", () => {
    const verification: Verification = {
      ...IDENTITY,
      key: { cluster: "harbour", project: PROJECT, stage: STAGE },
      phase: "Successful",
      message: "",
      createdAt: Date.UTC(2030, 0, 1),
      finishedAt: Date.UTC(2030, 0, 1, 1),
      run: { name: RUN_NAME, phase: "Successful" },
      observed: "1",
      awaited: false,
    };
    interface Collection {
      readonly id?: unknown;
      readonly verificationHistory?: readonly { readonly id?: unknown }[];
    }
    fuzz(spoil(STAGE_OBJECT), (object) => {
      freeze(object);
      const patch = mergeVerification(object, verification, new Date(0)) as
        | { status: { freightHistory?: readonly Collection[] } }
        | undefined;
      if (patch?.status.freightHistory === undefined) return;
      const history = (object as typeof STAGE_OBJECT).status.freightHistory as readonly Collection[];
      expect(patch.status.freightHistory).toHaveLength(history.length);
      const changed = history.filter((each, at) => patch.status.freightHistory?.[at] !== each);
      expect(changed).toHaveLength(1);
      const entries = (each: Collection | undefined): readonly { readonly id?: unknown }[] =>
        Array.isArray(each?.verificationHistory) ? each.verificationHistory : [];
      const foreign = (list: readonly { readonly id?: unknown }[]) =>
        list.filter((entry) => (entry as { id?: unknown } | null)?.id !== verification.id);
      const at = history.findIndex((each, index) => patch.status.freightHistory?.[index] !== each);
      expect(foreign(entries(patch.status.freightHistory[at])).slice(0, 9)).toEqual(
        foreign(entries(history[at])).slice(0, 9),
      );
    });
  });
});

describe("an AnalysisRun object of any shape", () => {
  it("is refused with reasons, is no Stage's, or makes a bounded message that the worker takes", () => {
    fuzz(spoil(RUN_OBJECT), (object) => {
      const run = readOrRefuse(() => readAnalysisRun(object));
      if (run === undefined) return;
      expect(Buffer.byteLength(JSON.stringify(run))).toBeLessThanOrEqual(MAX_SNAPSHOT_BYTES);
      // An identity is believed only under the very name that follows from it.
      if (run.identity !== undefined) expect(run.name).toContain(run.identity.id.slice(0, 6));
      const traces = createRunTraces();
      const trace = traces.project(object);
      const snapshot = traces.take(trace);
      if (snapshot === undefined) throw new Error("the trace has lost its snapshot");
      const messages = [
        planRunMessage(origin, snapshot, undefined, false, () => true, {}),
        planRunDeletion(origin, trace, "99"),
      ];
      for (const outgoing of messages) {
        if (outgoing === undefined) continue;
        const decoded = decodeMessage(JSON.stringify(outgoing.message), outgoing.kind);
        expect(decoded.data).toMatchObject({ project: run.project, stage: run.stage });
      }
    });
  });

  it("reports any status without harm", () => {
    fuzz(spoil(RUN_OBJECT.status), (status) => {
      const run = readAnalysisRun({ ...RUN_OBJECT, status });
      expect(run).toBeDefined();
      expect(Buffer.byteLength(JSON.stringify(run))).toBeLessThanOrEqual(MAX_SNAPSHOT_BYTES);
      for (const metric of run?.metrics ?? []) {
        for (const count of [
          metric.count,
          metric.successful,
          metric.failed,
          metric.inconclusive,
          metric.error,
        ]) {
          expect(Number.isSafeInteger(count) && count >= 0).toBe(true);
        }
      }
    });
  });
});
