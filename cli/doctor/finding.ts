import { toLine } from "../render/text.ts";

/** `fail`: something does not work. `warn`: it works with a risk, or could not be looked at. */
export type Level = "ok" | "warn" | "fail";

/** One line of `tallyman doctor`. */
export interface Finding {
  readonly level: Level;
  /** What was looked at, for example `verify queue` or `cluster harbour`. */
  readonly subject: string;
  readonly message: string;
  /** What to do about it. */
  readonly advice?: string | undefined;
}

export const ok = (subject: string, message: string): Finding => ({ level: "ok", subject, message });
export const warn = (subject: string, message: string, advice?: string): Finding => ({
  level: "warn",
  subject,
  message,
  advice,
});
export const fail = (subject: string, message: string, advice?: string): Finding => ({
  level: "fail",
  subject,
  message,
  advice,
});

/**
 * Runs a check. Whoever asks may see less than the functions do: what is denied is said, and the other checks go on; so
 * they do after an error of any other kind.
 */
export async function inspect(
  subject: string,
  needs: string,
  look: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await look();
  } catch (error) {
    if (isDenied(error)) return [warn(subject, "may not be seen by you", `Looking takes ${needs}.`)];
    return [
      fail(
        subject,
        toLine(error instanceof Error ? error.message || error.name : String(error)),
        "Is the address right, and does this machine reach it?",
      ),
    ];
  }
}

/** True for AWS's many names of "no", also behind a fault of ours. */
function isDenied(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (/AccessDenied|NotAuthorized|UnauthorizedOperation/.test(at.name)) return true;
  }
  return false;
}

/** True when the engine does not know what was asked: DynamoDB on a desk lacks some of what AWS has. */
export function isUnknownOperation(error: unknown): boolean {
  return error instanceof Error && /UnknownOperation|UnsupportedOperation/.test(error.name);
}
