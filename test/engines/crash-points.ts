/** The process died. Not a fault of any kind: nothing in the product may catch it and go on. */
class Crash extends Error {
  override readonly name = "Crash";
}

/** Where to die: before the n-th call takes effect, or after it did and before its answer is seen. */
export interface CrashPlan {
  readonly call: number;
  readonly when: "before" | "after";
}

export interface CrashPoints {
  /** The same port, whose every asynchronous call is a place to die. */
  guard<T extends object>(port: T, name: string): T;
  /** Arms the plan for the calls from now on. */
  arm(plan: CrashPlan | undefined): void;
  /** Calls since the last `arm`, by name. */
  readonly calls: readonly string[];
  /** True once the plan has struck. */
  struck(): boolean;
}

/** Counts the calls of guarded ports and dies at the planned one; once dead, every further call dies too. */
export function createCrashPoints(): CrashPoints {
  let plan: CrashPlan | undefined;
  let calls: string[] = [];
  let dead = false;

  async function pass(name: string, call: () => unknown): Promise<unknown> {
    if (dead) throw new Crash(name);
    const index = calls.push(name);
    const isPlanned = plan?.call === index;
    if (isPlanned && plan?.when === "before") {
      dead = true;
      throw new Crash(`before ${name}`);
    }
    const result = await call();
    if (isPlanned) {
      dead = true;
      throw new Crash(`after ${name}`);
    }
    return result;
  }

  return {
    get calls() {
      return calls;
    },
    struck: () => dead,
    arm(next) {
      plan = next;
      calls = [];
      dead = false;
    },
    guard(port, name) {
      return new Proxy(port, {
        get(target, property, receiver) {
          const value: unknown = Reflect.get(target, property, receiver);
          if (typeof value !== "function" || String(property).startsWith("list")) return value;
          return (...args: unknown[]) => pass(`${name}.${String(property)}`, () => value.apply(target, args));
        },
      });
    },
  };
}
