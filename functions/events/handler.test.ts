import type { Context, DynamoDBRecord } from "aws-lambda";
import { expect, it } from "vitest";
import { encodeTransition, encodeVerification, type Item } from "../../shared/ledger/items.ts";
import { makeKey, makeRun, makeVerification } from "../../test/integration/ledger/fixtures.ts";
import { handler } from "./handler.ts";

const KEY = makeKey("dev");
const toRecord = (image: Item): DynamoDBRecord => ({
  eventID: "1",
  eventName: "INSERT",
  eventSource: "aws:dynamodb",
  // As the stream serialises it: JSON, without what only the SDK has.
  dynamodb: { NewImage: JSON.parse(JSON.stringify(image)) },
});
const call = (records: DynamoDBRecord[]) => handler(records, {} as Context);

it("makes a CloudEvent of a recorded change of phase", async () => {
  const failed = makeVerification(KEY, "p1", {
    phase: "Failed",
    message: "the probe said no",
    finishedAt: Date.UTC(2030, 0, 2, 3, 4, 5),
  });
  const run = makeRun(failed, "7", "Failed");
  expect(await call([toRecord(encodeTransition(failed, run))])).toEqual([
    {
      specversion: "1.0",
      id: `${failed.id}/Failed`,
      source: "tallyman/tallyman",
      type: "dev.tallyman.verification.phase",
      subject: `${KEY.cluster}/${KEY.project}/dev`,
      time: "2030-01-02T03:04:05.000Z",
      datacontenttype: "application/json",
      data: {
        ...KEY,
        verificationId: failed.id,
        phase: "Failed",
        message: "the probe said no",
        analysisRun: { name: run.name, phase: "Failed" },
      },
    },
  ]);
});

it("makes nothing of what is no change of phase", async () => {
  const head = encodeVerification(makeVerification(KEY, "p1"), 1);
  expect(await call([toRecord(head), { eventName: "REMOVE", dynamodb: {} }])).toEqual([]);
});
