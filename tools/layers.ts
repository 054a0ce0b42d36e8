import { join } from "node:path";
import { cruise, type IForbiddenRuleType, type IReporterOutput } from "dependency-cruiser";

/**
 * Checks imports against the table in ARCHITECTURE.md: `npm run layers`. With `--self-test` it checks a small tree
 * of violations instead and fails unless each of them is found.
 */
const ROOT = join(import.meta.dirname, "..");
/** Fewer modules than this means that the parser found nothing to look at, not that all is well. */
const LEAST_MODULES = 60;
const FOLDERS = ["shared", "functions", "cli", "local", "infra", "tools"];
const TEST = "\\.test\\.ts$";

/** `from` may import only its own folder, node's modules and what `to` matches. */
function confine(name: string, from: string, to: readonly string[], comment: string): IForbiddenRuleType {
  return {
    name,
    severity: "error",
    comment,
    from: { path: from, pathNot: TEST },
    to: { pathNot: [from, ...to], dependencyTypesNot: ["core"] },
  };
}

const npm = (...names: string[]): string => `(^|/)node_modules/(${names.join("|")})(/|$)`;
const shared = (...rooms: string[]): string => `^shared/(${rooms.join("|")})/`;

export const RULES: IForbiddenRuleType[] = [
  confine(
    "domain-is-pure",
    "^shared/domain/",
    [npm("uuid")],
    "decisions know neither AWS nor Kubernetes nor middy",
  ),
  {
    name: "domain-does-nothing",
    severity: "error",
    comment: "a decision that reads a file or a clock cannot be tested as a function of its facts",
    from: { path: "^shared/domain/", pathNot: TEST },
    to: { dependencyTypes: ["core"], pathNot: "^(node:)?crypto$" },
  },
  confine(
    "messages",
    "^shared/messages/",
    [shared("domain"), npm("zod")],
    "the contract stands on the domain alone",
  ),
  confine(
    "ledger",
    "^shared/ledger/",
    [shared("domain"), npm("@aws-sdk/client-dynamodb", "@aws-sdk/util-dynamodb")],
    "the ledger knows DynamoDB and nothing else",
  ),
  confine(
    "queue",
    "^shared/queue/",
    [shared("domain", "messages"), npm("@aws-sdk/client-sqs")],
    "queues carry messages",
  ),
  confine(
    "presentation",
    "^shared/presentation/",
    [shared("domain", "ledger")],
    "how things look is no business of where they are kept",
  ),
  confine(
    "cluster",
    "^shared/cluster/",
    [shared("domain"), npm("jsep", "@kubernetes", "yaml")],
    "reading and writing Kubernetes objects needs no AWS",
  ),
  confine(
    "credentials",
    "^shared/credentials/",
    [shared("domain", "cluster"), npm("@aws-sdk/client-secrets-manager", "@smithy/signature-v4", "zod")],
    "what lets us into a cluster is no business of who talks to it",
  ),
  confine(
    "webhooks",
    "^shared/webhooks/",
    [
      shared("domain", "messages"),
      "^shared/ledger/deliveries\\.ts$",
      "^shared/queue/message-queue\\.ts$",
      "^shared/runtime/telemetry\\.ts$",
      npm("zod", "re2js"),
    ],
    "what becomes of a delivery hangs on ports; which SDK is behind them is the runtime's business",
  ),
  {
    name: "webhooks-know-no-sdk",
    severity: "error",
    from: { path: "^shared/webhooks/", pathNot: TEST },
    to: { path: npm("@aws-sdk", "@middy", "@aws-lambda-powertools") },
  },
  confine(
    "operations-use-ports",
    "^shared/operations/",
    [shared("domain", "messages", "cluster", "ledger"), "^shared/runtime/(telemetry|clock|batch)\\.ts$"],
    "operations act on ports; which SDK is behind them is the runtime's business",
  ),
  {
    name: "operations-know-no-sdk",
    severity: "error",
    from: { path: "^shared/operations/", pathNot: TEST },
    to: { path: npm("@aws-sdk", "@kubernetes", "@middy", "@aws-lambda-powertools") },
  },
  {
    name: "client-node-in-one-place",
    severity: "error",
    comment: "it would add a megabyte to every Lambda",
    from: { path: "^(shared|functions|cli)/", pathNot: ["^shared/cluster/kubeconfig\\.ts$", TEST] },
    to: { path: npm("@kubernetes") },
  },
  {
    name: "no-kubeconfig-in-functions",
    severity: "error",
    comment: "what imports kubeconfig.ts imports client-node",
    from: { path: "^functions/", pathNot: TEST },
    to: { path: "^shared/cluster/kubeconfig\\.ts$" },
  },
  confine(
    "runtime",
    "^shared/runtime/",
    ["^shared/", npm("@aws-sdk", "@aws-lambda-powertools", "@middy", "zod", "@types")],
    "wiring",
  ),
  confine(
    "functions-stand-on-shared",
    "^functions/",
    ["^shared/", npm("@aws-sdk", "@aws-lambda-powertools", "@middy", "@types")],
    "a function is an adapter",
  ),
  confine(
    "cli-stands-on-shared",
    "^cli/",
    ["^shared/", npm("@aws-sdk", "commander", "yaml", "string-width", "zod")],
    "the CLI is a client",
  ),
  {
    name: "nothing-imports-functions",
    severity: "error",
    comment: "only whoever runs them does",
    from: { pathNot: ["^functions/", "^local/", "^test/", TEST] },
    to: { path: "^functions/" },
  },
  confine(
    "infra-knows-no-logic",
    "^infra/",
    [
      "^shared/domain/(phase|duration)\\.ts$",
      "^shared/ledger/(table|transition-image)\\.ts$",
      "^shared/queue/definition\\.ts$",
      "^shared/messages/(schema|phase-event)\\.ts$",
      "^shared/runtime/(configuration|receivers|telemetry)\\.ts$",
      "^shared/webhooks/receiver\\.ts$",
      npm("aws-cdk-lib", "constructs", "cdk-nag", "esbuild", "zod"),
    ],
    "infrastructure needs definitions, not decisions",
  ),
  { name: "no-circles", severity: "error", from: {}, to: { circular: true } },
  {
    name: "no-tests-in-the-product",
    severity: "error",
    from: { pathNot: ["^test/", TEST] },
    to: { path: ["^test/", TEST] },
  },
];

async function check(
  folders: readonly string[],
  base: string,
): Promise<{ modules: number; violations: string[] }> {
  const { output } = (await cruise([...folders], {
    baseDir: base,
    ruleSet: { forbidden: RULES },
    validate: true,
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^(cdk\\.out|\\.cache)/" },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "types", "node", "default"],
      extensions: [".ts", ".mjs", ".js", ".d.ts"],
    },
  })) as IReporterOutput;
  if (typeof output === "string") throw new Error(output);
  const { totalCruised, violations } = output.summary;
  return {
    modules: totalCruised,
    violations: violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`),
  };
}

async function selfTest(): Promise<void> {
  const base = join(ROOT, "test/fixtures/layers");
  const { violations } = await check(FOLDERS, base);
  const missed = RULES.flatMap(({ name = "" }) =>
    violations.some((each) => each.startsWith(`${name}:`)) ? [] : [name],
  );
  if (missed.length > 0) {
    console.error(
      `the layering check does not find: ${missed.join(", ")}\nit found: ${violations.join("\n")}`,
    );
    process.exit(1);
  }
  console.log(`the layering check finds what it should (${RULES.length} rules tried)`);
}

if (process.argv.includes("--self-test")) {
  await selfTest();
} else {
  const { modules, violations } = await check(FOLDERS, ROOT);
  for (const violation of violations) console.error(violation);
  if (modules < LEAST_MODULES) {
    console.error(`only ${modules} modules were looked at; is the TypeScript parser there?`);
    process.exit(1);
  }
  if (violations.length > 0) process.exit(1);
  console.log(`layers: ${modules} modules, no import against ARCHITECTURE.md`);
}
