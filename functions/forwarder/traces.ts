/**
 * Memory of a reflector that keeps a small trace for each object while the full snapshot lives only from the
 * moment it is read until its message is built: 50,000 AnalysisRuns must not cost 50,000 snapshots.
 */
export interface Traces<Trace extends object, Snapshot> {
  /** Reads an object; what the reflector keeps and compares is the trace. */
  project(object: unknown): Trace;
  /** Hands out a trace's snapshot, once. */
  take(trace: Trace): Snapshot | undefined;
}

export function createTraces<Trace extends object, Snapshot>(
  read: (object: unknown) => { readonly trace: Trace; readonly snapshot: Snapshot },
): Traces<Trace, Snapshot> {
  // Weak: a trace that turned out to be no change is dropped, and its snapshot with it.
  const snapshots = new WeakMap<Trace, Snapshot>();
  return {
    project(object) {
      const { trace, snapshot } = read(object);
      snapshots.set(trace, snapshot);
      return trace;
    },
    take(trace) {
      const snapshot = snapshots.get(trace);
      snapshots.delete(trace);
      return snapshot;
    },
  };
}
