// Writes everything that is made from spec/messages.json. The output is committed, so that a build needs
// no Node; generate.test.ts compares it.
//
//     node spec/gen/generate.ts            write what changed
//     node spec/gen/generate.ts --check    write nothing; exit status 1 when something is out of date

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { header, source } from "./emit_c.ts";
import { markdown } from "./emit_md.ts";
import { typescript } from "./emit_ts.ts";
import { load } from "./model.ts";

export const ROOT = resolve(import.meta.dirname, "../..");

/** Every generated file by its path below the repository's root. */
export function render(root: string = ROOT): Map<string, string> {
  const spec = load(join(root, "spec/messages.json"), join(root, "spec/messages.schema.json"));
  return new Map([
    ["protocol/messages.h", header(spec)],
    ["protocol/messages.c", source(spec)],
    ["pi-ext/src/generated/messages.ts", typescript(spec)],
    ["spec/messages.md", markdown(spec)],
  ]);
}

export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function main(args: string[]): number {
  const unknown = args.find((a) => a !== "--check");
  if (unknown !== undefined) {
    console.error("usage: generate.ts [--check]");
    return 2;
  }
  const stale = [...render()].filter(([path, text]) => readIfThere(join(ROOT, path)) !== text);
  if (args.includes("--check")) {
    for (const [path] of stale) console.error(`${path} is not what spec/messages.json says: run spec/gen/generate.ts`);
    return stale.length === 0 ? 0 : 1;
  }
  for (const [path, text] of stale) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
    console.log(path);
  }
  return 0;
}

if (import.meta.main) {
  try {
    process.exitCode = main(process.argv.slice(2));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
