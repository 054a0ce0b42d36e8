import type { Phase } from "./phase.ts";
import type { Verification } from "./verification.ts";

/** What became of one combination of Freight in a Stage. */
export interface Combination {
  readonly collection: Verification["collection"];
  readonly missingOrigins: readonly string[];
  /** How many verifications ended, or are, in each phase. */
  readonly phases: Readonly<Partial<Record<Phase, number>>>;
  /** Whether it ever passed, whatever came later. */
  readonly everSuccessful: boolean;
  /** The newest verification. */
  readonly latest: Verification;
}

/**
 * Groups a Stage's verifications by what they verified; the combination that was verified last comes first. Freight that
 * was replaced before its verification could start was not verified with anything.
 */
export function summarizeCombinations(verifications: readonly Verification[]): Combination[] {
  const groups = new Map<string, Verification[]>();
  for (const verification of verifications) {
    if (verification.reason === "Superseded" && verification.run === undefined) continue;
    const { id } = verification.collection;
    groups.set(id, [...(groups.get(id) ?? []), verification]);
  }
  const combinations = [...groups.values()].flatMap((group): Combination[] => {
    const [latest] = group.toSorted((a, b) => b.createdAt - a.createdAt);
    if (latest === undefined) return [];
    const phases: Partial<Record<Phase, number>> = {};
    for (const { phase } of group) phases[phase] = (phases[phase] ?? 0) + 1;
    const { collection, missingOrigins } = latest;
    return [{ collection, missingOrigins, phases, everSuccessful: (phases.Successful ?? 0) > 0, latest }];
  });
  return combinations.toSorted((a, b) => b.latest.createdAt - a.latest.createdAt);
}
