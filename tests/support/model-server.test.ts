import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { ModelServer, type ChatMessage, type Rule } from "./model-server.ts";
import { start, tmpRoot, until } from "./process.ts";

interface Chunk {
    choices: Array<{ delta: { content?: string; tool_calls?: Array<{ function: { name?: string; arguments: string } }> }; finish_reason: string | null }>;
    usage?: { total_tokens: number };
}

async function ask(url: string, messages: ChatMessage[], signal?: AbortSignal): Promise<{ status: number; body: string; chunks: Chunk[]; text: string; finish: string | null }> {
    const body = JSON.stringify({ model: "mock-1", messages, stream: true });
    const res = await fetch(`${url}/chat/completions`, { method: "POST", body, signal: signal ?? null });
    const got = await res.text();
    const chunks = got.split("\n\n").filter((l) => l.startsWith("data: {")).map((l) => JSON.parse(l.slice(6)) as Chunk);
    const text = chunks.map((c) => c.choices[0]?.delta.content ?? "").join("");
    const finish = chunks.map((c) => c.choices[0]?.finish_reason ?? null).find((f) => f !== null) ?? null;
    return { status: res.status, body: got, chunks, text, finish };
}

const user = (content: string): ChatMessage => ({ role: "user", content });

test("rules answer in order, with their uses and conditions", async (t) => {
    const model = await ModelServer.start([
        { name: "once", times: 1, when: { last: "hello" }, answer: { text: "first" } },
        { name: "b", when: { channel: "b", last: /^hel+o/ }, answer: { text: "from b" } },
        { when: { any: "hello" }, answer: { text: "a longer answer with ünïcode: 😀" } },
    ]);
    t.after(() => model.stop());
    assert.equal((await ask(model.url("a"), [user("hello")])).text, "first");
    assert.equal((await ask(model.url("a"), [user("hello")])).text, "a longer answer with ünïcode: 😀");
    const b = await ask(model.url("b"), [user("hello"), { role: "assistant", content: "x" }, user("hello")]);
    assert.equal(b.text, "from b");
    assert.equal(b.finish, "stop");
    assert.equal(b.chunks.at(-1)?.usage?.total_tokens, 110);
    assert.match(b.body, /data: \[DONE\]\n\n$/);
    assert.deepEqual(model.requests.map((r) => [r.channel, r.rule]), [["a", "once"], ["a", "rule 2"], ["b", "b"]]);
    assert.equal(model.of("a").length, 2);
});

test("tool calls come in pieces with unique ids, and their result is recognised", async (t) => {
    const model = await ModelServer.start([
        { when: { toolResult: "agents" }, answer: { text: "done" } },
        { answer: { calls: [{ name: "agents", arguments: { action: "list" } }] } },
    ]);
    t.after(() => model.stop());
    const first = await ask(model.url(), [user("go")]);
    const second = await ask(model.url(), [user("go")]);
    assert.equal(first.finish, "tool_calls");
    const calls = first.chunks.flatMap((c) => c.choices[0]?.delta.tool_calls ?? []);
    assert.equal(calls[0]?.function.name, "agents");
    assert.deepEqual(JSON.parse(calls.map((c) => c.function.arguments).join("")), { action: "list" });
    const ids = [first, second].map((r) => /"id":"(call_\d+)"/.exec(r.body)?.[1]);
    assert.notEqual(ids[0], ids[1]);
    const result = await ask(model.url(), [
        user("go"),
        { role: "assistant", content: null, tool_calls: [{ id: "call_9", type: "function", function: { name: "agents", arguments: "{}" } }] },
        { role: "tool", content: "r", tool_call_id: "call_9" },
    ]);
    assert.equal(result.text, "done");
});

test("errors, cut and broken streams have their shapes", async (t) => {
    const model = await ModelServer.start([
        { when: { last: "e500" }, answer: { error: { status: 500, message: "boom" } } },
        { when: { last: "cut" }, answer: { text: "half", cut: true } },
        { when: { last: "broken" }, answer: { text: "half", broken: true } },
    ]);
    t.after(() => model.stop());
    const error = await ask(model.url(), [user("e500")]);
    assert.equal(error.status, 500);
    assert.equal((JSON.parse(error.body) as { error: { message: string } }).error.message, "boom");
    assert.equal((await ask(model.url(), [user("cut")])).finish, "length");
    const broken = await ask(model.url(), [user("broken")]);
    assert.equal(broken.finish, null);
    assert.equal(broken.text, "half");
    assert.equal((await ask(model.url(), [user("nobody knows")])).status, 400);
    assert.equal(model.unmatched.length, 1);
    assert.equal((await ask(model.url(), [user("please summarize")])).text, "A short summary.");
});

test("a held answer waits for its gate; a client that leaves is noticed", async (t) => {
    const model = await ModelServer.start([
        { when: { last: "hold" }, answer: { text: "at last", hold: "g" } },
        { when: { last: "inside" }, answer: { text: "one two three four five", holdInside: "i" } },
    ]);
    t.after(() => model.stop());
    let answered = false;
    const waiting = ask(model.url(), [user("hold")]).then((r) => { answered = true; return r; });
    await until(() => model.waiting("g") === 1, { what: "the request at the gate" });
    assert.equal(answered, false);
    model.release("g");
    assert.equal((await waiting).text, "at last");
    const abort = new AbortController();
    const left = ask(model.url(), [user("inside")], abort.signal);
    await until(() => model.waiting("i") === 1, { what: "the request inside its answer" });
    abort.abort();
    await assert.rejects(left);
    await until(() => model.requests.at(-1)?.aborted === true, { what: "the abort in the record" });
    assert.equal(model.waiting("i"), 0);
});

test("it runs as a process of its own and ends with its stdin", async () => {
    const root = tmpRoot();
    const script: Rule[] = [{ when: { last: { regex: "^h" } }, answer: { text: "hi", hold: "g" } }];
    fs.writeFileSync(path.join(root, "script.json"), JSON.stringify(script));
    const child = start(process.execPath, [path.join(import.meta.dirname, "model-server.ts"), path.join(root, "script.json")], { env: {} });
    const line = await until(() => child.stdout.split("\n")[0], { what: "the port", dump: () => child.stderr });
    const base = `http://127.0.0.1:${(JSON.parse(line) as { port: number }).port}`;
    const answer = ask(`${base}/x/v1`, [user("hello")]);
    await fetch(`${base}/control/release/g`, { method: "POST" });
    assert.equal((await answer).text, "hi");
    const seen = (await (await fetch(`${base}/control/requests`)).json()) as Array<{ channel: string }>;
    assert.equal(seen[0]?.channel, "x");
    child.end();
    assert.equal((await child.exited).code, 0);
});
