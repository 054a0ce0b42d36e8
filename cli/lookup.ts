import type { StageKey } from "../shared/domain/identity.ts";
import type { RequestRecord, StageRecord } from "../shared/domain/verification.ts";
import type { HistoryEntry, Ledger, Page } from "../shared/ledger/ledger.ts";
import { CommandError } from "./command-error.ts";
import type { Connection } from "./connection.ts";
import { findSimilar } from "./similar.ts";

/** What names a Stage on the command line. */
export interface Scope {
  readonly cluster?: string | undefined;
  readonly project?: string | undefined;
}

/** All pages of a listing, up to `most` items, with whether there are more. */
export async function collect<T>(
  read: (cursor: string | undefined, limit: number) => Promise<Page<T>>,
  most = Number.POSITIVE_INFINITY,
): Promise<{ items: readonly T[]; more: boolean }> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    // One more than wanted tells whether there is one more.
    const page = await read(cursor, Math.min(100, most + 1 - items.length));
    items.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined && items.length <= most);
  return { items: items.slice(0, most), more: items.length > most };
}

/** @throws CommandError naming the clusters that there are. */
export function chooseCluster(connection: Connection, cluster: string | undefined): string {
  const [first] = connection.clusters;
  if (cluster === undefined && first !== undefined) return first;
  if (cluster !== undefined && connection.clusters.includes(cluster)) return cluster;
  throw new CommandError("notFound", `no cluster ${cluster ?? ""} in this installation`, [
    `It has: ${connection.clusters.join(", ")}`,
  ]);
}

export async function listStages(
  ledger: Ledger,
  cluster: string,
  project?: string,
): Promise<readonly StageRecord[]> {
  const { items } = await collect((cursor, limit) =>
    ledger.listStages(cluster, project, { limit, ...(cursor === undefined ? {} : { cursor }) }),
  );
  return items;
}

const projectsOf = (stages: readonly StageRecord[]): string[] => [
  ...new Set(stages.map((stage) => stage.key.project)),
];

/** The Project that is meant: the one named, else `TALLYMAN_PROJECT`, else the only one that there is. */
export async function chooseProject(
  connection: Connection,
  cluster: string,
  project: string | undefined,
): Promise<string> {
  // `TALLYMAN_PROJECT=` means that there is none.
  if (project) return project;
  const projects = projectsOf(await listStages(connection.ledger, cluster));
  const [only, ...others] = projects;
  if (only !== undefined && others.length === 0) return only;
  if (only === undefined) {
    throw new CommandError("notFound", `the ledger knows no Stage of cluster ${cluster} yet`, [
      "A Stage appears here as soon as the forwarder has seen Freight in it.",
    ]);
  }
  throw new CommandError("usage", "which Project? Name it with -p, or set TALLYMAN_PROJECT", [
    `Known Projects: ${projects.slice(0, 10).join(", ")}${projects.length > 10 ? ", …" : ""}`,
  ]);
}

/** The key of a Stage by its name, whether or not the ledger knows it. */
export async function resolveKey(connection: Connection, scope: Scope, stage: string): Promise<StageKey> {
  const cluster = chooseCluster(connection, scope.cluster);
  const project = await chooseProject(connection, cluster, scope.project);
  return { cluster, project, stage };
}

/** @throws CommandError that names what was looked for, what is similar and where it may be. */
export async function requireStage(
  connection: Connection,
  scope: Scope,
  stage: string,
): Promise<StageRecord> {
  const key = await resolveKey(connection, scope, stage);
  const record = await connection.ledger.readStage(key);
  if (record.revision > 0) return record;
  throw await describeUnknownStage(connection.ledger, key);
}

export async function describeUnknownStage(ledger: Ledger, key: StageKey): Promise<CommandError> {
  const stages = await listStages(ledger, key.cluster);
  const here = stages.filter((each) => each.key.project === key.project).map((each) => each.key.stage);
  const elsewhere = projectsOf(stages.filter((each) => each.key.stage === key.stage));
  const projects = projectsOf(stages);
  const hints: string[] = [];
  const similar = findSimilar(key.stage, here);
  if (similar.length > 0) hints.push(`Did you mean ${similar.join(" or ")}?`);
  if (elsewhere.length > 0)
    hints.push(`Project ${elsewhere.slice(0, 3).join(" and ")} has a Stage of that name.`);
  if (here.length === 0) {
    const project = findSimilar(key.project, projects);
    hints.push(
      project.length > 0
        ? `Project ${key.project} has no Stages here. Did you mean Project ${project.join(" or ")}?`
        : `Project ${key.project} has no Stages here.`,
    );
  }
  hints.push(`See all: tallyman get stages ${here.length === 0 ? "-A" : `-p ${key.project}`}`);
  return new CommandError(
    "notFound",
    `no Stage ${key.stage} in Project ${key.project} of cluster ${key.cluster}`,
    hints,
  );
}

/** How far back a shortened id is looked for. */
const SEARCHED = 2000;

type Kind = HistoryEntry["kind"];
const idOf = (entry: HistoryEntry): string =>
  entry.kind === "verification" ? entry.verification.id : entry.request.requestId;

/** The whole id that begins as given, from the Stage's history; tables show the first eight characters. */
async function completeId(ledger: Ledger, key: StageKey, kind: Kind, start: string): Promise<string> {
  const { items } = await collect(
    (cursor, limit) => ledger.listHistory(key, { limit, ...(cursor === undefined ? {} : { cursor }) }),
    SEARCHED,
  );
  const ids = items.filter((entry) => entry.kind === kind).map(idOf);
  const found = [...new Set(ids.filter((id) => id.startsWith(start)))];
  const [only, ...others] = found;
  if (only !== undefined && others.length === 0) return only;
  if (only === undefined) {
    throw new CommandError(
      "notFound",
      `no ${kind} ${start} of Stage ${key.stage} in Project ${key.project}`,
      [`See all: tallyman history stage ${key.stage} -p ${key.project} -o wide`],
    );
  }
  throw new CommandError("usage", `${found.length} ids begin with ${start}`, [
    ...found.slice(0, 5),
    "Give more of it.",
  ]);
}

/** A verification's whole id. */
export async function resolveVerificationId(ledger: Ledger, key: StageKey, id: string): Promise<string> {
  const known = await ledger.readVerification(key, id);
  return known === undefined ? completeId(ledger, key, "verification", id) : id;
}

export type DescribedVerification = NonNullable<Awaited<ReturnType<Ledger["describeVerification"]>>>;

export async function requireVerification(
  ledger: Ledger,
  key: StageKey,
  id: string,
): Promise<DescribedVerification> {
  const whole = await resolveVerificationId(ledger, key, id);
  const described = await ledger.describeVerification(key, whole);
  if (described === undefined) throw new CommandError("notFound", `no verification ${whole}`);
  return described;
}

export async function requireRequest(ledger: Ledger, key: StageKey, id: string): Promise<RequestRecord> {
  const known = await ledger.readRequest(key, id);
  if (known !== undefined) return known;
  const found = await ledger.readRequest(key, await completeId(ledger, key, "request", id));
  if (found === undefined) throw new CommandError("notFound", `no request ${id}`);
  return found;
}
