import { cutText, isPlainObject, readList, readPath, readText } from "./plain-object.ts";

const MAX_DOUBTS = 10;
const MAX_DOUBT = 512;

/**
 * What in a Stage's status speaks against its `health` having been observed after the last Promotion.
 *
 * `status.health` has no time of its own. What Kargo gives us instead: it drops `health` in the very write in which it
 * enters a Promotion, so that health beside `lastPromotion` was assessed later; it keeps the condition `Healthy` in
 * step with it (whose `lastTransitionTime` it does not renew, so that no time is to be had from there either); and
 * `health.output` holds what Argo CD said of each Application, whose health is older than its last operation while
 * `reconciledAt` is.
 */
export function readHealthDoubts(object: unknown): string[] {
  const doubts = [...doubtCondition(object), ...doubtApplications(object)];
  return doubts.slice(0, MAX_DOUBTS).map((doubt) => cutText(doubt, MAX_DOUBT));
}

/** A condition that says otherwise is from another moment than `health`, and nobody can tell which of the two is older. */
function doubtCondition(object: unknown): string[] {
  const condition = readList(readPath(object, "status", "conditions")).find(
    (each) => readPath(each, "type") === "Healthy",
  );
  const status = readText(readPath(condition, "status"));
  if (condition === undefined || status === "True") return [];
  const reason = readText(readPath(condition, "reason"));
  return [
    `condition Healthy is ${status ?? "without a status"}${reason === undefined ? "" : ` (${reason})`}`,
  ];
}

function doubtApplications(object: unknown): string[] {
  const output = readPath(object, "status", "health", "output");
  const outputs = isPlainObject(output) ? [output] : readList(output);
  return outputs
    .flatMap((each) => readList(readPath(each, "applicationStatuses")))
    .flatMap((application) => {
      const finished = readTime(readPath(application, "operationState", "finishedAt"));
      const reconciled = readTime(readPath(application, "reconciledAt"));
      // Newer versions of Kargo leave `reconciledAt` out, having compared the two themselves.
      if (finished === undefined || reconciled === undefined || reconciled >= finished) return [];
      const name = readText(readPath(application, "Name")) ?? "without a name";
      return [`Argo CD has not looked at Application ${name} since its last operation`];
    });
}

function readTime(value: unknown): number | undefined {
  const time = Date.parse(readText(value) ?? "");
  return Number.isNaN(time) ? undefined : time;
}
