// The counting behind `make check`: a crash, a leak or a missing report must never look like success.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { cmockaCases, ctestTally, nodeTally } from "../../scripts/check-summary.ts";

const script = join(import.meta.dirname, "../../scripts/check-summary.ts");

const twoCases = "[ RUN      ] first\n[       OK ] first\n[ RUN      ] second\n[       OK ] second\n";

function junit(status: string, output: string): string {
  const escaped = output.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("]", "&#93;");
  return `<testsuite tests="1">
  <testcase name="test_frame" classname="test_frame" time="0.1" status="${status}">
    <system-out>${escaped}</system-out>
  </testcase>
</testsuite>`;
}

test("cmocka cases are counted one by one, the closing list is not counted again", () => {
  const output =
    "[==========] Running 3 test(s).\n" +
    twoCases +
    "[ RUN      ] third\n[  ERROR   ] --- 1 != 2\n[  FAILED  ] third\n" +
    "[  PASSED  ] 2 test(s).\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] third\n";
  assert.deepEqual(cmockaCases(output), { passed: 2, failed: ["third"], skipped: [] });
});

test("a case that began and never ended has failed", () => {
  const tally = ctestTally(junit("fail", `${twoCases}[ RUN      ] third\nSegmentation fault`));
  assert.equal(tally.passed, 2);
  assert.deepEqual(tally.failed, ["test_frame: third (did not end)"]);
});

test("a program whose cases pass and that ends non-zero has failed (a leak)", () => {
  assert.deepEqual(ctestTally(junit("fail", `${twoCases}LeakSanitizer`)).failed, ["test_frame"]);
});

test("a ctest without cmocka cases counts as one", () => {
  assert.equal(ctestTally(junit("run", "replayed 4 inputs")).passed, 1);
});

test("a skipped program tells its reason", () => {
  const tally = ctestTally(junit("notrun", "no sshd on this machine\n"));
  assert.deepEqual(tally.skipped, ["test_frame: no sshd on this machine"]);
});

test("node's report: failures by name, suites left out", () => {
  const block = (type: string): string => `  ---\n  duration_ms: 1\n  type: '${type}'\n  ...\n`;
  const tap =
    `    not ok 1 - inner\n    ---\n    type: 'test'\n    ...\nnot ok 1 - suite\n${block("suite")}` +
    `ok 2 - later # SKIP needs sshd\n${block("test")}# tests 3\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n`;
  assert.deepEqual(nodeTally(tap, 1), {
    passed: 1,
    failed: ["inner"],
    skipped: ["later: needs sshd"],
  });
});

test("a failed run without a failed test counts as a failure", () => {
  assert.equal(nodeTally("# pass 3\n# fail 0\n", 2).failed.length, 1);
});

test("the program's last line, and its exit status when a report is missing", () => {
  const folder = mkdtempSync(join(tmpdir(), "shp-summary-"));
  try {
    const good = join(folder, "good.xml");
    writeFileSync(good, junit("run", twoCases));
    const passing = spawnSync(process.execPath, [script, `plain=${good}`], { encoding: "utf8" });
    assert.equal(passing.stdout.trim().split("\n").at(-1), "2 passed, 0 failed, 0 skipped");
    assert.equal(passing.status, 0);

    const missing = join(folder, "absent.xml");
    const failing = spawnSync(process.execPath, [script, `plain=${good}`, `sanitized=${missing}`], {
      encoding: "utf8",
    });
    assert.equal(failing.stdout.trim().split("\n").at(-1), "2 passed, 1 failed, 0 skipped");
    assert.equal(failing.status, 1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
