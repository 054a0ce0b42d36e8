import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { GetQueueAttributesCommand, SetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { startDynamoDb } from "../../local/dynamodb.ts";
import { buildEnvironment, LOCAL_REGION, withEnvironment } from "../../local/environment.ts";
import { createLedgerTable } from "../../local/ledger-table.ts";
import { startQueueServer } from "../../local/queue-server.ts";
import { createQueues } from "../../local/queues.ts";
import { isTerminal } from "../../shared/domain/phase.ts";
import type { Verification } from "../../shared/domain/verification.ts";
import { createLedger } from "../../shared/ledger/ledger.ts";
import { MESSAGE_KINDS } from "../../shared/messages/schema.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import { createKargoActor } from "../harness/kargo-actor.ts";
import { openControlPlane, openSandbox } from "./premises.ts";

/**
 * Real processes, real kills: `npm run test:kills [-- --verifications 500 --stages 50 --real]`. Worker and forwarder are ended
 * with SIGKILL at random moments while verifications run, and started again at once. Afterwards nothing may be lost,
 * nothing doubled, nothing open. With `--real` the API server and etcd are real and are killed too. Everything listens on loopback, and the run is bounded in time.
 */
const { values } = parseArgs({
  options: {
    verifications: { type: "string", default: "500" },
    stages: { type: "string", default: "50" },
    minutes: { type: "string", default: "8" },
    real: { type: "boolean", default: false },
  },
});
const STAGES = Number(values.stages);
const PER_STAGE = Math.ceil(Number(values.verifications) / STAGES);
const DEADLINE = Date.now() + Number(values.minutes) * 60_000;
const CLUSTER = "harbour";
const PROJECT = "lighthouse";
const TABLE = "tallyman-kills";
/** Seconds that a killed worker's messages stay invisible; on AWS it is minutes, which would only take longer. */
const VISIBILITY = 2;

const dir = mkdtempSync(join(tmpdir(), "tallyman-kills-"));
const premises = await (values.real ? openControlPlane() : openSandbox());
const [database, queueServer] = await Promise.all([startDynamoDb(), startQueueServer()]);
const connection = { region: LOCAL_REGION, credentials: { accessKeyId: "local", secretAccessKey: "local" } };
const dynamoDb = new DynamoDBClient({ ...connection, endpoint: database.endpoint });
const sqs = new SQSClient({ ...connection, endpoint: queueServer.endpoint });
await createLedgerTable(dynamoDb, TABLE);
const queues = await createQueues(sqs, TABLE);
for (const kind of MESSAGE_KINDS) {
  const Attributes = { VisibilityTimeout: String(VISIBILITY) };
  await sqs.send(new SetQueueAttributesCommand({ QueueUrl: queues[kind].queue, Attributes }));
}
const environment = withEnvironment(
  process.env,
  buildEnvironment({
    table: TABLE,
    dynamoDbEndpoint: database.endpoint,
    sqsEndpoint: queueServer.endpoint,
    queues,
    clusters: [{ name: CLUSTER, ...premises.settings }],
    logLevel: "warn",
  }),
);
Object.assign(environment, {
  TALLYMAN_BACKOFF_BASE_SECONDS: "0.2",
  TALLYMAN_BACKOFF_CAP_SECONDS: "2",
  TALLYMAN_SWEEP_SECONDS: "5",
});

const OURS = { worker: "../../local/worker.ts", forwarder: "../../functions/forwarder/main.ts" } as const;
type Ours = keyof typeof OURS;
const kills: Record<string, number> = {};
const running: Partial<Record<Ours, ChildProcess>> = {};
let stopping = false;
let isCalm = false;

function keepAlive(name: Ours): void {
  const log = openSync(join(dir, `${name}.log`), "a");
  const file = fileURLToPath(new URL(OURS[name], import.meta.url));
  const child = spawn(process.execPath, [file], { env: environment, stdio: ["ignore", log, log] });
  closeSync(log);
  running[name] = child;
  child.once("exit", () => {
    delete running[name];
    if (!stopping) keepAlive(name);
  });
}

const kargo = createKargoActor(premises.others, PROJECT, systemClock);
const ledger = createLedger(dynamoDb, TABLE);
const stages = Array.from({ length: STAGES }, (_, index) => `stage-${index}`);
const freight = Array.from({ length: PER_STAGE }, (_, index) => `${index}`.padStart(40, "f"));

async function verificationsOf(stage: string): Promise<Verification[]> {
  const { items } = await ledger.listHistory({ cluster: CLUSTER, project: PROJECT, stage }, { limit: 1000 });
  return items.flatMap((entry) => (entry.kind === "verification" ? [entry.verification] : []));
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) {
    if (Date.now() > DEADLINE)
      throw new Error(`not within ${values.minutes} minutes: ${what}; logs in ${dir}`);
    await wait(100);
  }
}

/** Promotions one after the other; the next one comes as soon as the ledger knows of the last. */
async function live(stage: string): Promise<void> {
  for (const [index, name] of freight.entries()) {
    await kargo.promote(stage, [{ name }]);
    await until(
      `${stage} has started verification ${index + 1}`,
      async () => (await verificationsOf(stage)).length > index,
    );
  }
  await until(`${stage} has no open verification`, async () =>
    (await verificationsOf(stage)).every((v) => isTerminal(v.phase)),
  );
}

/** Verifications that a Stage's status shows as open. */
async function countShownOpen(stage: string): Promise<number> {
  const { status } = await kargo.getStage(stage);
  const shown = (status?.freightHistory ?? []).flatMap((item) => item.verificationHistory ?? []);
  return shown.filter((entry) => ["", "Pending", "Running"].includes(entry.phase)).length;
}

async function kill(): Promise<void> {
  const names = [...Object.keys(OURS), ...Object.keys(OURS), ...Object.keys(premises.shakes)];
  while (!isCalm) {
    await wait(300 + Math.random() * 1_500);
    const name = names[Math.floor(Math.random() * names.length)] ?? "worker";
    if (isCalm) return;
    kills[name] = (kills[name] ?? 0) + 1;
    await (premises.shakes[name]?.() ?? running[name as Ours]?.kill("SIGKILL"));
  }
}

const startedAt = Date.now();
let failures: string[] = [];
try {
  await kargo.createProject();
  await kargo.createTemplate("smoke", { metrics: [premises.metric] });
  for (const name of freight) await kargo.createFreight(name);
  for (const stage of stages) await kargo.createStage(stage);
  keepAlive("worker");
  keepAlive("forwarder");
  const killing = kill();
  await Promise.all(stages.map(live));
  isCalm = true;
  await killing;
  // Whoever ended the last one may have been killed before the Stage was told: a redelivery or a sweep does it.
  for (const stage of stages) {
    await until(`${stage} shows every end`, async () => (await countShownOpen(stage)) === 0);
  }
  failures = await inspect();
} catch (error) {
  failures.push(error instanceof Error ? error.message : String(error));
} finally {
  isCalm = true;
  stopping = true;
  for (const child of Object.values(running)) child.kill("SIGKILL");
  await premises.stop();
  await Promise.all([database.stop(), queueServer.stop()]);
  dynamoDb.destroy();
  sqs.destroy();
}

/** What a sceptic would count. */
async function inspect(): Promise<string[]> {
  const wrong: string[] = [];
  const runs = await kargo.listRuns();
  const byPhase: Record<string, number> = {};
  let total = 0;
  for (const stage of stages) {
    const verifications = await verificationsOf(stage);
    total += verifications.length;
    for (const v of verifications) byPhase[v.phase] = (byPhase[v.phase] ?? 0) + 1;
    if (verifications.length !== PER_STAGE)
      wrong.push(`${stage}: ${verifications.length} verifications for ${PER_STAGE} Promotions`);
    const made = runs.filter((run) => run.metadata.labels["kargo.akuity.io/stage"] === stage).length;
    const withRun = verifications.filter((v) => v.run !== undefined).length;
    if (made !== withRun) wrong.push(`${stage}: ${made} AnalysisRuns for ${withRun} verifications`);
    const frozen = await countShownOpen(stage);
    if (frozen > 0) wrong.push(`${stage}: its status shows ${frozen} verifications as open`);
  }
  for (const kind of MESSAGE_KINDS) {
    const { Attributes } = await sqs.send(
      new GetQueueAttributesCommand({
        QueueUrl: queues[kind].deadLetterQueue,
        AttributeNames: ["ApproximateNumberOfMessages"],
      }),
    );
    const letters = Number(Attributes?.ApproximateNumberOfMessages ?? 0);
    if (letters > 0) wrong.push(`${letters} ${kind} messages are dead letters`);
  }
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(0);
  console.log(
    `${total} verifications in ${STAGES} Stages of ${premises.name}, ${runs.length} AnalysisRuns, ${seconds} s; ` +
      `kills: ${JSON.stringify(kills)}; by phase: ${JSON.stringify(byPhase)}`,
  );
  return wrong;
}

for (const failure of failures) console.error(failure);
if (failures.length > 0) {
  console.error(`the children's logs are in ${dir}`);
  process.exitCode = 1;
} else {
  rmSync(dir, { recursive: true, force: true });
  console.log("nothing lost, nothing doubled, nothing open");
}
