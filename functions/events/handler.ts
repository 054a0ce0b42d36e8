import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import middy from "@middy/core";
import type { DynamoDBRecord } from "aws-lambda";
import { readTransitionImage } from "../../shared/ledger/transition-image.ts";
import { buildPhaseEvent, type PhaseEvent } from "../../shared/messages/phase-event.ts";

const installation = process.env.POWERTOOLS_SERVICE_NAME || "tallyman";

/** Lambda, between the ledger's stream and the event bus: makes CloudEvents of recorded changes of phase. */
export const handler = middy<readonly DynamoDBRecord[], PhaseEvent[]>().handler((records) =>
  records.flatMap((record) => {
    const image = record.dynamodb?.NewImage as Record<string, AttributeValue> | undefined;
    const change = image === undefined ? undefined : readTransitionImage(image);
    return change === undefined ? [] : [buildPhaseEvent(installation, change)];
  }),
);
