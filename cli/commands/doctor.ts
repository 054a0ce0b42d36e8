import type { Command } from "commander";
import { createCluster } from "../../shared/cluster/cluster.ts";
import { createCheckpointStore } from "../../shared/ledger/checkpoint.ts";
import type { ClusterSettings } from "../../shared/runtime/configuration.ts";
import type { Connection } from "../connection.ts";
import type { Context } from "../context.ts";
import { checkCluster } from "../doctor/cluster.ts";
import { type Finding, inspect } from "../doctor/finding.ts";
import { checkLiveness } from "../doctor/liveness.ts";
import { checkQueues } from "../doctor/queues.ts";
import { checkTable } from "../doctor/table.ts";
import { EXIT_CODES, type ExitCode } from "../exit-codes.ts";
import { addOutputOptions, createViewOptions, type OutputOptions } from "../options.ts";
import { writeResult } from "../output.ts";
import { formatFindings, toDiagnosis } from "../render/diagnosis.ts";

/** `doctor`: whether the installation is whole and at work, and what to do where it is not. */
export function addDoctor(program: Command, context: Context, finish: (code: ExitCode) => void): void {
  const command = program
    .command("doctor")
    .description(
      "Checks the ledger's table, the queues and their dead letters, each cluster with the rights that Tallyman has " +
        "there, open verifications and the forwarder. It changes nothing. What you may not see is said, not an error.",
    );
  addOutputOptions(command, context, ["doctor", "doctor -o json"]);
  command.action(async (options: OutputOptions) => {
    const connection = context.connect(options.data);
    try {
      const findings = await examine(connection, context.clock.now);
      writeResult(context.terminal, options.output, {
        document: () => toDiagnosis(findings),
        names: () =>
          findings.flatMap(({ level, subject }) => (level === "ok" ? [] : [`${level}/${subject}`])),
        text: (wide) => formatFindings(findings, createViewOptions(context, wide)),
      });
      if (findings.some(({ level }) => level === "fail")) finish(EXIT_CODES.unwell);
    } finally {
      connection.close();
    }
  });
}

async function examine({ parts, ledger }: Connection, now: () => number): Promise<readonly Finding[]> {
  const { dynamoDb, sqs, configuration } = parts;
  const { table, queues, maxReceives } = configuration;
  // It brings ways to prove who we are that no other command needs.
  const { connectCluster } = await import("../../shared/runtime/cluster-connection.ts");
  const checkpoints = createCheckpointStore(dynamoDb, table);
  const examineCluster = (settings: ClusterSettings) =>
    inspect(`cluster ${settings.name}`, "its credentials", async () => {
      const transport = connectCluster(settings);
      try {
        const { name, mode = "managed" } = settings;
        const cluster = createCluster(name, transport);
        return (
          await Promise.all([
            checkCluster({ name, transport, mode, now }),
            checkLiveness({ name, cluster, ledger, checkpoints, now }),
          ])
        ).flat();
      } finally {
        transport.close();
      }
    });
  const groups = await Promise.all([
    checkTable(dynamoDb, table),
    checkQueues(sqs, queues, maxReceives),
    ...configuration.clusters.map(examineCluster),
  ]);
  return groups.flat();
}
