import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MUTANTS } from "../mutants/mutants.ts";

const ROOT = join(import.meta.dirname, "../..");

test.each(MUTANTS)(
  "the line that is broken on purpose so that $name stands in $file, once",
  ({ file, find }) => {
    expect(readFileSync(join(ROOT, file), "utf8").split(find)).toHaveLength(2);
  },
);
