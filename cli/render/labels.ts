import type { Cause } from "../../shared/domain/identity.ts";
import type { Phase } from "../../shared/domain/phase.ts";
import type { RequestOutcome, RequestRecord, Verification } from "../../shared/domain/verification.ts";
import { PHASE_LOOKS } from "../../shared/presentation/phase-look.ts";
import type { Cell } from "./table.ts";
import type { Style } from "./text.ts";
import { formatDuration } from "./time.ts";

interface Look {
  readonly icon: string;
  readonly style: Style;
}

const OUTCOMES: Readonly<Record<RequestOutcome, Look>> = {
  accepted: { icon: "→", style: "dim" },
  waiting: { icon: "→", style: "cyan" },
  started: { icon: "→", style: "dim" },
  aborted: { icon: "→", style: "dim" },
  "too-late": { icon: "⊘", style: "yellow" },
  refused: { icon: "⊘", style: "red" },
};

/** An icon beside the word, so that nothing hangs on colour alone. */
export function formatPhase(phase: Phase): Exclude<Cell, string> {
  const { icon, style } = PHASE_LOOKS[phase];
  return { text: `${icon} ${phase}`, style };
}

/** Lower case, which tells a request's fate from a verification's phase. */
export function formatOutcome(outcome: RequestOutcome): Exclude<Cell, string> {
  const { icon, style } = OUTCOMES[outcome];
  return { text: `${icon} ${outcome.replace("-", " ")}`, style };
}

/** A UUID's first eight characters; what people chose themselves stays whole. */
export function shortenId(id: string): string {
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) ? id.slice(0, 8) : id;
}

/** Every UUID in a text shortened: whole ones leave no room for what is said of them. */
export function shortenIds(text: string): string {
  return text.replace(/\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, "$1");
}

/** Kargo names Freight by a SHA-1; its first seven characters are what people use. */
const shortenFreight = (name: string): string => (/^[0-9a-f]{40}$/.test(name) ? name.slice(0, 7) : name);

/** `3be1a07`, `3be1a07+c40d9e1`; `3be1a07 (1/2)` where origins are missing, short enough to survive in a table. */
export function formatFreight(
  { collection, missingOrigins }: Pick<Verification, "collection" | "missingOrigins">,
  whole = false,
): string {
  const { freight } = collection;
  // A long collection's members are left out of the ledger's listing; its id stands for them.
  if (freight.length === 0) return `set ${whole ? collection.id : collection.id.slice(0, 7)}`;
  const names = freight.map(({ name }) => (whole ? name : shortenFreight(name))).join("+");
  return missingOrigins.length === 0
    ? names
    : `${names} (${freight.length}${whole ? " of " : "/"}${freight.length + missingOrigins.length})`;
}

export function formatCause(cause: Cause, whole = false): string {
  const shorten = whole ? (id: string) => id : shortenId;
  switch (cause.kind) {
    case "promotion":
      return whole && cause.promotion !== "" ? `promotion ${cause.promotion}` : "promotion";
    case "reverify":
      return `reverify ${shorten(cause.of)}`;
    case "request":
      return `request ${shorten(cause.requestId)}`;
    case "observed":
      return cause.of === undefined ? "seen" : `asked ${shorten(cause.of)}`;
  }
}

/** Time from the start to the end, or until now; empty where it never started. */
export function formatTook(verification: Verification, now: number): string {
  const { createdAt, startedAt, finishedAt, run } = verification;
  if (run === undefined && startedAt === undefined) return "";
  return formatDuration(Math.max(0, (finishedAt ?? now) - (startedAt ?? createdAt)));
}

/** Who asked and what there is to say: `ada: error-rate is 0.4`. */
export function formatRemark(verification: Verification): string {
  const { actor, message, abort, drift, reason, missingOrigins } = verification;
  if (abort !== undefined) return `aborted${by(abort.actor)}${abort.reason ? `: ${abort.reason}` : ""}`;
  const said = [
    message || (reason ?? ""),
    missingOrigins.length === 0 ? "" : `without ${missingOrigins.join(", ")}`,
    drift === undefined ? "" : `made with an older ${drift.templates.map(({ name }) => name).join(", ")}`,
  ].filter((part) => part !== "");
  return join(actor, said.join("; "));
}

/**
 * `ada: new test data — verification 1234 is no longer the Stage's latest`. What a request led to stands in the
 * next line of a history, and only `whole` says it here as well.
 */
export function formatRequestRemark(
  { actor, reason, message, outcome }: RequestRecord,
  whole: boolean,
): string {
  const known = outcome === "started" || outcome === "aborted";
  return join(
    actor,
    [reason ?? "", known && !whole ? "" : message].filter((part) => part !== "").join(" — "),
  );
}

const by = (actor: string | undefined): string => (actor === undefined ? "" : ` by ${actor}`);
const join = (actor: string | undefined, text: string): string =>
  [actor ?? "", text].filter((part) => part !== "").join(": ");
