/** One deliberate fault: `find` (once in the file) becomes `replace`, and one of `tests` has to notice. */
export interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly tests: readonly string[];
}

const STORIES = "test/integration/stories/";
const CRASHES = "test/integration/crashes.test.ts";
const DELIVERY = "test/integration/delivery.test.ts";
const LEDGER = "test/integration/ledger/ledger.test.ts";
const FORWARDER = "test/integration/forwarder.test.ts";
const BATCH = "shared/runtime/batch.test.ts";
const BUDGET = "test/integration/budget.test.ts";
const RETENTION = "test/integration/retention.test.ts";

export const MUTANTS: readonly Mutant[] = [
  {
    name: "a verification is overwritten by whoever enters it second",
    file: "shared/ledger/ledger.ts",
    find: 'return put(encodeVerification(verification, 1), "attribute_not_exists(pk)");',
    replace: "return put(encodeVerification(verification, 1));",
    tests: [LEDGER],
  },
  {
    name: "an older observation overwrites a newer one",
    file: "shared/ledger/ledger.ts",
    find: '"ph = :ph AND ob < :ob"',
    replace: '"ph = :ph AND ob <> :ob"',
    tests: [LEDGER],
  },
  {
    name: "writes do not look at the revision",
    file: "shared/ledger/ledger.ts",
    find: 'const held = await put(encodeVerification(next, revision + 1), "n = :n", {',
    replace: 'const held = await put(encodeVerification(next, revision + 1), "n > :n OR n <= :n", {',
    tests: [LEDGER],
  },
  {
    name: "a settled request can be changed",
    file: "shared/ledger/ledger.ts",
    find: '"attribute_not_exists(pk) OR ph IN (:accepted, :waiting)"',
    replace: '"attribute_not_exists(pk) OR NOT ph IN (:accepted, :waiting) OR ph IN (:accepted, :waiting)"',
    tests: [LEDGER],
  },
  {
    name: "a terminal phase is not final",
    file: "shared/domain/observation.ts",
    find: "if (isTerminal(verification.phase)) {\n    // Only",
    replace: "if (false) {\n    // Only",
    tests: [STORIES, "shared/domain/observation.test.ts"],
  },
  {
    name: "the Successful of a terminated run is taken for a pass",
    file: "shared/domain/observation.ts",
    find: "const phase = verification.abort === undefined ? natural : phaseOfAbort(verification.abort);",
    replace: "const phase = natural;",
    tests: [STORIES, DELIVERY, "shared/domain/observation.test.ts"],
  },
  {
    name: "resourceVersions are compared as texts",
    file: "shared/domain/resource-version.ts",
    find: "const difference = parseResourceVersion(a) - parseResourceVersion(b);",
    replace:
      "const difference = a < b ? -1n : a > b ? 1n : parseResourceVersion(a) - parseResourceVersion(b);",
    tests: ["shared/domain/resource-version.test.ts"],
  },
  {
    name: "503 is taken for a verdict",
    file: "shared/cluster/cluster.ts",
    find: "const permanent = [400, 404, 405, 413, 415, 422].includes(response.status);",
    replace: "const permanent = [400, 404, 405, 413, 415, 422, 503].includes(response.status);",
    tests: [STORIES],
  },
  {
    name: "a run that exists already is an error instead of being adopted",
    file: "shared/operations/analysis-run.ts",
    find: "if (!result.created && !isSameRun(result.object, identity)) {",
    replace: "if (!result.created) {",
    tests: [CRASHES],
  },
  {
    name: "what follows the ledger's write is not repeated after a crash",
    file: "shared/operations/observe-run.ts",
    find: "if (redelivered && verification.observed === run.resourceVersion) {",
    replace: "if (false) {",
    tests: [CRASHES],
  },
  {
    name: "the annotation is cleared before the request is recorded",
    file: "shared/operations/message.ts",
    find: 'await reverifyStage(world, key, toRequest(message), { kind: "reverify", snapshot: stage, ...delivery });\n  const { reverify } = stage ?? {};',
    replace: "const { reverify } = stage ?? {};",
    tests: [STORIES],
  },
  {
    name: "the checkpoint advances although SQS has not accepted",
    file: "functions/forwarder/outgoing.ts",
    find: 'if (!isFault(error, "Transient") || options.signal.aborted) throw error;',
    replace: "break;",
    tests: [FORWARDER],
  },
  {
    name: "the later messages of a failed group are worked on",
    file: "shared/runtime/batch.ts",
    find: "if (blocked) {",
    replace: "if (false) {",
    tests: [BATCH],
  },
  {
    name: "an invalid message is retried",
    file: "shared/runtime/batch.ts",
    find: 'fault.kind === "Invalid" ||',
    replace: "",
    tests: [BATCH],
  },
  {
    name: "an observation costs a read",
    file: "shared/operations/observe-run.ts",
    find: "if (!options.phaseChanged && !options.redelivered) {",
    replace: "if (false) {",
    tests: [BUDGET],
  },
  {
    name: "the sweeper does not look for deleted Stages",
    file: "shared/operations/sweep.ts",
    find: "if (stage === undefined || stage.uid !== verification.stageUid)",
    replace: "if (false)",
    tests: [STORIES],
  },
  {
    name: "a repeated Freight is taken for verified",
    file: "shared/domain/identity.ts",
    find: 'return uuidv5(JSON.stringify(["promotion", stageUid, collectionId, cause.promotion]), NAMESPACE);',
    replace: 'return uuidv5(JSON.stringify(["promotion", stageUid, collectionId]), NAMESPACE);',
    tests: [STORIES],
  },
  {
    name: "the Stage is told only of its current Freight",
    file: "shared/operations/write-back.ts",
    find: 'if (patch === undefined) return;\n    if (verification.phase === "Pending")',
    replace:
      'if (patch === undefined || (object as any).status?.freightHistory?.[0]?.id !== verification.collection.id) return;\n    if (verification.phase === "Pending")',
    tests: [STORIES],
  },
  {
    name: "a write that the SDK repeated is taken for somebody else's",
    file: "shared/ledger/ledger.ts",
    find: "return isDeepStrictEqual(existing, item);",
    replace: "return false;",
    tests: [LEDGER, CRASHES],
  },
  {
    name: "what is expired is read for as long as DynamoDB has it",
    file: "shared/ledger/ledger.ts",
    find: "return item?.[LEDGER_TABLE.timeToLiveAttribute] !== undefined;",
    replace: "return false;",
    tests: [RETENTION],
  },
  {
    name: "a health from before the Promotion is trusted",
    file: "shared/domain/start.ts",
    find: "if (doubt !== undefined) return",
    replace: "if (false) return",
    tests: [STORIES],
  },
  {
    name: "a Promotion that failed is taken for one that brought Freight",
    file: "shared/domain/start.ts",
    find: 'if (lastPromotion?.phase === undefined || lastPromotion.phase === "Succeeded") {',
    replace: "if (true) {",
    tests: [STORIES],
  },
  {
    name: "another verifier's verification is written back",
    file: "shared/operations/write-back.ts",
    find: "if (isForeign(verification)) return;",
    replace: "if (false) return;",
    tests: [`${STORIES}companion.test.ts`, `${STORIES}modes.test.ts`],
  },
  {
    name: "another verifier's abort is taken for a failure",
    file: "shared/domain/foreign.ts",
    find: 'return isAbort ? "Aborted" : known;',
    replace: "return known;",
    tests: [`${STORIES}companion.test.ts`],
  },
  {
    name: "a request is passed on before it is recorded",
    file: "shared/operations/ask-verifier.ts",
    find: "  await world.ledger.writeRequest(written);\n  if (waiting?.requestId",
    replace: "  if (waiting?.requestId",
    tests: [`${STORIES}companion.test.ts`],
  },
  {
    name: "what ends by its deadline counts as aborted",
    file: "shared/operations/abort-verification.ts",
    find: '    because: "DeadlineExceeded",\n',
    replace: "",
    tests: [`${STORIES}deadlines.test.ts`],
  },
  {
    name: "another shard's Stage is verified",
    file: "shared/domain/policy.ts",
    find: "if (shard === undefined || actual === shard) return undefined;",
    replace: "if (true) return undefined;",
    tests: [`${STORIES}shards.test.ts`],
  },
  {
    name: "a template's change is marked for ever",
    file: "shared/domain/template-drift.ts",
    find: "return found === undefined || found.hash === template.hash ? [] : [found];",
    replace: "return found === undefined ? [] : [found];",
    tests: [`${STORIES}templates.test.ts`],
  },
  {
    name: "an Application that stays Healthy across a sync wakes nobody",
    file: "functions/forwarder/application-trace.ts",
    find: "(current.isFresh && !previous.isFresh)",
    replace: "false",
    tests: [`${STORIES}applications.test.ts`],
  },
  {
    name: "what ended before a late first list counts as settled",
    file: "functions/forwarder/forwarder.ts",
    find: "? await options.loadOpen() : NONE;",
    replace: "? NONE : NONE;",
    tests: [FORWARDER],
  },
];
