import { Fault } from "./fault.ts";

/**
 * The one place that puts resourceVersions in order. Kubernetes guarantees (since 1.35; in fact since
 * etcd 3) that they are decimal numbers which grow with each write to one resource; as texts "9" would
 * come after "10". Returns a number below zero, zero or above zero.
 *
 * @throws Fault `Invalid` for a text that is not a decimal number of at most 20 digits.
 */
export function compareResourceVersions(a: string, b: string): number {
  const difference = parseResourceVersion(a) - parseResourceVersion(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** A resourceVersion as a number. @throws Fault `Invalid` as above. */
function parseResourceVersion(text: string): bigint {
  if (!/^[0-9]{1,20}$/.test(text)) {
    throw new Fault(
      "Invalid",
      `resourceVersion ${JSON.stringify(text.slice(0, 40))} is not a decimal number`,
    );
  }
  return BigInt(text);
}
