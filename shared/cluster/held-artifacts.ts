import type { FreightArtifacts, FreightChart, FreightCommit, FreightImage } from "../domain/freight.ts";
import { Absent, type JsonValue, Structure } from "./expression-values.ts";

/** One Freight of the collection that is verified. */
export interface HeldFreight {
  readonly name: string;
  readonly origin: string;
  readonly artifacts?: FreightArtifacts | undefined;
}

/** What the functions that look for artifacts look at. */
export interface Holdings {
  /** Without an origin named, only these count. */
  readonly requestedOrigins: readonly string[];
  readonly freight: readonly HeldFreight[];
}

/** Why there is no answer, as a sentence without its subject. */
export type Refuse = (why: string) => Error;

/** `imageFrom()`: the repository as the Freight writes it. */
export function findImage(
  holdings: Holdings,
  repoURL: string,
  origin: string | undefined,
  refuse: Refuse,
): Structure | Absent {
  const found = find<FreightImage>(
    holdings,
    (artifacts) => artifacts.images.filter((image) => image.repoURL === repoURL),
    origin,
    `image ${repoURL}`,
    refuse,
  );
  if (found instanceof Absent) return found;
  return build("Image", {
    RepoURL: found.repoURL,
    Tag: found.tag,
    Digest: found.digest,
    Annotations: found.annotations ?? {},
    SubscriptionName: found.subscriptionName,
  });
}

/** `commitFrom()`: URLs that mean the same Git repository are the same. */
export function findCommit(
  holdings: Holdings,
  repoURL: string,
  origin: string | undefined,
  refuse: Refuse,
): Structure | Absent {
  const wanted = normalizeGitUrl(repoURL);
  const found = find<FreightCommit>(
    holdings,
    (artifacts) => artifacts.commits.filter((commit) => normalizeGitUrl(commit.repoURL) === wanted),
    origin,
    `commit of ${repoURL}`,
    refuse,
  );
  if (found instanceof Absent) return found;
  return build("GitCommit", {
    RepoURL: found.repoURL,
    ID: found.id,
    Branch: found.branch,
    Tag: found.tag,
    Message: found.message,
    Author: found.author,
    Committer: found.committer,
    SubscriptionName: found.subscriptionName,
  });
}

/** `chartFrom()`: without a name, the chart of a registry whose URL names it. */
export function findChart(
  holdings: Holdings,
  repoURL: string,
  name: string,
  origin: string | undefined,
  refuse: Refuse,
): Structure | Absent {
  const what = name === "" ? `chart ${repoURL}` : `chart ${name} of ${repoURL}`;
  const found = find<FreightChart>(
    holdings,
    (artifacts) =>
      artifacts.charts.filter((chart) => chart.repoURL === repoURL && (chart.name ?? "") === name),
    origin,
    what,
    refuse,
  );
  if (found instanceof Absent) {
    // The one function of the three for which Kargo does not answer nil.
    if (origin === undefined) throw refuse(found.why);
    return found;
  }
  return build("Chart", {
    RepoURL: found.repoURL,
    Name: found.name,
    Version: found.version,
    SubscriptionName: found.subscriptionName,
  });
}

/**
 * The one artifact that matches. Two are an ambiguity unless an origin is named, and then the first counts. Kargo asks
 * the Warehouses which of them could supply it; here the Freight answers, which is what is being verified.
 */
function find<T>(
  { requestedOrigins, freight }: Holdings,
  match: (artifacts: FreightArtifacts) => readonly T[],
  origin: string | undefined,
  what: string,
  refuse: Refuse,
): T | Absent {
  const from = freight.filter((each) =>
    origin === undefined ? requestedOrigins.includes(each.origin) : each.origin === origin,
  );
  const matches = from.flatMap(({ name, origin: at, artifacts }) => {
    if (artifacts === undefined) throw refuse(`it is not known what Freight ${name} consists of`);
    return match(artifacts).map((artifact) => ({ at, artifact }));
  });
  const [first] = matches;
  if (first === undefined) {
    const where = origin === undefined ? "" : ` from ${origin}`;
    return new Absent(`the Stage holds no Freight${where} with ${what}`);
  }
  if (origin === undefined && matches.length > 1) {
    const origins = [...new Set(matches.map(({ at }) => at))].join(", ");
    throw refuse(`more than one ${what} is in the Freight from ${origins}; name one with warehouse()`);
  }
  return first.artifact;
}

function build(type: string, fields: Readonly<Record<string, JsonValue | undefined>>): Structure {
  return new Structure(
    type,
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value ?? ""])),
  );
}

const URL = /^(https?|ssh):\/\/([^/?#]*)(.*)$/s;
/** `[user@]host:path`, as Git takes it. */
const SCP = /^((?:[\w-]+@)?[\w-]+(?:\.[\w-]+)*)(?::(.*))?$/;

/**
 * One text for the ways to write a Git repository's URL: case, a closing slash, `.git`, user and password of HTTPS and
 * the short form of SSH make no difference. What is no such URL stays as it is.
 */
export function normalizeGitUrl(repoURL: string): string {
  const text = repoURL
    .toLowerCase()
    .replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, "")
    .trim();
  const [, scheme, authority, path] = URL.exec(text) ?? readShortForm(text);
  if (scheme === undefined || authority === undefined || path === undefined) return repoURL;
  if (/[?\s]/.test(authority + path)) return repoURL;
  const host = scheme === "ssh" ? authority : authority.slice(authority.lastIndexOf("@") + 1);
  return `${scheme}://${host}${path
    .replace(/\/$/, "")
    .replace(/\.git$/, "")
    .replace(/\/$/, "")}`;
}

/** The parts of the short form of SSH, as `URL` finds those of the long one. */
function readShortForm(text: string): readonly (string | undefined)[] {
  const match = SCP.exec(text);
  return match === null ? [] : [text, "ssh", match[1], match[2] === undefined ? "" : `/${match[2]}`];
}
