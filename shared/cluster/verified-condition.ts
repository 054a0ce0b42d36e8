import { cutText, isPlainObject, readPath, readText } from "./plain-object.ts";

/** The schema's limit of a condition's message. */
const MAX_MESSAGE = 32_768;

interface Verdict {
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
}

/**
 * Sets the Stage condition `Verified` as Kargo does for the Freight that the Stage holds. `entries` is its
 * `verificationHistory`, newest first. All other conditions are kept. Hands back the list it was given when nothing
 * changes; `lastTransitionTime` changes only with the status.
 */
export function mergeVerifiedCondition(
  conditions: readonly unknown[],
  entries: readonly unknown[],
  now: Date,
  generation: unknown,
): readonly unknown[] {
  const verdict = readVerdict(entries);
  if (verdict === undefined) return conditions;
  const at = conditions.findIndex((condition) => readPath(condition, "type") === "Verified");
  const existing = at < 0 ? undefined : conditions[at];
  const isSame = (["status", "reason", "message"] as const).every(
    (key) => readPath(existing, key) === verdict[key],
  );
  const since = readText(readPath(existing, "lastTransitionTime"));
  if (isSame && since !== undefined) return conditions;
  const hasTurned = readPath(existing, "status") !== verdict.status;
  const condition = {
    ...(isPlainObject(existing) ? existing : {}),
    type: "Verified",
    ...verdict,
    lastTransitionTime: hasTurned || since === undefined ? `${now.toISOString().slice(0, 19)}Z` : since,
    ...(typeof generation === "number" ? { observedGeneration: generation } : {}),
  };
  return at < 0
    ? [...conditions, condition]
    : conditions.map((other, index) => (index === at ? condition : other));
}

function readVerdict(entries: readonly unknown[]): Verdict | undefined {
  const [newest] = entries;
  if (newest === undefined) return undefined;
  if (entries.some((entry) => readPath(entry, "phase") === "Successful")) {
    return { status: "True", reason: "Verified", message: "Freight has been verified" };
  }
  const phase = readText(readPath(newest, "phase")) ?? "";
  const message = cutText(readText(readPath(newest, "message")) ?? "", MAX_MESSAGE);
  switch (phase) {
    case "Pending":
      return { status: "Unknown", reason: "VerificationPending", message: "Freight is pending verification" };
    case "Running":
      return { status: "Unknown", reason: "VerificationRunning", message: "Freight is being verified" };
    case "Failed":
    case "Error":
    case "Aborted":
      return { status: "False", reason: `Verification${phase}`, message };
    case "Inconclusive":
      return { status: "Unknown", reason: "VerificationInconclusive", message };
    default:
      return {
        status: "Unknown",
        reason: "UnknownVerificationPhase",
        message: `Freight verification has the unknown phase "${cutText(phase, 64)}"`,
      };
  }
}
