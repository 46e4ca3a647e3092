// The files that belong to the repository: what git knows or would take, or, in an unpacked source archive,
// everything but what a build makes.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

export const root = join(import.meta.dirname, "../..");

function walk(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (!entry.isDirectory()) return [path];
    const skipped = [".git", ".deps", "node_modules"].includes(entry.name) || /^build(-|$)/.test(path);
    return skipped ? [] : walk(path);
  });
}

/** Paths from the root, sorted; text files only. */
export function sourceFiles(): string[] {
  const git = spawnSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  const inArchive = git.error !== undefined || git.status !== 0;
  const paths = inArchive ? walk("") : git.stdout.split("\0");
  return paths
    .filter((path) => path !== "" && statSync(join(root, path), { throwIfNoEntry: false })?.isFile() === true)
    .filter((path) => !readText(path).includes("\0"))
    .sort();
}

const texts = new Map<string, string>();

export function readText(path: string): string {
  let text = texts.get(path);
  if (text === undefined) {
    text = readFileSync(join(root, path), "utf8");
    texts.set(path, text);
  }
  return text;
}
