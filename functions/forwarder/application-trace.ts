import { createHash } from "node:crypto";
import { type ApplicationSnapshot, readApplication } from "../../shared/cluster/application-reader.ts";
import { isDnsLabel, isDnsSubdomain } from "../../shared/cluster/plain-object.ts";
import {
  type AuthorizedStages,
  isGlob,
  matchStages,
  parseAuthorizedStages,
  type StagePattern,
} from "../../shared/domain/authorized-stages.ts";
import { buildMessage } from "../../shared/messages/codec.ts";
import type { Origin, Outgoing } from "./outgoing.ts";
import { createTraces, type Traces } from "./traces.ts";

/** What is remembered of an Application: enough to tell whether a change concerns the Stages that it names. */
export interface ApplicationTrace {
  readonly health: string;
  readonly operation: string;
  readonly revisions: string;
  readonly isFresh: boolean;
  /** Of the annotation; `""` without one. */
  readonly naming: string;
}

/** Traces of Applications, from objects as the API server sends them. */
export function createApplicationTraces(): Traces<ApplicationTrace, ApplicationSnapshot> {
  return createTraces((object) => {
    const snapshot = readApplication(object);
    const { health, operation, isFresh, authorizedStages } = snapshot;
    const trace = {
      health,
      operation,
      revisions: digest(snapshot.revisions.join(" ")),
      isFresh,
      naming: authorizedStages === undefined ? "" : digest(authorizedStages),
    };
    return { trace, snapshot };
  });
}

const digest = (text: string): string => createHash("sha1").update(text).digest("base64");

/** What a sight of an Application comes to. */
export interface ApplicationNews {
  readonly stages: AuthorizedStages;
  /** Whether the Stages that it names should be looked at. */
  readonly wakes: boolean;
  /** Whether what it names was not seen before, so that malformed entries are to be reported. */
  readonly isNaming: boolean;
}

/** Reads a sight of an Application; undefined when it names no Stage. */
export function readNews(
  application: ApplicationSnapshot,
  previous: ApplicationTrace | undefined,
  current: ApplicationTrace,
  initial: boolean,
): ApplicationNews | undefined {
  if (application.authorizedStages === undefined) return undefined;
  return {
    stages: parseAuthorizedStages(application.authorizedStages),
    wakes: !initial && (previous === undefined || hasMoved(previous, current)),
    isNaming: previous?.naming !== current.naming,
  };
}

function hasMoved(previous: ApplicationTrace, current: ApplicationTrace): boolean {
  return (
    previous.health !== current.health ||
    previous.operation !== current.operation ||
    previous.revisions !== current.revisions ||
    (current.isFresh && !previous.isFresh)
  );
}

/** A Stage as the forwarder knows it. */
export interface KnownStage {
  readonly project: string;
  readonly name: string;
  /** Whether anything can be verified in it. */
  readonly isRegular: boolean;
  /** The templates that it names, as `AnalysisTemplate/smoke`. */
  readonly templates: readonly string[];
}

/**
 * The messages for the Stages that an Application names, one each. `known` is every Stage of the cluster, or undefined
 * while the forwarder has not seen them all: then a Stage that is named in full is woken unseen, which is harmless.
 */
export function planWakeUps(
  origin: Origin,
  application: ApplicationSnapshot,
  { patterns }: AuthorizedStages,
  known: Iterable<KnownStage> | undefined,
): Outgoing[] {
  const stages =
    known === undefined
      ? dedupe(patterns.filter(isName)).map(({ project, stage }) => ({ project, name: stage }))
      : matchStages(patterns, known).filter((stage) => stage.isRegular);
  return stages.map(({ project, name }) => ({
    kind: "verify",
    coalesce: `application/${project}/${name}`,
    message: buildMessage(
      "verify",
      {
        // Each Stage's own, so that no queue takes one Stage's message for another's.
        id: `${application.uid}:${application.resourceVersion}:${digest(`${project}/${name}`)}`,
        source: origin.source,
        time: origin.now(),
      },
      { cluster: origin.cluster, project, stage: name },
    ),
  }));
}

/** A pattern that is a Stage's name in full, and can be one. */
function isName(pattern: StagePattern): boolean {
  return !isGlob(pattern) && isDnsLabel(pattern.project) && isDnsSubdomain(pattern.stage);
}

function dedupe<T extends { readonly project: string; readonly stage: string }>(patterns: readonly T[]): T[] {
  return [...new Map(patterns.map((each) => [`${each.project}/${each.stage}`, each])).values()];
}
