/*
 * A scripted model that speaks the OpenAI chat completions protocol on loopback.
 *
 * A script is a list of rules; the first rule that matches a request and has uses left gives the
 * answer. A request that no rule matches gets HTTP 400 and is counted in `unmatched`, so that a
 * test which forgot a rule fails with the text that was asked instead of hanging.
 *
 * Each machine may have its own base URL, http://127.0.0.1:PORT/<channel>/v1: rules can name the
 * channel, and the record tells who asked.
 */

import * as http from "node:http";
import * as fs from "node:fs";
import type { AddressInfo, Socket } from "node:net";

/** Largest request body that is accepted. Real ones carry a system prompt, tools and a conversation. */
const BODY_LIMIT_BYTES = 32 * 1024 * 1024;
/** Characters per content piece of a streamed text. */
const PIECE_CHARS = 12;

export interface ChatMessage {
    role: "system" | "developer" | "user" | "assistant" | "tool";
    content: string | null | Array<{ type: string; text?: string }>;
    tool_calls?: Array<{ id: string; type: string; function: { name: string; arguments: string } }>;
    tool_call_id?: string;
}

export interface ChatRequest {
    channel: string;
    model: string;
    messages: ChatMessage[];
    tools: Array<{ type: string; function: { name: string; description?: string; parameters?: unknown } }>;
    /** Position in the record, from 0. */
    index: number;
    /** Milliseconds since the server began. */
    atMs: number;
    /** Name of the rule that answered; "" when none did. */
    rule: string;
    /** True once the client went away before the answer's end. */
    aborted: boolean;
    /** True once the answer's last byte was handed to the socket. */
    finished: boolean;
}

/** A text that must be contained, or a regular expression (`{regex}` in JSON scripts). */
export type Match = string | RegExp | { regex: string };

export interface When {
    channel?: string;
    model?: string;
    /** Role of the last message. */
    role?: ChatMessage["role"];
    /** Text of the last message. */
    last?: Match;
    /** Text of any message but the system prompt. */
    any?: Match;
    /** Text of the system prompt. */
    system?: Match;
    /** Name of the tool whose result the last message is. */
    toolResult?: string;
    /** For rules written in code. */
    test?: (request: ChatRequest) => boolean;
}

export interface ToolCall {
    name: string;
    arguments: unknown;
    /** Default: unique per server. */
    id?: string;
}

export interface Answer {
    text?: string;
    calls?: ToolCall[];
    /** Milliseconds between content pieces. */
    slowMs?: number;
    /** HTTP error instead of a stream: status and message. */
    error?: { status: number; message: string };
    /** The stream closes after the text, without finish_reason. */
    broken?: boolean;
    /** finish_reason "length". */
    cut?: boolean;
    /** Nothing is sent before `release(gate)`. */
    hold?: string;
    /** The text's first piece is sent, the rest waits for `release(gate)`. */
    holdInside?: string;
}

export interface Rule {
    name?: string;
    when?: When;
    /** How often the rule may answer; default without limit. */
    times?: number;
    answer: Answer | ((request: ChatRequest) => Answer);
}

export function textOf(message: ChatMessage | undefined): string {
    if (message === undefined || message.content === null || message.content === undefined) return "";
    if (typeof message.content === "string") return message.content;
    return message.content.map((part) => part.text ?? "").join("");
}

function matches(match: Match, text: string): boolean {
    if (typeof match === "string") return text.includes(match);
    return (match instanceof RegExp ? match : new RegExp(match.regex)).test(text);
}

function toolNameOf(request: ChatRequest): string {
    const id = request.messages.at(-1)?.tool_call_id;
    for (const message of request.messages) {
        const call = message.tool_calls?.find((c) => c.id === id);
        if (call !== undefined) return call.function.name;
    }
    return "";
}

function applies(when: When, request: ChatRequest): boolean {
    const last = request.messages.at(-1);
    if (when.channel !== undefined && when.channel !== request.channel) return false;
    if (when.model !== undefined && when.model !== request.model) return false;
    if (when.role !== undefined && when.role !== last?.role) return false;
    if (when.last !== undefined && !matches(when.last, textOf(last))) return false;
    if (when.system !== undefined) {
        const system = request.messages.filter((m) => m.role === "system" || m.role === "developer");
        const wanted = when.system;
        if (!system.some((m) => matches(wanted, textOf(m)))) return false;
    }
    if (when.any !== undefined) {
        const wanted = when.any;
        if (!request.messages.some((m) => m.role !== "system" && matches(wanted, textOf(m)))) return false;
    }
    if (when.toolResult !== undefined && (last?.role !== "tool" || toolNameOf(request) !== when.toolResult)) return false;
    return when.test === undefined || when.test(request);
}

export class ModelServer {
    readonly requests: ChatRequest[] = [];
    readonly unmatched: ChatRequest[] = [];
    port = 0;
    private readonly rules: Rule[] = [];
    private readonly used = new Map<Rule, number>();
    private readonly gates = new Map<string, { open: boolean; waiting: Array<() => void> }>();
    private readonly sockets = new Set<Socket>();
    private readonly server: http.Server;
    private readonly startMs = performance.now();
    private calls = 0;

    private constructor(rules: Rule[]) {
        this.rules.push(...rules);
        this.server = http.createServer((req, res) => {
            this.serve(req, res).catch((err: unknown) => res.destroy(err instanceof Error ? err : undefined));
        });
        this.server.on("connection", (socket) => {
            this.sockets.add(socket);
            socket.on("close", () => this.sockets.delete(socket));
        });
    }

    static async start(rules: Rule[] = [], port = 0): Promise<ModelServer> {
        const model = new ModelServer(rules);
        await new Promise<void>((resolve, reject) => {
            model.server.once("error", reject);
            model.server.listen(port, "127.0.0.1", resolve);
        });
        model.server.unref();
        model.port = (model.server.address() as AddressInfo).port;
        return model;
    }

    /** Base URL for models.json. */
    url(channel = ""): string {
        return `http://127.0.0.1:${this.port}${channel === "" ? "" : `/${channel}`}/v1`;
    }

    /** Rules added later come after the earlier ones. */
    add(...rules: Rule[]): void {
        this.rules.push(...rules);
    }

    /** These rules come before all others. */
    addFirst(...rules: Rule[]): void {
        this.rules.unshift(...rules);
    }

    /** Opens a gate: answers that wait for it go on, later ones do not wait. */
    release(gate: string): void {
        const entry = this.gate(gate);
        entry.open = true;
        for (const fn of entry.waiting.splice(0)) fn();
    }

    /** Number of answers that wait at a gate now. */
    waiting(gate: string): number {
        return this.gate(gate).waiting.length;
    }

    /** Requests of a channel, in order. */
    of(channel: string): ChatRequest[] {
        return this.requests.filter((r) => r.channel === channel);
    }

    /** One line per request: for dumps. */
    dump(): string {
        return this.requests
            .map((r) => {
                const last = r.messages.at(-1);
                const text = textOf(last).replaceAll("\n", "\\n").slice(0, 160);
                return `  ${r.atMs.toFixed(0)} ms ${r.channel}/${r.model} rule=${r.rule || "NONE"} last=${last?.role}: ${text}`;
            })
            .join("\n");
    }

    async stop(): Promise<void> {
        for (const entry of this.gates.values()) for (const fn of entry.waiting.splice(0)) fn();
        for (const socket of this.sockets) socket.destroy();
        await new Promise<void>((resolve) => this.server.close(() => resolve()));
    }

    private gate(name: string): { open: boolean; waiting: Array<() => void> } {
        let entry = this.gates.get(name);
        if (entry === undefined) {
            entry = { open: false, waiting: [] };
            this.gates.set(name, entry);
        }
        return entry;
    }

    /** Waits for the gate, or for the client to leave. */
    private async pass(name: string, res: http.ServerResponse): Promise<void> {
        const entry = this.gate(name);
        if (entry.open) return;
        await new Promise<void>((resolve) => {
            entry.waiting.push(resolve);
            res.once("close", () => {
                entry.waiting = entry.waiting.filter((fn) => fn !== resolve);
                resolve();
            });
        });
    }

    private async serve(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
        const chunks: Buffer[] = [];
        let bytes = 0;
        for await (const chunk of req as AsyncIterable<Buffer>) {
            bytes += chunk.length;
            if (bytes > BODY_LIMIT_BYTES) throw new Error("request body above the limit");
            chunks.push(chunk);
        }
        const body = Buffer.concat(chunks).toString("utf8");
        const path = req.url ?? "";
        if (path.startsWith("/control/")) return this.control(path.slice("/control/".length), body, res);
        const route = /^(?:\/([^/]+))?\/v1\/chat\/completions$/.exec(path);
        if (req.method !== "POST" || route === null) return fail(res, 404, `no route ${req.method} ${path}`);
        const parsed = JSON.parse(body) as Partial<ChatRequest>;
        const request: ChatRequest = {
            channel: route[1] ?? "",
            model: parsed.model ?? "",
            messages: parsed.messages ?? [],
            tools: parsed.tools ?? [],
            index: this.requests.length,
            atMs: performance.now() - this.startMs,
            rule: "",
            aborted: false,
            finished: false,
        };
        this.requests.push(request);
        res.on("close", () => {
            if (!request.finished) request.aborted = true;
        });
        const rule = this.rules.find(
            (r) => (this.used.get(r) ?? 0) < (r.times ?? Infinity) && (r.when === undefined || applies(r.when, request)),
        );
        if (rule === undefined) return this.answerUnmatched(request, res);
        this.used.set(rule, (this.used.get(rule) ?? 0) + 1);
        request.rule = rule.name ?? `rule ${this.rules.indexOf(rule)}`;
        await this.answer(request, typeof rule.answer === "function" ? rule.answer(request) : rule.answer, res);
    }

    private async answerUnmatched(request: ChatRequest, res: http.ServerResponse): Promise<void> {
        const last = textOf(request.messages.at(-1));
        if (request.messages.at(-1)?.role === "user" && /summar/i.test(last)) {
            request.rule = "summary";
            return this.answer(request, { text: "A short summary." }, res);
        }
        this.unmatched.push(request);
        request.finished = true;
        fail(res, 400, `no rule of the script matches: ${last.slice(0, 200)}`);
    }

    private async answer(request: ChatRequest, answer: Answer, res: http.ServerResponse): Promise<void> {
        if (answer.hold !== undefined) await this.pass(answer.hold, res);
        if (res.destroyed) return;
        if (answer.error !== undefined) {
            request.finished = true;
            return fail(res, answer.error.status, answer.error.message);
        }
        res.writeHead(200, { "content-type": "text/event-stream", connection: "close" });
        const base = { id: `c${request.index}`, object: "chat.completion.chunk", model: request.model };
        const send = (choices: unknown[], extra: object = {}): void => {
            const created = Math.floor(Date.now() / 1000);
            if (!res.destroyed) res.write(`data: ${JSON.stringify({ ...base, created, choices, ...extra })}\n\n`);
        };
        const delta = (value: object, finish: string | null = null): void =>
            send([{ index: 0, delta: value, finish_reason: finish }]);

        delta({ role: "assistant", content: answer.text === undefined ? null : "" });
        const pieces = [...(answer.text ?? "").matchAll(new RegExp(`[^]{1,${PIECE_CHARS}}`, "gu"))].map((m) => m[0]);
        for (const [i, piece] of pieces.entries()) {
            if (res.destroyed) return;
            if (i > 0 && answer.slowMs !== undefined) await new Promise((r) => setTimeout(r, answer.slowMs));
            delta({ content: piece });
            if (i === 0 && answer.holdInside !== undefined) await this.pass(answer.holdInside, res);
        }
        for (const [index, call] of (answer.calls ?? []).entries()) {
            const id = call.id ?? `call_${++this.calls}`;
            const text = typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);
            delta({ tool_calls: [{ index, id, type: "function", function: { name: call.name, arguments: "" } }] });
            const half = Math.ceil(text.length / 2);
            for (const part of [text.slice(0, half), text.slice(half)]) {
                delta({ tool_calls: [{ index, function: { arguments: part } }] });
            }
        }
        if (res.destroyed) return;
        request.finished = true;
        if (answer.broken === true) {
            res.end();
            return;
        }
        delta({}, answer.cut === true ? "length" : answer.calls !== undefined ? "tool_calls" : "stop");
        send([], { usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 } });
        res.end("data: [DONE]\n\n");
    }

    /** For the stand-alone process: POST release/<gate>, POST rules (JSON list), GET requests. */
    private control(what: string, body: string, res: http.ServerResponse): void {
        if (what.startsWith("release/")) this.release(decodeURIComponent(what.slice("release/".length)));
        else if (what === "rules") this.addFirst(...(JSON.parse(body) as Rule[]));
        else if (what !== "requests") return fail(res, 404, `no control ${what}`);
        res.writeHead(200, { "content-type": "application/json", connection: "close" });
        res.end(JSON.stringify(what === "requests" ? this.requests : { ok: true }));
    }
}

function fail(res: http.ServerResponse, status: number, message: string): void {
    res.writeHead(status, { "content-type": "application/json", connection: "close" });
    res.end(JSON.stringify({ error: { message, type: "scripted", code: `s${status}` } }));
}

/* Stand-alone: node model-server.ts [script.json]; prints one line {"port":N} and runs until its stdin ends. */
if (import.meta.main) {
    const script = process.argv[2];
    const rules = script === undefined ? [] : (JSON.parse(fs.readFileSync(script, "utf8")) as Rule[]);
    const model = await ModelServer.start(rules);
    process.stdout.write(`${JSON.stringify({ port: model.port })}\n`);
    process.stdin.resume();
    process.stdin.on("end", () => process.exit(0));
}
