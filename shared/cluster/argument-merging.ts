import { Fault, isFault } from "../domain/fault.ts";
import type { StageSnapshot } from "../domain/stage.ts";
import type { ExpressionScope } from "./expression-evaluation.ts";
import type { JsonValue } from "./expression-values.ts";
import { evaluateTemplate } from "./expressions.ts";
import type { HeldFreight } from "./held-artifacts.ts";
import { cutText } from "./plain-object.ts";
import type { DeclaredArgument } from "./template-flattening.ts";

/** The arguments of a run, and what a person should know about them. */
interface MergedArguments {
  readonly args: readonly DeclaredArgument[];
  readonly warnings: readonly string[];
}

/**
 * Gives the templates' arguments the Stage's values. The Stage's value wins over the template's value and over its
 * `valueFrom`, which goes; a Stage's argument with an empty value counts as absent, and one that no template declares is
 * left out with a warning (Kargo drops it in silence). Only what is used is evaluated. `freight` is what is verified.
 *
 * @throws Fault `Permanent` naming each argument that stays without a value, or the first that cannot be evaluated.
 */
export function mergeArguments(
  declared: readonly DeclaredArgument[],
  stage: StageSnapshot,
  freight: readonly HeldFreight[],
): MergedArguments {
  const subject = `Stage ${stage.project}/${stage.name}`;
  const scope = buildScope(stage, freight, subject);
  const names = new Set(declared.map((argument) => argument.name));
  const warnings: string[] = [];
  const given = new Map<string, string>();
  for (const { name, value } of stage.verification?.args ?? []) {
    if (!names.has(name)) {
      warnings.push(
        `${subject}: argument "${cutText(name, 253)}" is declared by no template and was left out`,
      );
    } else if (value !== undefined && value !== "") {
      given.set(name, value);
    }
  }
  const args = declared.map((argument): DeclaredArgument => {
    const value = given.get(argument.name);
    if (value === undefined) return argument;
    const owner = `${subject}: spec.verification.args: argument "${cutText(argument.name, 253)}"`;
    return { name: argument.name, value: evaluateArgument(value, scope, owner) };
  });
  const unresolved = args.filter(
    (argument) => argument.value === undefined && argument.valueFrom === undefined,
  );
  if (unresolved.length > 0) {
    throw new Fault(
      "Permanent",
      unresolved.map(
        ({ name }) =>
          `${subject}: spec.verification.args: unresolved argument "${cutText(name, 253)}": neither the Stage nor a template gives it a value`,
      ),
    );
  }
  return { args, warnings };
}

function evaluateArgument(value: string, scope: ExpressionScope, owner: string): string {
  const result = evaluateTemplate(value, scope, owner);
  if (typeof result === "string") return result;
  const kinds = { number: "a number", boolean: "a boolean", object: "an object" } as const;
  const kind =
    result === null ? "null" : Array.isArray(result) ? "a list" : kinds[typeof result as keyof typeof kinds];
  throw new Fault(
    "Permanent",
    `${owner}: ${cutText(value, 200)} comes out as ${kind}, not as a text; wrap the expression in quote()`,
  );
}

/**
 * The Stage's variables in their order; a later one may refer to an earlier one, or replace it. One that cannot be
 * evaluated is kept as its fault and counts only where it is used: it may be meant for promotion steps, where Kargo
 * knows more functions.
 */
function buildScope(stage: StageSnapshot, freight: readonly HeldFreight[], subject: string): ExpressionScope {
  const vars = new Map<string, JsonValue | Fault>();
  const scope: ExpressionScope = {
    ctx: { project: stage.project, stage: stage.name },
    vars,
    holdings: { requestedOrigins: stage.requestedOrigins, freight },
  };
  for (const { name, value } of stage.vars) {
    try {
      vars.set(
        name,
        evaluateTemplate(value, scope, `${subject}: spec.vars: variable "${cutText(name, 253)}"`),
      );
    } catch (error) {
      if (!isFault(error)) throw error;
      vars.set(name, error);
    }
  }
  return scope;
}
