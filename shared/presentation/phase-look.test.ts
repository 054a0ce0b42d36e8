import { expect, it } from "vitest";
import { PHASE_LOOKS } from "./phase-look.ts";

it("no two phases look alike without colour", () => {
  const icons = Object.values(PHASE_LOOKS).map((look) => look.icon);
  expect(new Set(icons).size).toBe(icons.length);
});
