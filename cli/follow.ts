import { isFault } from "../shared/domain/fault.ts";
import type { StageKey } from "../shared/domain/identity.ts";
import { isTerminal, type TerminalPhase } from "../shared/domain/phase.ts";
import { isSettled, type RequestRecord, type Verification } from "../shared/domain/verification.ts";
import type { Ledger } from "../shared/ledger/ledger.ts";
import type { Clock } from "../shared/runtime/clock.ts";
import { EXIT_CODES, type ExitCode, exitCodeOfPhase } from "./exit-codes.ts";

/** What is known of a request while it is followed. */
export interface Sight {
  readonly request?: RequestRecord | undefined;
  readonly verification?: Verification | undefined;
  /** Set while the ledger cannot be read; what went before still holds. */
  readonly trouble?: string | undefined;
}

export interface FollowOptions {
  readonly ledger: Pick<Ledger, "readRequest" | "readVerification">;
  readonly clock: Clock;
  readonly key: StageKey;
  readonly requestId: string;
  readonly timeoutMs: number;
  /** Called after each look. */
  readonly report: (sight: Sight) => void;
}

export interface Followed extends Sight {
  readonly exitCode: ExitCode;
}

/** A second is quick enough for a person, and a quarter of a read unit each for the table. */
const INTERVAL_MS = 1000;
const FIRST_INTERVAL_MS = 250;

/**
 * Follows a request to its fate and, if it led to a verification, that to its end. A ledger that does not answer
 * is asked again until the time is over.
 */
export async function followRequest(options: FollowOptions): Promise<Followed> {
  const { clock, timeoutMs, report } = options;
  const end = clock.now() + timeoutMs;
  let sight: Sight = {};
  for (let look = 0; ; look++) {
    sight = await lookAgain(options, sight);
    report(sight);
    const exitCode = decideExit(sight);
    if (exitCode !== undefined) return { ...sight, exitCode };
    const left = end - clock.now();
    if (left <= 0)
      return {
        ...sight,
        exitCode: sight.trouble === undefined ? EXIT_CODES.timedOut : EXIT_CODES.unreachable,
      };
    await clock.sleep(Math.min(left, look < 4 ? FIRST_INTERVAL_MS : INTERVAL_MS));
  }
}

async function lookAgain({ ledger, key, requestId }: FollowOptions, known: Sight): Promise<Sight> {
  try {
    const request =
      known.request !== undefined && isSettled(known.request.outcome)
        ? known.request
        : await ledger.readRequest(key, requestId);
    const id = request?.verificationId;
    const versioned = id === undefined ? undefined : await ledger.readVerification(key, id);
    return { request, verification: versioned?.verification };
  } catch (error) {
    if (!isFault(error, "Transient")) throw error;
    return { request: known.request, verification: known.verification, trouble: error.message };
  }
}

/** The exit code once nothing more will happen. */
function decideExit({ request, verification, trouble }: Sight): ExitCode | undefined {
  if (request === undefined || trouble !== undefined) return undefined;
  switch (request.outcome) {
    case "accepted":
    case "waiting":
      return undefined;
    case "refused":
      return EXIT_CODES.refused;
    case "too-late":
      return EXIT_CODES.tooLate;
    case "aborted":
      // Aborted is what was asked for.
      return EXIT_CODES.done;
    case "started":
      if (verification === undefined || !isTerminal(verification.phase)) return undefined;
      return exitCodeOfPhase(verification.phase satisfies TerminalPhase);
  }
}
