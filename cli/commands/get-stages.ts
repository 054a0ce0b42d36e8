import type { Command } from "commander";
import { toList, toStage } from "../../shared/presentation/document.ts";
import type { Context } from "../context.ts";
import { chooseCluster, chooseProject, describeUnknownStage, listStages } from "../lookup.ts";
import { addCommonOptions, type CommonOptions, createViewOptions, parseName } from "../options.ts";
import { isForPeople, writeResult } from "../output.ts";
import { formatStages, type StageRow } from "../render/views.ts";

/** `get stages [NAME]`: the Stages that the ledger knows, each with its latest verification. */
export function addGetStages(parent: Command, context: Context): void {
  const command = parent
    .command("stages")
    .alias("stage")
    .description("Stages that the ledger knows, each with its latest verification.")
    .argument("[name]", "only this Stage", parseName)
    .option("-A, --all-projects", "Stages of all Projects");
  addCommonOptions(command, context, [
    "get stages",
    "get stages -A",
    "get stages dev -p harbour-demo -o json",
  ]);
  command.action((name: string | undefined, options: CommonOptions & { readonly allProjects?: true }) =>
    getStages(context, name, options),
  );
}

async function getStages(
  context: Context,
  name: string | undefined,
  options: CommonOptions & { readonly allProjects?: true },
): Promise<void> {
  const connection = context.connect(options.data);
  try {
    const { ledger } = connection;
    const cluster = chooseCluster(connection, options.cluster);
    const project = options.allProjects
      ? undefined
      : await chooseProject(connection, cluster, options.project);
    const all = await listStages(ledger, cluster, project);
    const records = name === undefined ? all : all.filter((record) => record.key.stage === name);
    if (name !== undefined && records.length === 0) {
      throw await describeUnknownStage(ledger, { cluster, project: project ?? "(any)", stage: name });
    }
    if (records.length === 0 && isForPeople(options.output)) {
      const where = project === undefined ? `cluster ${cluster}` : `Project ${project} of cluster ${cluster}`;
      context.terminal.err(`The ledger knows no Stage of ${where} yet.`);
      return;
    }
    const ids = records.flatMap(({ key, latest }) => (latest === undefined ? [] : [{ key, id: latest.id }]));
    const latest = new Map((await ledger.readVerifications(ids)).map((each) => [each.id, each]));
    const rows = records.map((record): StageRow => ({ record, latest: latest.get(record.latest?.id ?? "") }));
    writeResult(context.terminal, options.output, {
      document: () =>
        toList(
          "StageList",
          rows.map((row) => toStage(row.record, row.latest)),
        ),
      names: () => records.map(({ key }) => `stage/${key.stage}`),
      text: (wide) => formatStages(rows, options.allProjects === true, createViewOptions(context, wide)),
    });
  } finally {
    connection.close();
  }
}
