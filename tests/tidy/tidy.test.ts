// The rules of the repository, checked: see rules.ts.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { sourceFiles, readText, root } from "./files.ts";
import {
  CLANG_FORMAT_MAJOR,
  FORBIDDEN_INCLUDES,
  FORBIDDEN_TEXT,
  FORBIDDEN_TEXT_EXEMPT,
  GENERATED,
  INCLUDE_EDGES,
  LINES_MAX,
  NODE_MODULE_OWNERS,
} from "./rules.ts";

const files = sourceFiles();
const cFiles = files.filter((file) => /\.[ch]$/.test(file) && !file.startsWith("cmake/"));
const tsFiles = files.filter((file) => file.endsWith(".ts"));
const generated = (file: string): boolean => GENERATED.some((prefix) => file.startsWith(prefix));

function none(findings: string[], rule: string): void {
  assert.equal(findings.length, 0, `${rule}:\n${findings.join("\n")}`);
}

function includes(file: string): { line: number; quoted: boolean; name: string }[] {
  return readText(file)
    .split("\n")
    .flatMap((text, index) => {
      const match = /^\s*#\s*include\s+(["<])([^">]+)[">]/.exec(text);
      return match ? [{ line: index + 1, quoted: match[1] === '"', name: match[2] ?? "" }] : [];
    });
}

test("the tree was found", () => {
  assert.ok(files.includes("tests/tidy/tidy.test.ts"));
  assert.ok(cFiles.length > 0);
});

test("project includes follow the edges between folders", () => {
  const findings: string[] = [];
  for (const file of cFiles) {
    const edge = INCLUDE_EDGES.find(([prefix]) => file.startsWith(prefix));
    if (edge === undefined) {
      findings.push(`${file}: no rule for this folder in tests/tidy/rules.ts`);
      continue;
    }
    for (const { line, quoted, name } of includes(file)) {
      if (!quoted) continue;
      // herdr-sim and fuzz replays name files of their own folder without a path.
      const path = name.includes("/") || name.startsWith("shp_") ? name : file.replace(/[^/]*$/, name);
      if (!edge[1].some((allowed) => path.startsWith(allowed))) {
        findings.push(`${file}:${line}: must not include "${name}"`);
      } else if (name !== "shp_build_id.h" && !existsSync(join(root, path))) {
        findings.push(`${file}:${line}: "${name}" does not exist`);
      }
    }
  }
  none(findings, "include edges (tests/tidy/rules.ts)");
});

test("no folder includes a library that it must not know", () => {
  const findings: string[] = [];
  for (const file of cFiles) {
    for (const [prefix, pattern, reason] of FORBIDDEN_INCLUDES) {
      if (!file.startsWith(prefix)) continue;
      for (const { line, quoted, name } of includes(file)) {
        if (!quoted && pattern.test(name)) findings.push(`${file}:${line}: <${name}>: ${reason}`);
      }
    }
  }
  none(findings, "library includes");
});

test("headers have an include guard that names their path", () => {
  const findings: string[] = [];
  for (const file of cFiles.filter((name) => name.endsWith(".h") && !generated(name))) {
    const guard = /#ifndef\s+(\w+)\s+#define\s+(\w+)/.exec(readText(file));
    const stem = file.replace(/^.*\//, "").replace(/\W/g, "_").toUpperCase();
    if (guard === null || guard[1] !== guard[2] || !(guard[1] ?? "").endsWith(stem)) {
      findings.push(`${file}: no #ifndef guard ending in ${stem}`);
    }
  }
  none(findings, "include guards");
});

test("pi-ext opens sockets and processes only where it says so", () => {
  const findings: string[] = [];
  for (const file of tsFiles.filter((name) => name.startsWith("pi-ext/src/"))) {
    for (const [module, owners] of NODE_MODULE_OWNERS) {
      if (readText(file).includes(`from "${module}"`) && !owners.includes(file)) {
        findings.push(`${file}: imports ${module}; only ${owners.join(", ")} may`);
      }
    }
  }
  none(findings, "modules of node in pi-ext");
});

test(`no file has more than ${LINES_MAX} lines`, () => {
  const findings = files
    .filter((file) => /\.([ch]|ts|md|cmake|txt)$/.test(file) && !generated(file))
    .map((file) => [file, readText(file).split("\n").length] as const)
    .filter(([, lines]) => lines > LINES_MAX)
    .map(([file, lines]) => `${file}: ${lines} lines`);
  none(findings, "length");
});

test("no unfinished marks, machine paths or download addresses", () => {
  const findings: string[] = [];
  for (const file of files.filter((name) => !FORBIDDEN_TEXT_EXEMPT.includes(name) && !name.includes("/corpus/"))) {
    readText(file)
      .split("\n")
      .forEach((text, index) => {
        for (const [pattern, what] of FORBIDDEN_TEXT) {
          if (pattern.test(text)) findings.push(`${file}:${index + 1}: ${what}: ${text.trim().slice(0, 100)}`);
        }
      });
  }
  none(findings, "text");
});

test("text files end with a newline and hold no tabs for indent, no trailing space", () => {
  const findings: string[] = [];
  for (const file of files.filter((name) => /\.([ch]|ts)$/.test(name) && !generated(name))) {
    const text = readText(file);
    if (!text.endsWith("\n")) findings.push(`${file}: no newline at the end`);
    text.split("\n").forEach((line, index) => {
      if (/[ \t]$/.test(line)) findings.push(`${file}:${index + 1}: trailing space`);
      if (/^\s*\t/.test(line)) findings.push(`${file}:${index + 1}: tab`);
    });
  }
  none(findings, "layout");
});

test("file names hold no space", () => {
  none(files.filter((file) => /\s/.test(file)), "scripts pass file names as words");
});

test("C sources are as clang-format writes them", (context) => {
  const found = spawnSync("clang-format", ["--version"], { encoding: "utf8" });
  if (found.error !== undefined) {
    context.skip("clang-format is not installed");
    return;
  }
  // Its output differs between major versions; another one would ask for changes nobody made.
  if (!found.stdout.includes(`version ${CLANG_FORMAT_MAJOR}.`)) {
    context.skip(`clang-format is not version ${CLANG_FORMAT_MAJOR}: ${found.stdout.trim()}`);
    return;
  }
  const sources = cFiles.filter((file) => !generated(file));
  const result = spawnSync("clang-format", ["--dry-run", "--Werror", ...sources], { cwd: root, encoding: "utf8" });
  const findings = [...new Set(result.stderr.split("\n").flatMap((line) => /^[^:\s]+\.[ch]:\d+/.exec(line) ?? []))];
  assert.equal(result.status, 0, `run make format:\n${findings.slice(0, 40).join("\n")}`);
});

test("every test that tests/README.md names exists", () => {
  const listing = "tests/README.md";
  assert.ok(files.includes(listing), `${listing} is missing`);
  const testText = files
    .filter((file) => /(^tests\/|\/test\/|\.test\.ts$)/.test(file) && /\.([ch]|ts)$/.test(file))
    .map(readText)
    .join("\n");
  const findings: string[] = [];
  let named = 0;
  readText(listing)
    .split("\n")
    .forEach((line, index) => {
      if (!line.startsWith("|")) return;
      const cells = line.split(/(?<!\\)\|/).slice(1, -1);
      for (const [, name] of (cells.at(-1) ?? "").matchAll(/`([^`]+)`/g) as Iterable<[string, string]>) {
        named++;
        const path = name.replace(/:.*$/, "");
        const exists =
          existsSync(join(root, path)) || existsSync(join(root, "tests", path)) || testText.includes(name);
        if (!exists) findings.push(`${listing}:${index + 1}: ${name}`);
      }
    });
  assert.ok(named > 0, "no row names a test");
  none(findings, "tests named but absent");
});

/* The cases that the way to a machine must survive (tests/README.md), numbered once and for all. */
const NUMBERED_CASES = { T: 14, S: 11, I: 15, R: 12, P: 6 };

test("every numbered case has its row in tests/README.md and a test of its number", () => {
  const rows = readText("tests/README.md").split("\n").filter((line) => line.startsWith("| "));
  const sources = files.filter((file) => /^tests\/.*\.(c|test\.ts)$/.test(file)).map(readText).join("\n");
  const findings: string[] = [];
  for (const [letter, count] of Object.entries(NUMBERED_CASES)) {
    for (let number = 1; number <= count; number++) {
      const id = `${letter}${number}`;
      if (!rows.some((line) => line.startsWith(`| ${id} |`))) findings.push(`${id}: no row`);
      const inTypeScript = new RegExp(`\\btest\\(\\s*["\`]([A-Z]\\d+, )*${id}\\b`);
      const inC = new RegExp(`^static void ${id.toLowerCase()}_\\w+\\(void \\*\\*state`, "m");
      if (!inTypeScript.test(sources) && !inC.test(sources)) findings.push(`${id}: no test`);
    }
  }
  none(findings, "numbered cases without row or test");
});

interface SpecError {
  name: string;
  doc?: string;
  next?: string;
}

test("every error of the spec says what it means and what to do next", () => {
  const { errors } = JSON.parse(readText("spec/messages.json")) as { errors: SpecError[] };
  assert.ok(errors.length > 0, "spec/messages.json lists no errors");
  const page = readText("spec/messages.md");
  const findings: string[] = [];
  for (const { name, doc, next } of errors) {
    if ((doc ?? "").length < 8) findings.push(`${name}: no doc`);
    if ((next ?? "").length < 8) findings.push(`${name}: no next action`);
    if (!page.includes(`\`${name}\``)) findings.push(`${name}: not in spec/messages.md`);
  }
  none(findings, "error codes");
});

test("every folder of C sources has its CMakeLists.txt", () => {
  const folders = new Set(cFiles.map((file) => file.split("/")[0] ?? ""));
  none([...folders].filter((folder) => !files.includes(`${folder}/CMakeLists.txt`)), "folders without a target");
});

test("make and the README name the same commands", () => {
  const help = readFileSync(join(root, "Makefile"), "utf8");
  for (const target of ["build", "demo", "check", "bench", "fuzz", "soak", "format", "install", "package", "helpers", "dist"]) {
    assert.match(help, new RegExp(`^(\\w[\\w -]* )?${target}( [\\w -]*)?:`, "m"), `make ${target}`);
  }
  const readme = readText("README.md");
  for (const command of ["scripts/demo", "scripts/check"]) {
    assert.ok(readme.includes(command), `README.md does not name ${command}`);
    assert.ok(existsSync(join(root, command)), command);
  }
});
