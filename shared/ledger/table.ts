/**
 * The one definition of the ledger's table; the CDK app and the embedded stack both build it from here.
 * Plain data on purpose: neither a CDK construct nor an SDK call, so that both can read it.
 */

/** An index over items that carry its partition attribute; the others are not in it (sparse). */
export interface IndexDefinition {
  readonly name: string;
  readonly partitionKey: string;
  readonly sortKey: string;
}

const history: IndexDefinition = { name: "history", partitionKey: "pk", sortKey: "h" };
const open: IndexDefinition = { name: "open", partitionKey: "o", sortKey: "h" };
const activity: IndexDefinition = { name: "activity", partitionKey: "a", sortKey: "h" };
// A sort key of its own: membership rows must not show up in the history.
const freight: IndexDefinition = { name: "freight", partitionKey: "f", sortKey: "fh" };

/**
 * Keys: `pk` is the Stage (`cluster/project/stage`); `sk` tells the items of a Stage apart:
 * `STAGE`, `V#<verification>`, `V#<verification>#P#<phase>`, `V#<verification>#F#<freight>`, `R#<request>`.
 * Deliveries of webhooks lie apart: `webhook:<receiver>:<identity>` and `DELIVERY`.
 */
export const LEDGER_TABLE = {
  partitionKey: "pk",
  sortKey: "sk",
  /**
   * Seconds since the epoch; set on what is expired, where a retention is configured (`retention.ts`), and on deliveries
   * of webhooks, which know beforehand when (`deliveries.ts`).
   */
  timeToLiveAttribute: "ttl",
  indexes: { history, open, activity, freight },
  /**
   * Copied into every index: what a listing shows. `n`, `ob` and `ct` change with each observation and are left
   * out, so that an observation that changes no phase costs no index write. Names are in `items.ts`.
   */
  projectedAttributes: [
    ...["ty", "u", "ca", "pr", "co", "fr", "mo", "ac", "ph", "re", "ms", "t0", "t1", "t2", "rn", "rp", "ab"],
    ...["st", "td", "ttl"],
  ],
} as const;
