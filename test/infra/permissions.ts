import { readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const LEDGER = "shared/ledger/ledger.ts";
/** Batches of a call are authorised as the call itself. */
const SINGULAR: Readonly<Record<string, string>> = { SendMessageBatch: "SendMessage" };

/** Commands that a text constructs, as IAM names them. */
function findCommands(text: string): string[] {
  return [...text.matchAll(/new ([A-Z]\w+)Command\(/g)].map(([, name = ""]) => SINGULAR[name] ?? name);
}

/** The DynamoDB actions behind each of the ledger's methods, read from its source. */
function readLedgerMethods(): ReadonlyMap<string, ReadonlySet<string>> {
  const source = readFileSync(join(ROOT, LEDGER), "utf8");
  const start = source.indexOf("  return {\n    async readStage(");
  const end = source.indexOf("\n  };\n}", start);
  if (start < 0 || end < 0) throw new Error(`${LEDGER}: its methods are no longer where this test looks`);
  const methods = new Map<string, ReadonlySet<string>>();
  for (const block of source.slice(start, end).split(/\n(?= {4}(?:async )?\w+(?:\(|:))/)) {
    const name = /^ {4}(?:async )?(\w+)(?:\(|:)/.exec(block)?.[1];
    if (name === undefined) continue;
    const actions = new Set(findCommands(block));
    if (/\bget\(/.test(block)) actions.add("GetItem");
    if (/\bput\(/.test(block)) actions.add("PutItem");
    if (/\bquery\(/.test(block)) actions.add("Query");
    methods.set(name, actions);
  }
  return methods;
}

/** The DynamoDB actions that code bundled from these sources can perform. */
export function deriveDynamoDbActions(sources: readonly string[]): string[] {
  const methods = readLedgerMethods();
  const actions = new Set<string>();
  for (const path of sources) {
    if (!/^(shared|functions)\//.test(path) || path === LEDGER) continue;
    const text = readFileSync(join(ROOT, path), "utf8");
    for (const [, name = ""] of text.matchAll(/\bledger\s*\.(\w+)\(/g)) {
      const found = methods.get(name);
      if (found === undefined) throw new Error(`${path}: ledger.${name} is not in ${LEDGER}`);
      for (const action of found) actions.add(action);
    }
    if (path.startsWith("shared/ledger/")) for (const action of findCommands(text)) actions.add(action);
  }
  return [...actions].map((action) => `dynamodb:${action}`).sort();
}

/** The SQS actions that `shared/queue` can perform. */
export function deriveQueueActions(): string[] {
  const text = readFileSync(join(ROOT, "shared/queue/message-queue.ts"), "utf8");
  return [...new Set(findCommands(text).map((action) => `sqs:${action}`))].sort();
}
