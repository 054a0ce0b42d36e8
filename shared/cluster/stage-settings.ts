import { parseDuration } from "../domain/duration.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import {
  DEADLINE_ANNOTATION,
  MISSING_FREIGHT_ANNOTATION,
  MODE_ANNOTATION,
  ON_SUPERSEDE_ANNOTATION,
  ON_TEMPLATE_CHANGE_ANNOTATION,
  START_DEADLINE_ANNOTATION,
} from "./annotations.ts";
import { cutHead, readPath } from "./plain-object.ts";

type Settings = Pick<
  StageSnapshot,
  "missingFreight" | "onSupersede" | "onTemplateChange" | "mode" | "deadline" | "startDeadline" | "warnings"
>;

/** Characters of a value that a warning repeats. */
const SHOWN = 60;

/**
 * What a Stage's `tallyman.dev/` annotations say. A value that cannot be used counts as none and is named in
 * `warnings`: a verification must not hang on a misspelt setting, nor hide it.
 */
export function readStageSettings(object: unknown): Settings {
  const warnings: string[] = [];
  const read = <T>(key: string, parse: (text: string) => T | undefined, help: string): T | undefined => {
    const value = readPath(object, "metadata", "annotations", key);
    if (value === undefined) return undefined;
    const parsed = typeof value === "string" ? parse(value) : undefined;
    if (parsed === undefined) {
      // Anything else may not even be made a text: an object may bring a `toString` of its own.
      const shown = typeof value === "string" ? JSON.stringify(cutHead(value, SHOWN)) : `a ${typeof value}`;
      warnings.push(`annotation ${key}: ${shown} is ignored; ${help}`);
    }
    return parsed;
  };
  const oneOf =
    <T extends string>(...words: readonly T[]) =>
    (text: string): T | undefined =>
      words.find((word) => word === text);
  const help = "write a duration such as 30m or 1h30m, or 0 for none";
  const missingFreight = read(
    MISSING_FREIGHT_ANNOTATION,
    oneOf("hold", "verify-partial"),
    "write hold or verify-partial",
  );
  const onSupersede = read(ON_SUPERSEDE_ANNOTATION, oneOf("follow", "abort"), "write follow or abort");
  const onTemplateChange = read(
    ON_TEMPLATE_CHANGE_ANNOTATION,
    oneOf("reverify", "mark"),
    "write reverify or mark",
  );
  const mode = read(MODE_ANNOTATION, oneOf("managed", "companion"), "write managed or companion");
  const deadline = read(DEADLINE_ANNOTATION, parseDuration, help);
  const startDeadline = read(START_DEADLINE_ANNOTATION, parseDuration, help);
  return {
    missingFreight: missingFreight ?? "verify-partial",
    ...(onSupersede === "abort" ? { onSupersede } : {}),
    ...(onTemplateChange === "reverify" ? { onTemplateChange } : {}),
    ...(mode === undefined ? {} : { mode }),
    ...(deadline === undefined ? {} : { deadline }),
    ...(startDeadline === undefined ? {} : { startDeadline }),
    ...(warnings.length === 0 ? {} : { warnings }),
  };
}
