import type { Clock } from "../shared/runtime/clock.ts";
import type { Connection } from "./connection.ts";
import type { Terminal } from "./terminal.ts";

/** Everything that a command has from outside; tests bring their own. */
export interface Context {
  readonly terminal: Terminal;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** `USER@HOST` as whom requests are made, unless `--actor` says otherwise. */
  readonly user: string;
  /** As the person typed it: `tallyman` or `kubectl tallyman`. */
  readonly invokedAs: string;
  /** A request's identity. */
  newId(): string;
  /** @throws CommandError when there is no installation. */
  connect(data: string | undefined): Connection;
}
