// Adds up the reports of `make check`: names what failed, gives the reason of what was skipped, and ends
// with `N passed, N failed, N skipped`. Exit status 0 only if something passed and nothing failed.
//
// usage: check-summary.ts <name>=<file.xml> ... <name>=<file.tap>:<exit status>
//
// A C test program counts by its cmocka cases, any other ctest as one. A report that is missing, and a
// run that failed without naming a test (a type error, say), count as one failure each.

import { readFileSync } from "node:fs";

export interface Tally {
  passed: number;
  failed: string[];
  skipped: string[];
}

function unescapeXml(text: string): string {
  return text
    .replace(/&lt;/g, "<")
    .replace(/&gt;/g, ">")
    .replace(/&quot;/g, '"')
    .replace(/&apos;/g, "'")
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)))
    .replace(/&amp;/g, "&");
}

/** The cmocka cases in a program's output; a case that began and never ended has failed. */
export function cmockaCases(output: string): Tally | undefined {
  const tally: Tally = { passed: 0, failed: [], skipped: [] };
  let running: string | undefined;
  let seen = false;
  for (const match of output.matchAll(/\[ (RUN     | {6}OK| FAILED | SKIPPED) \] (\S+)/g)) {
    const [, word, name] = match as unknown as [string, string, string];
    if (word.trim() === "RUN") {
      if (running !== undefined) tally.failed.push(`${running} (did not end)`);
      running = name;
      seen = true;
    } else if (name === running) {
      if (word.trim() === "OK") tally.passed++;
      else if (word.trim() === "FAILED") tally.failed.push(name);
      else tally.skipped.push(name);
      running = undefined;
    }
  }
  if (running !== undefined) tally.failed.push(`${running} (did not end)`);
  return seen ? tally : undefined;
}

/** A ctest JUnit report. */
export function ctestTally(xml: string): Tally {
  const tally: Tally = { passed: 0, failed: [], skipped: [] };
  for (const match of xml.matchAll(/<testcase name="([^"]*)"([^>]*)>([\s\S]*?)<\/testcase>/g)) {
    const [, rawName, attributes, body] = match as unknown as [string, string, string, string];
    const name = unescapeXml(rawName);
    const status = /status="([^"]*)"/.exec(attributes)?.[1] ?? "fail";
    const output = unescapeXml(/<system-out>([\s\S]*?)<\/system-out>/.exec(body)?.[1] ?? "");
    if (status === "notrun" || status === "disabled") {
      const reason = output.trim().split("\n").at(-1) ?? "";
      tally.skipped.push(`${name}: ${reason === "" ? "no reason printed" : reason}`);
      continue;
    }
    const cases = cmockaCases(output);
    tally.passed += cases?.passed ?? 0;
    tally.skipped.push(...(cases?.skipped ?? []).map((skipped) => `${name}: ${skipped}`));
    tally.failed.push(...(cases?.failed ?? []).map((failed) => `${name}: ${failed}`));
    if (status !== "run") {
      // Also a program whose cases passed and that then leaked or crashed.
      if ((cases?.failed.length ?? 0) === 0) tally.failed.push(name);
    } else if (cases === undefined) {
      tally.passed++;
    }
  }
  return tally;
}

/** node's TAP report; its closing counts leave out suites. */
export function nodeTally(tap: string, exitStatus: number): Tally {
  const tally: Tally = { passed: 0, failed: [], skipped: [] };
  const count = (word: string): number =>
    Number(new RegExp(`^# ${word} (\\d+)$`, "m").exec(tap)?.[1] ?? 0);
  tally.passed = count("pass");
  for (const match of tap.matchAll(/^\s*ok \d+ - (.*?) # SKIP ?(.*)$/gm)) {
    tally.skipped.push(`${match[1]}: ${match[2] === "" ? "no reason given" : match[2]}`);
  }
  // node counts tests, not suites; both have a "not ok" line with their type in the block below it.
  const names = [...tap.matchAll(/^\s*not ok \d+ - (.*)\n\s*---\n(?:.*\n)*?\s*type: '(\w+)'/gm)]
    .filter((match) => match[2] !== "suite")
    .map((match) => match[1] ?? "");
  const failures = count("fail") + count("cancelled");
  for (let i = 0; i < failures; i++) tally.failed.push(names[i] ?? "a test without a name");
  if (failures === 0 && exitStatus !== 0) {
    tally.failed.push(`exit status ${exitStatus} without a failed test (type check, or nothing ran)`);
  }
  return tally;
}

function readReport(argument: string): [string, Tally] {
  const equals = argument.indexOf("=");
  const name = argument.slice(0, equals);
  const [file = "", exitStatus] = argument.slice(equals + 1).split(/:(?=\d+$)/);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return [name, { passed: 0, failed: ["no report: the build or the runner failed"], skipped: [] }];
  }
  return [name, file.endsWith(".xml") ? ctestTally(text) : nodeTally(text, Number(exitStatus ?? 0))];
}

function main(): void {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const [name, tally] of process.argv.slice(2).map(readReport)) {
    for (const skipped of tally.skipped) console.log(`skipped [${name}] ${skipped}`);
    for (const failed of tally.failed) console.log(`failed  [${name}] ${failed}`);
    const { length: failed } = tally.failed;
    const { length: skipped } = tally.skipped;
    console.log(`${name}: passed ${tally.passed}, failed ${failed}, skipped ${skipped}`);
    total.passed += tally.passed;
    total.failed += failed;
    total.skipped += skipped;
  }
  console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
  process.exitCode = total.failed === 0 && total.passed > 0 ? 0 : 1;
}

if (import.meta.main) main();
