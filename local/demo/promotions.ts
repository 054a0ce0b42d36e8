import { computeCollectionId } from "../../shared/domain/identity.ts";
import type { ClusterObject, ClusterWriter } from "./cluster-writer.ts";

/** A piece of Freight and the Warehouse it comes from. */
export interface FreightChoice {
  readonly name: string;
  readonly warehouse: string;
  /** What Kargo copies into the Stage with it. */
  readonly images?: readonly unknown[];
}

/** What a Promotion brought. */
export interface Promoted {
  readonly promotion: string;
  readonly stageUid: string;
  readonly collectionId: string;
}

export interface PromoterOptions {
  readonly writer: ClusterWriter;
  readonly project: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Yields [0, 1). */
  readonly random: () => number;
}

interface Collection {
  readonly id: string;
  readonly items: Readonly<Record<string, unknown>>;
}

const MAX_HISTORY = 10;

/**
 * Plays the part of Kargo's promotion controller: one piece of Freight reaches a Stage. What the Stage holds from
 * other Warehouses stays, so a Stage that requests several fills up step by step.
 *
 * It writes what Kargo writes and in its order: the Promotion is acknowledged, then recorded with its Freight and
 * without health, then health is assessed. Verifications that are in the Stage's history already stay there.
 */
export function createPromoter(options: PromoterOptions): {
  promote(
    stage: string,
    freight: FreightChoice,
    more?: { readonly health?: string | undefined },
  ): Promise<Promoted>;
} {
  const { writer, project, now, random } = options;
  const nextUlid = createUlidSource(now, random);

  return {
    async promote(stage, freight, { health = "Healthy" } = {}) {
      const found = await writer.get("Stage", project, stage);
      if (found === undefined) throw new Error(`there is no Stage ${stage} in Project ${project}`);
      const name = `${stage}.${nextUlid()}.${freight.name.slice(0, 7)}`;
      await writer.create(buildPromotion(project, name, stage, freight));
      const reference = { name, freight: toReference(freight) };
      await writer.changeStatus("Stage", project, stage, () => ({ currentPromotion: reference }));

      const finishedAt = formatTime(now());
      let collectionId = "";
      await writer.changeStatus("Stage", project, stage, (status) => {
        const history = (status.freightHistory ?? []) as readonly Collection[];
        const collection = addFreight(history[0], freight);
        collectionId = collection.id;
        return {
          currentPromotion: null,
          lastPromotion: {
            ...reference,
            status: { phase: "Succeeded", freightCollection: collection, finishedAt },
            finishedAt,
          },
          health: null,
          freightHistory: [collection, ...history].slice(0, MAX_HISTORY),
          freightSummary: summarise(found, collection, freight),
        };
      });
      await writer.changeStatus("Promotion", project, name, () => ({ phase: "Succeeded", finishedAt }));
      if (health !== undefined) {
        await writer.changeStatus("Stage", project, stage, () => ({ health: { status: health } }));
      }
      return { promotion: name, stageUid: found.metadata.uid ?? "", collectionId };
    },
  };
}

function toReference(freight: FreightChoice): Readonly<Record<string, unknown>> {
  return {
    name: freight.name,
    origin: { kind: "Warehouse", name: freight.warehouse },
    ...(freight.images === undefined ? {} : { images: freight.images }),
  };
}

function addFreight(current: Collection | undefined, freight: FreightChoice): Collection {
  const items: Record<string, unknown> = {
    ...current?.items,
    [`Warehouse/${freight.warehouse}`]: toReference(freight),
  };
  return {
    id: computeCollectionId(Object.values(items).map((item) => (item as { name: string }).name)),
    items,
  };
}

/** As Kargo's column shows it: the Freight's name, or how many of the requested ones are there. */
function summarise(stage: ClusterObject, collection: Collection, freight: FreightChoice): string {
  const requested = (stage.spec as { requestedFreight?: readonly unknown[] }).requestedFreight?.length ?? 0;
  return requested === 1 ? freight.name : `${Object.keys(collection.items).length}/${requested} Fulfilled`;
}

function buildPromotion(project: string, name: string, stage: string, freight: FreightChoice): ClusterObject {
  return {
    apiVersion: "kargo.akuity.io/v1alpha1",
    kind: "Promotion",
    metadata: { name, namespace: project },
    spec: { stage, freight: freight.name, steps: [{ uses: "set-metadata" }] },
  };
}

function formatTime(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
}

const CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz";

/**
 * ULIDs in lower case, as Kargo puts them into Promotion names: ten characters of time and sixteen of chance.
 * They only ever grow, also within a millisecond, because Promotions are ordered by name.
 */
function createUlidSource(now: () => number, random: () => number): () => string {
  let last = 0;
  return () => {
    last = Math.max(last + 1, now());
    let time = "";
    for (let rest = last, n = 0; n < 10; n++, rest = Math.floor(rest / 32))
      time = CROCKFORD[rest % 32] + time;
    return time + Array.from({ length: 16 }, () => CROCKFORD[Math.floor(random() * 32)]).join("");
  };
}
