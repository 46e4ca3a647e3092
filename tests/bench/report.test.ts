// What a line of the benchmark says, and when it may fail a run.

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { applyWaivers, line, markdown, verdict, type Report, type Waiver } from "./report.ts";
import { median, quantile, ratioOf } from "./stats.ts";

test("order statistics", () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 2, 3]), 2.5);
    assert.equal(quantile([0, 10], 0.99), 9.9);
    assert.ok(Number.isNaN(median([])));
});

test("a ratio is taken round by round: a slow round of both changes nothing", () => {
    assert.equal(ratioOf([2, 200, 2], [1, 100, 1]), 2);
});

test("a goal is met or missed at its bound", () => {
    assert.equal(line("a", "", "", 1.5, "×", { text: "", most: 1.5 }).met, true);
    assert.equal(line("a", "", "", 1.51, "×", { text: "", most: 1.5 }).met, false);
    assert.equal(line("a", "", "", 79, "MB/s", { text: "", least: 80 }).met, false);
    assert.equal(line("a", "", "", 7, "ms").met, undefined);
});

test("an absolute time is shown and decides nothing", () => {
    const missed = line("a", "", "", 50, "ms", { text: "≤ 40 ms", most: 40, absolute: true });
    assert.equal(missed.decides, false);
    assert.equal(verdict(missed), "(not met)");
    assert.equal(line("a", "", "", 2, "×", { text: "", most: 1 }).decides, true);
    assert.equal(line("a", "", "", 2, "×").decides, false);
});

test("a measurement without a number is an error, not a line", () => {
    assert.throws(() => line("a", "", "", NaN, "×"), /no number/);
});

test("the file has every line and what was left out", () => {
    const report: Report = {
        machine: "m", loadBefore: { one: 1, five: 1 }, loadAfter: { one: 2, five: 2 }, seconds: 3,
        lines: [line("a", "size | aim", "x", 242, "KiB", { text: "≤ 320 KiB", most: 320 })], left_out: ["push: no Pi"],
    };
    const text = markdown(report, "t", "2 cores");
    assert.ok(text.includes("| size \\| aim | ≤ 320 KiB | 242 KiB | met | x |"), text);
    assert.ok(text.includes("load 1.0 before, 2.0 after; 3 s") && text.includes("- push: no Pi"), text);
});

test("a waiver needs a reason, a line, and a goal that is missed", () => {
    const missed = line("slow", "", "", 2, "×", { text: "", most: 1 });
    const lines = [missed, line("fast", "", "", 1, "×", { text: "", most: 1 })];
    const reason = "the measured program does not have it yet";
    assert.deepEqual(applyWaivers(lines, [{ id: "slow", reason }]), []);
    assert.equal(verdict(missed), "waived");
    const wrong = applyWaivers(lines, [{ id: "fast", reason }, { id: "none", reason }, { id: "slow", reason: " " }]);
    assert.deepEqual(wrong.map((text) => text.split(":")[0]), ["fast", "none", "slow"]);
});

test("waivers.json gives each line once, with its reason", () => {
    const waivers = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, "waivers.json"), "utf8")) as Waiver[];
    assert.equal(new Set(waivers.map((w) => w.id)).size, waivers.length);
    for (const { id, reason } of waivers) assert.ok(reason.trim().length >= 20, id);
});
