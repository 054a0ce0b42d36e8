import type { StageKey } from "../domain/identity.ts";
import { openRequest } from "../domain/request.ts";
import {
  describeDrift,
  findDrift,
  formatTemplate,
  isSameDrift,
  type TemplateState,
} from "../domain/template-drift.ts";
import { isForeign } from "../domain/verification.ts";
import { reverifyStage } from "./reverify-stage.ts";
import { fetchStage } from "./stage-record.ts";
import { republishLatest } from "./verify-stage.ts";
import { decideAgainOnConflict, type World } from "./world.ts";

/**
 * Marks a Stage's latest verification as made with older templates, or takes the mark away where they are again what
 * they were. Where the Stage asks for it, the verification is repeated, once for each change. `current` are templates
 * as they are now, all that the verification used or some of them; `redelivered` is true when an earlier try may have died
 * half way. True when something changed.
 */
export async function noteTemplates(
  world: World,
  key: StageKey,
  current: readonly TemplateState[],
  redelivered: boolean,
): Promise<boolean> {
  const noted = await decideAgainOnConflict(async () => {
    const record = await world.ledger.readStage(key);
    const { latest } = record;
    if (latest?.templates === undefined) return undefined;
    const drift = findDrift(latest.templates, latest.drift ?? [], current);
    const isNews = !isSameDrift(drift, latest.drift ?? []);
    if (isNews) {
      await markVerification(world, key, latest.id, drift);
      const { drift: _, ...unmarked } = latest;
      await world.ledger.writeStage({
        ...record,
        latest: drift.length === 0 ? unmarked : { ...unmarked, drift },
      });
    }
    return { id: latest.id, drift, isNews };
  });
  if (noted === undefined) return false;
  // An earlier try may have started the successor, and died before it was told of.
  if (redelivered && noted.drift.length === 0) {
    await republishLatest(world, key, await world.ledger.readStage(key));
  }
  // Also where it is no news: whoever noted it may have died before it could ask.
  if (noted.drift.length > 0) await repeat(world, key, noted.id, noted.drift);
  return noted.isNews;
}

async function markVerification(
  world: World,
  key: StageKey,
  id: string,
  templates: readonly TemplateState[],
): Promise<void> {
  const head = await world.ledger.readVerification(key, id);
  if (head === undefined || isForeign(head.verification)) return;
  const { drift: _, ...unmarked } = head.verification;
  const drift = { at: world.clock.now(), templates };
  await world.ledger.updateVerification(
    templates.length === 0 ? unmarked : { ...unmarked, drift },
    head.revision,
  );
  world.log.info("a verification's templates have changed since", {
    ...key,
    verificationId: id,
    templates: templates.map(formatTemplate),
  });
}

async function repeat(
  world: World,
  key: StageKey,
  target: string,
  drift: readonly TemplateState[],
): Promise<void> {
  const stage = await fetchStage(world, key);
  if (stage?.onTemplateChange !== "reverify") return;
  const request = {
    requestId: `template:${target}:${describeDrift(drift)}`.slice(0, 256),
    target,
    actor: "template-change",
    reason: `${drift.map(formatTemplate).join(", ")} changed`.slice(0, 1024),
  };
  // Nobody sends this request again: once the successor is the latest, only its record tells that it is to be settled.
  if ((await world.ledger.readRequest(key, request.requestId)) === undefined) {
    await world.ledger.writeRequest(openRequest(key, "reverify", request, world.clock.now()));
  }
  await reverifyStage(world, key, request, { kind: "reverify", snapshot: stage, redelivered: false });
}
