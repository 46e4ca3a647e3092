import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { HerdrError } from "./herdr.ts";
import { defaultProfileModels, Machine, machineMissing } from "./machine.ts";
import { ModelServer } from "./model-server.ts";
import { contentText, conversation, PiPane, piPrint, PiRpc } from "./pi.ts";
import { alive, processesOf, run, start, until } from "./process.ts";
import { SshClient, sshdMissing } from "./sshd.ts";

const skip = machineMissing() ?? false;

async function stopAll(machine: Machine, model: ModelServer): Promise<void> {
    await machine.stop();
    await model.stop();
    assert.deepEqual(processesOf(machine.root), []);
    assert.equal(fs.existsSync(machine.root), false);
}

test("a machine's Herdr answers, runs a shell, and its catalog is what was written", { skip }, async (t) => {
    const model = await ModelServer.start();
    const machine = await Machine.create({ name: "m", modelUrl: model.url() });
    t.after(() => stopAll(machine, model));
    const pong = await machine.herdr.call<{ type: string; version: string }>("ping");
    assert.equal(pong.type, "pong");
    await assert.rejects(machine.herdr.call("pane.get", { pane_id: "w9:p9" }), (e: HerdrError) => e.code === "pane_not_found");
    const { root_pane } = await machine.herdr.call<{ root_pane: { pane_id: string } }>("workspace.create", { cwd: machine.project });
    const text = 'echo "home=$HOME"';
    await machine.herdr.call("pane.send_input", { pane_id: root_pane.pane_id, text, keys: ["enter"] });
    await until(async () => (await machine.herdr.read(root_pane.pane_id)).replaceAll("\n", "").includes(`home=${machine.home}`), {
        what: "the shell's answer",
        dump: () => machine.dump(),
    });
    assert.equal(machine.herdr.requests("pane.send_input").length, 1);

    const entry = { id: "0".repeat(31) + "1", label: "L", target: "t", session: "default", enabled: true };
    machine.writeCatalog([entry]);
    const list = await run("herdr", ["machine", "list", "--json"], { env: machine.env() });
    const [first] = JSON.parse(list.stdout) as Array<Record<string, unknown>>;
    for (const [key, value] of Object.entries(entry)) assert.equal(first?.[key], value);
    assert.deepEqual(machine.leftovers(), { processes: [], files: [] });
    const stray = path.join(machine.shepherdrDir, "bin", ".helper-x.tmp");
    fs.mkdirSync(path.dirname(stray), { recursive: true });
    fs.writeFileSync(stray, "");
    assert.deepEqual(machine.leftovers().files, [stray]);
});

test("processes of ours are told from the machine's own", { skip }, async (t) => {
    const model = await ModelServer.start();
    const machine = await Machine.create({ name: "m", modelUrl: model.url() });
    t.after(() => stopAll(machine, model));
    await machine.herdr.call("workspace.create", { cwd: machine.project });
    const bin = path.join(machine.shepherdrDir, "bin");
    fs.mkdirSync(bin, { recursive: true });
    const helper = path.join(bin, "helper-linux-x86_64-0123abcd");
    fs.copyFileSync("/usr/bin/sleep", helper);
    const running = start(helper, ["300"], { env: machine.env() });
    const shell = start("sh", ["-c", `read line; : ${bin}`], { env: machine.env() });
    await until(() => machine.ours().length === 2, { what: "helper and bootstrap shell", dump: () => JSON.stringify(machine.ours()) });
    assert.deepEqual(machine.ours().map((p) => p.pid).sort(), [running.pid, shell.pid].sort());
    fs.rmSync(helper);
    assert.equal(machine.ours().length, 2, "a helper whose file was replaced still counts");
    await running.stop("SIGKILL");
    shell.end();
    await until(() => machine.ours().length === 0, { what: "their end" });
});

test("a login over ssh lands in the machine's home and finds its programs", { skip: skip || (sshdMissing() ?? false) }, async (t) => {
    const model = await ModelServer.start();
    const machine = await Machine.create({ name: "m", modelUrl: model.url(), ssh: true, herdr: false });
    t.after(() => stopAll(machine, model));
    assert.ok(machine.sshd);
    const client = new SshClient(machine.harnessDir);
    client.addHost({ alias: "box", sshd: machine.sshd });
    const env = { PATH: `${client.bin}:/usr/bin:/bin` };
    const result = await run("ssh", ["box", "echo $HOME; herdr --version; pi --version"], { env });
    assert.match(result.stdout, new RegExp(`^${machine.home}\nherdr \\d+\\.\\d+\\.\\d+\n\\d+\\.\\d+\\.\\d+\n$`));
});

test("Pi in a pane: prompt, reply, push while a draft stands, quit", { skip }, async (t) => {
    const model = await ModelServer.start([
        { when: { last: "ping" }, answer: { text: "pong from the script" } },
        { when: { last: "pushed" }, answer: { text: "saw the push" } },
    ]);
    const machine = await Machine.create({ name: "m", modelUrl: model.url("m") });
    t.after(() => stopAll(machine, model));
    const pi = await PiPane.open(machine, { label: "work" });
    await pi.ask("please ping");
    await pi.waitText("pong from the script");
    await until(async () => (await pi.screen()).includes("pong from the script"), { what: "the reply on the screen" });

    /* Herdr knows the agent, its state and its session file. */
    const agent = await until(async () => (await machine.herdr.snapshot()).agents.find((a) => a.agent_status !== "working"), {
        what: "the settled agent",
        dump: () => pi.dump(),
    });
    assert.equal(agent.agent, "pi");
    assert.equal(agent.agent_session?.value, pi.sessionFile);

    await pi.write("a draft");
    pi.act({ do: "message", message: { customType: "x", content: "pushed text", display: true }, options: { triggerTurn: true, deliverAs: "steer" } });
    await pi.waitText("saw the push");
    assert.equal(pi.pushed("x").length, 1);
    assert.match(await pi.screen(), /a draft/);
    assert.match(conversation(pi.entries()), /^\[user\] please ping\n\[assistant\] pong from the script\n\[pushed x\] pushed text\n\[assistant\] saw the push$/);
    await pi.keys("ctrl+c");
    const { pid } = pi;
    await pi.quit();
    assert.equal(alive(pid), false);
    assert.deepEqual(model.unmatched, []);
});

test("Pi in print and RPC mode, with every model that a profile may name", { skip }, async (t) => {
    const model = await ModelServer.start([{ answer: (r) => ({ text: `I am ${r.model}` }) }]);
    const machine = await Machine.create({ name: "m", modelUrl: model.url(), herdr: false });
    t.after(() => stopAll(machine, model));
    const printed = await piPrint(machine, "hello");
    assert.equal(printed.stdout, "I am mock-1\n", printed.stderr);
    assert.ok(printed.events.some((e) => e.name === "agent_settled"));
    for (const name of defaultProfileModels()) {
        const result = await piPrint(machine, "hello", { args: ["--model", name, "--thinking", "high"] });
        assert.equal(result.stdout, `I am ${name.split("/")[1]}\n`, result.stderr);
    }
    const rpc = await PiRpc.open(machine);
    await rpc.ask("hello");
    const last = (await rpc.command("get_last_assistant_text"))["data"] as { text: string };
    assert.equal(last.text, "I am mock-1");
    assert.equal(contentText(rpc.entries().at(-1)?.message?.content), "I am mock-1");
    assert.equal(await rpc.quit(), 0);
});
