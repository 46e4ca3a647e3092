import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { alive, processesOf, removeRoot, run, start, tmpRoot, until } from "./process.ts";

const env = { PATH: "/usr/local/bin:/usr/bin:/bin" };

test("run gives both streams and the exit code", async () => {
    const result = await run("sh", ["-c", "echo out; echo err >&2; cat; exit 3"], { env, input: "in" });
    assert.deepEqual(
        { ...result },
        { code: 3, signal: null, stdout: "out\nin", stderr: "err\n", timedOut: false },
    );
});

test("a missing program is an exit code, not a crash", async () => {
    const result = await run("/nowhere/at/all", [], { env });
    assert.equal(result.code, 127);
    assert.match(result.stderr, /ENOENT/);
});

test("a child past its deadline is killed with its group", async () => {
    const root = tmpRoot();
    const result = await run("sh", ["-c", "sleep 300 & sleep 300"], { env: { ...env, MARK: root }, deadlineMs: 200 });
    assert.equal(result.timedOut, true);
    await until(() => processesOf(root).length === 0, { what: "the group's end" });
    removeRoot(root);
});

test("until says what did not come and why", async () => {
    await assert.rejects(
        until(() => { throw new Error("inner"); }, { what: "a thing", deadlineMs: 60, dump: () => "dumped" }),
        (err: Error) => /a thing/.test(err.message) && /inner/.test(err.message) && /dumped/.test(err.message),
    );
    assert.equal(await until(() => 7, { what: "a number" }), 7);
});

test("a root's processes are found by each trace and die with it", async () => {
    const root = tmpRoot();
    const other = { env, cwd: "/" };
    const byEnv = start("sleep", ["300"], { env: { ...env, X: root }, cwd: "/" });
    const byCmd = start("sh", ["-c", `true ${root}; sleep 300; true`], other);
    const byCwd = start("sleep", ["300"], { env, cwd: root });
    const byFd = start("sh", ["-c", 'read f; exec 9>"$f"; exec sleep 300'], { env, cwd: "/", input: `${path.join(root, "open")}\n` });
    await until(() => fs.existsSync(path.join(root, "open")), { what: "the open file" });
    const found = await until(() => {
        const list = processesOf(root);
        return list.length >= 4 ? list : null;
    }, { what: "all four" });
    const how = new Map(found.map((p) => [p.pid, p.by]));
    assert.equal(how.get(byEnv.pid), "environ");
    assert.equal(how.get(byCmd.pid), "cmdline");
    assert.equal(how.get(byCwd.pid), "cwd");
    assert.equal(how.get(byFd.pid), "fd");
    removeRoot(root);
    assert.deepEqual(processesOf(root), []);
    assert.equal(fs.existsSync(root), false);
    for (const child of [byEnv, byCmd, byCwd, byFd]) await child.exited;
});

test("children and roots end with a test process that is interrupted", async () => {
    const script = `
        import { start, tmpRoot, sleep } from ${JSON.stringify(path.join(import.meta.dirname, "process.ts"))};
        const root = tmpRoot();
        const child = start("sleep", ["300"], { env: { PATH: "/usr/bin:/bin", R: root }, cwd: root });
        console.log(JSON.stringify({ root, pid: child.pid }));
        await sleep(300000);
    `;
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
        const node = start(process.execPath, ["--input-type=module", "-e", script], { env });
        const line = await until(() => node.stdout.split("\n")[0], { what: "the child's line", dump: () => node.stderr });
        const { root, pid } = JSON.parse(line) as { root: string; pid: number };
        assert.equal(alive(pid), true);
        process.kill(node.pid, signal);
        await node.exited;
        await until(() => !alive(pid) && !fs.existsSync(root), { what: "the end of child and root" });
    }
});
