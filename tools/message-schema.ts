import * as z from "zod/mini";
import { messageSchema } from "../shared/messages/schema.ts";

/** Prints the message contract as JSON Schema, from its one definition: `npm run --silent schema`. */
const schema = {
  title: "Tallyman message",
  description: "A CloudEvents 1.0 event in an SQS body. docs/messages.md explains it.",
  ...z.toJSONSchema(messageSchema, { io: "input" }),
};
console.log(JSON.stringify(schema, null, 2));
