/** The stand-in controller as an executable that needs no PATH. */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export function fakeProgram(dir: string): string {
  const path = join(dir, "shepherdr");
  const script = join(import.meta.dirname, "fake-controller.ts");
  writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${script}' "$@"\n`);
  chmodSync(path, 0o755);
  return path;
}
