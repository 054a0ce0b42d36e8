import { Fault } from "../../shared/domain/fault.ts";

/** The process died. Not a fault of any kind: nothing in the product may catch it and go on. */
class Crash extends Error {
  override readonly name = "Crash";
}

/**
 * What befalls the n-th call.
 *
 * - `before`: the process dies before the call takes effect.
 * - `after`: it dies after the call took effect and before its answer is seen.
 * - `unanswered`: the call takes effect, the answer is lost, and the process goes on with a `Transient` fault.
 * - `repeated`: the answer is lost and the client below the port tries again by itself, as the AWS SDK does: a
 *   conditional write then meets what it wrote itself.
 */
export type Blow = "before" | "after" | "unanswered" | "repeated";

export interface CrashPlan {
  readonly call: number;
  readonly when: Blow;
}

export interface CrashPoints {
  /**
   * The same port, whose every asynchronous call is a place to die. `loseAnswer` makes the client below lose the
   * answer of its next call; where there is none, the call itself is made twice.
   */
  guard<T extends object>(port: T, name: string, loseAnswer?: () => void): T;
  /** Arms the plan for the calls from now on. */
  arm(plan: CrashPlan | undefined): void;
  /** Calls since the last `arm`, by name. */
  readonly calls: readonly string[];
  /** True once the plan has struck. */
  struck(): boolean;
}

/** True for the death of a process that a plan brought about. */
export function isCrash(error: unknown): boolean {
  return error instanceof Crash;
}

/** Counts the calls of guarded ports and strikes at the planned one; once dead, every further call dies too. */
export function createCrashPoints(): CrashPoints {
  let plan: CrashPlan | undefined;
  let calls: string[] = [];
  let dead = false;
  let struck = false;

  async function pass(
    name: string,
    call: () => unknown,
    loseAnswer: (() => void) | undefined,
  ): Promise<unknown> {
    if (dead) throw new Crash(name);
    const index = calls.push(name);
    if (plan?.call !== index) return call();
    struck = true;
    dead = plan.when === "before" || plan.when === "after";
    switch (plan.when) {
      case "before":
        throw new Crash(`before ${name}`);
      case "after":
        await call();
        throw new Crash(`after ${name}`);
      case "unanswered":
        await call();
        throw new Fault("Transient", `the answer of ${name} was lost`);
      case "repeated":
        if (loseAnswer === undefined) await call();
        else loseAnswer();
        return call();
    }
  }

  return {
    get calls() {
      return calls;
    },
    struck: () => struck,
    arm(next) {
      plan = next;
      calls = [];
      dead = false;
      struck = false;
    },
    guard(port, name, loseAnswer) {
      return new Proxy(port, {
        get(target, property, receiver) {
          const value: unknown = Reflect.get(target, property, receiver);
          if (typeof value !== "function" || String(property).startsWith("list")) return value;
          return (...args: unknown[]) =>
            pass(`${name}.${String(property)}`, () => value.apply(target, args), loseAnswer);
        },
      });
    },
  };
}
