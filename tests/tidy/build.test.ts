// The build's own promises: what the helper must be, what the build id follows, how CI ends.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { root } from "./files.ts";

function scratch(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "shp-build-"));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function run(command: string, args: string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) {
  const result = spawnSync(command, args, { encoding: "utf8", timeout: 60_000, ...options });
  assert.equal(result.error, undefined);
  return { status: result.status, output: result.stdout + result.stderr, stdout: result.stdout };
}

function checkHelper(helper: string) {
  return run("cmake", [`-DHELPER=${helper}`, "-DREADELF=readelf", "-P", join(root, "cmake/check_helper.cmake")]);
}

const helper = join(process.env["SHP_BIN_DIR"] ?? join(root, "build/bin"), "shepherdr-helper");

test("the helper is static and within its size", (context) => {
  if (!existsSync(helper)) {
    context.skip(`no ${helper}; run make build`);
    return;
  }
  const checked = checkHelper(helper);
  assert.equal(checked.status, 0, checked.output);
  assert.match(checked.output, /static, \d+ KiB/);
});

test("a helper that needs a loader is refused", () => {
  const checked = checkHelper(process.execPath);
  assert.notEqual(checked.status, 0);
  assert.match(checked.output, /must be fully static/);
});

test("a helper above 320 KiB is refused", (context) => {
  if (!existsSync(helper)) {
    context.skip(`no ${helper}; run make build`);
    return;
  }
  const large = join(scratch(context), "helper");
  copyFileSync(helper, large);
  truncateSync(large, 327_681);
  const checked = checkHelper(large);
  assert.notEqual(checked.status, 0);
  assert.match(checked.output, /limit is 320\s+KiB/);
});

test("an installed tree holds the command and what it sends", (context) => {
  const build = dirname(dirname(helper));
  if (!existsSync(join(build, "pi-ext/pi-ext.mjs"))) {
    context.skip(`no ${build}/pi-ext/pi-ext.mjs; run make build`);
    return;
  }
  const prefix = join(scratch(context), "prefix");
  const installed = run("cmake", ["--install", build, "--prefix", prefix]);
  assert.equal(installed.status, 0, installed.output);
  assert.ok(existsSync(join(prefix, "libexec/shepherdr/pi-ext.mjs")));
  assert.equal(checkHelper(join(prefix, "libexec/shepherdr/shepherdr-helper")).status, 0);
  const version = run(join(prefix, "bin/shepherdr"), ["--version"]);
  assert.equal(version.status, 0, version.output);
  assert.match(version.stdout, /\b0\.1\.0\b/);
});

function buildId(tree: string, variant = "plain"): string {
  const output = join(tree, "out.txt");
  const made = run("cmake", [
    `-DSOURCE_DIR=${tree}`, "-DVERSION=1.2.3", `-DVARIANT=${variant}`, "-DTHIRD_PARTY_VERSIONS=",
    `-DOUTPUT=${output}`, "-P", join(root, "cmake/build_id.cmake"),
  ]);
  assert.equal(made.status, 0, made.output);
  const text = readFileSync(output, "utf8");
  assert.match(text, /#define SHP_VERSION "1\.2\.3"/);
  return /#define SHP_BUILD_ID "([0-9a-f]{16})"/.exec(text)?.[1] ?? assert.fail(text);
}

test("the build id follows the helper's inputs and nothing else", (context) => {
  const tree = scratch(context);
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    writeFileSync(join(tree, path), text);
  };
  put("base/buf.c", "int a;\n");
  put("remote-helper/main.c", "int main(void);\n");
  const first = buildId(tree);
  assert.equal(buildId(tree), first, "same inputs");

  put("controller/app.c", "int b;\n");
  put("README.md", "words\n");
  assert.equal(buildId(tree), first, "no part of the helper");

  put("base/buf.c", "int c;\n");
  const second = buildId(tree);
  assert.notEqual(second, first, "a source changed");
  put("spec/messages.json", "{}\n");
  assert.notEqual(buildId(tree), second, "the messages changed");
  assert.notEqual(buildId(tree, "sanitize"), buildId(tree), "another variant");
});

test("the same tree elsewhere has the same build id", (context) => {
  const [a, b] = [scratch(context), scratch(context)];
  for (const tree of [a, b]) {
    mkdirSync(join(tree, "framing"));
    writeFileSync(join(tree, "framing/frame.h"), "/* frame */\n");
  }
  assert.equal(buildId(a), buildId(b));
});

/** Runs .ci/run over a tree whose scripts/check is the given shell text. */
function ci(context: TestContext, check: string): { status: number | null; last: string } {
  const tree = scratch(context);
  mkdirSync(join(tree, ".ci"));
  mkdirSync(join(tree, "scripts"));
  copyFileSync(join(root, ".ci/run"), join(tree, ".ci/run"));
  writeFileSync(join(tree, "scripts/check"), `#!/bin/sh\n${check}\n`);
  chmodSync(join(tree, "scripts/check"), 0o755);
  const { status, stdout } = run("bash", [join(tree, ".ci/run")]);
  return { status, last: stdout.trimEnd().split("\n").at(-1) ?? "" };
}

test("CI ends with the summary line and succeeds", (context) => {
  const result = ci(context, "echo '3 passed, 0 failed, 1 skipped'; echo later");
  assert.deepEqual(result, { status: 0, last: "3 passed, 0 failed, 1 skipped" });
});

test("CI fails when a test failed", (context) => {
  const result = ci(context, "echo '3 passed, 2 failed, 0 skipped'; exit 2");
  assert.equal(result.last, "3 passed, 2 failed, 0 skipped");
  assert.notEqual(result.status, 0);
});

test("CI fails when nothing ran, whatever the exit status", (context) => {
  const silent = ci(context, "exit 0");
  assert.equal(silent.last, "0 passed, 1 failed, 0 skipped");
  assert.notEqual(silent.status, 0);
  assert.notEqual(ci(context, "echo '0 passed, 0 failed, 4 skipped'").status, 0);
});

test("CI gives the check no standard input", (context) => {
  assert.equal(ci(context, "if read -r line; then exit 1; fi; echo '1 passed, 0 failed, 0 skipped'").status, 0);
});

test("bootstrap without apt-get says what to install", (context) => {
  const bin = scratch(context);
  for (const program of ["sh", "dirname", "uname", "mkdir", "flock"]) {
    const found = run("sh", ["-c", `command -v ${program}`]).stdout.trim();
    symlinkSync(found, join(bin, program));
  }
  const tree = scratch(context);
  mkdirSync(join(tree, "scripts"));
  // Its own PATH line adds the system folders, where apt-get is not.
  copyFileSync(join(root, "scripts/bootstrap"), join(tree, "scripts/bootstrap"));
  const result = run(join(bin, "sh"), [join(tree, "scripts/bootstrap")], { env: { PATH: bin } });
  assert.equal(result.status, 1, result.output);
  assert.match(result.output, /no apt-get: .*Debian and Ubuntu.* by hand: build-essential/);
});

test("a target that a later version brings says so and fails", () => {
  const result = run("make", ["--no-print-directory", "package"], { cwd: root });
  assert.notEqual(result.status, 0);
  assert.match(result.stdout, /^make package: not part of this version yet\n/);
});
