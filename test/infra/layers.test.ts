import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

test("the layering check finds the violations that it is for", () => {
  const output = execFileSync(process.execPath, ["tools/layers.ts", "--self-test"], {
    cwd: join(import.meta.dirname, "../.."),
    encoding: "utf8",
  });
  expect(output).toContain("finds what it should");
});
