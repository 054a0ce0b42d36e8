import type { StageKey } from "../shared/domain/identity.ts";
import { buildMessage } from "../shared/messages/codec.ts";
import type { MessageKind } from "../shared/messages/schema.ts";
import { toIso, toObject, toRequest, toVerification } from "../shared/presentation/document.ts";
import type { Context } from "./context.ts";
import { EXIT_CODES, type ExitCode } from "./exit-codes.ts";
import { type Followed, followRequest } from "./follow.ts";
import { requireStage, resolveVerificationId } from "./lookup.ts";
import { type CommonOptions, createViewOptions, type WaitOptions } from "./options.ts";
import { isForPeople, writeResult } from "./output.ts";
import { createProgress } from "./progress.ts";
import {
  formatOutcome,
  formatPhase,
  formatRemark,
  formatTook,
  shortenId,
  shortenIds,
} from "./render/labels.ts";
import { toLine } from "./render/text.ts";
import { formatDuration } from "./render/time.ts";

export type RequestOptions = CommonOptions & WaitOptions & { readonly verification?: string };

/** A request that was sent. */
interface Sent {
  readonly key: StageKey;
  readonly kind: MessageKind;
  readonly id: string;
  readonly time: number;
  readonly target: string | undefined;
}

/** Asks an installation for something about a Stage and, with `--wait`, follows it to the end. */
export async function runRequest(
  context: Context,
  kind: MessageKind,
  stage: string,
  options: RequestOptions,
): Promise<ExitCode> {
  const connection = context.connect(options.data);
  try {
    const { ledger, queue } = connection;
    const { key } = await requireStage(connection, options, stage);
    const target =
      options.verification === undefined
        ? undefined
        : await resolveVerificationId(ledger, key, options.verification);
    const sent: Sent = { key, kind, id: context.newId(), time: context.clock.now(), target };
    await queue.send(kind, [toMessage(sent, options)]);
    if (!options.wait) {
      writeSent(context, sent, options);
      return EXIT_CODES.done;
    }
    const progress = createProgress(context.terminal, context.clock, `${kind} ${stage}`);
    const followed = await followRequest({
      ledger,
      clock: context.clock,
      key,
      requestId: sent.id,
      timeoutMs: options.timeout,
      report: (sight) => progress.report(sight),
    }).finally(() => progress.end());
    writeFollowed(context, sent, options, followed);
    return followed.exitCode;
  } finally {
    connection.close();
  }
}

function toMessage({ key, kind, id, time, target }: Sent, { actor, reason }: RequestOptions) {
  return buildMessage(
    kind,
    { id, source: "tallyman/cli", time: new Date(time) },
    {
      ...key,
      ...(target === undefined ? {} : { verificationId: target }),
      ...(actor === undefined ? {} : { actor }),
      ...(reason === undefined ? {} : { reason }),
    },
  );
}

/** The request as documents show it before the ledger has it. */
const sentDocument = ({ key, kind, id, time, target }: Sent, { actor, reason }: RequestOptions) => ({
  kind: "Request",
  ...key,
  id,
  verb: kind,
  outcome: "sent",
  message: "",
  actor,
  reason,
  target,
  createdAt: toIso(time),
});

const describeSent = ({ key, kind, id }: Sent): string =>
  `${kind} of Stage ${key.stage} asked for: request ${id}`;

/** The command to go on with; one that can be pasted, so it is never broken. */
const howToFollow = ({ invokedAs }: Context, { key, id }: Sent, { cluster, data }: RequestOptions): string =>
  [
    `${invokedAs} get request ${id} --stage ${key.stage} -p ${key.project}`,
    ...(cluster === undefined ? [] : [`--cluster ${cluster}`]),
    ...(data === undefined ? [] : [`--data ${data}`]),
  ].join(" ");

function writeSent(context: Context, sent: Sent, options: RequestOptions): void {
  writeResult(context.terminal, options.output, {
    document: () => toObject(sentDocument(sent, options)),
    names: () => [`request/${sent.id}`],
    text: () => `${describeSent(sent)}\nWhat becomes of it:\n  ${howToFollow(context, sent, options)}`,
  });
}

function writeFollowed(context: Context, sent: Sent, options: RequestOptions, followed: Followed): void {
  const { request, verification, exitCode } = followed;
  writeResult(context.terminal, options.output, {
    document: () =>
      toObject({
        ...(request === undefined ? sentDocument(sent, options) : toRequest(request)),
        verification: verification === undefined ? undefined : toVerification(verification),
      }),
    names: () => [verification === undefined ? `request/${sent.id}` : `verification/${verification.id}`],
    text: () => describeEnd(context, sent, followed),
  });
  if (exitCode !== EXIT_CODES.timedOut && exitCode !== EXIT_CODES.unreachable) return;
  context.terminal.err(`tallyman: not over after ${formatDuration(options.timeout)}; the request goes on.`);
  if (followed.trouble !== undefined) context.terminal.err(`  ${toLine(followed.trouble)}`);
  if (isForPeople(options.output)) context.terminal.err(`  ${howToFollow(context, sent, options)}`);
}

function describeEnd(context: Context, sent: Sent, { request, verification }: Followed): string {
  const { paint, now } = createViewOptions(context, false);
  if (request === undefined) return describeSent(sent);
  if (verification === undefined || request.outcome !== "started") {
    const { text, style } = formatOutcome(request.outcome);
    return `${paint(style, text)}: ${shortenIds(toLine(request.message))}`;
  }
  const { text, style } = formatPhase(verification.phase);
  const took = formatTook(verification, now);
  const remark = toLine(formatRemark({ ...verification, actor: undefined }));
  const tail = [took === "" ? "" : ` after ${took}`, remark === "" ? "" : `: ${remark}`].join("");
  return `${paint(style, text)} verification ${shortenId(verification.id)} of Stage ${sent.key.stage}${tail}`;
}
