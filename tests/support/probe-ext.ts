/*
 * Test-only Pi extension: writes what happens in the session to a JSON-lines file
 * (SHP_PROBE_LOG) and does what a control file (the same name with ".do") says.
 * It registers nothing, so it can stand beside any other extension.
 */

import * as fs from "node:fs";

interface Context {
    isIdle(): boolean;
    mode: string;
    shutdown(): void;
    sessionManager: { getSessionFile(): string | undefined; getSessionId(): string; getLeafId(): string | null };
}

interface Pi {
    on(event: string, handler: (event: Record<string, unknown>, ctx: Context) => void): void;
    sendMessage(message: object, options?: object): void;
    sendUserMessage(text: string, options?: object): void;
    getAllTools(): Array<{ name: string; sourceInfo?: { path?: string } }>;
}

const EVENTS = [
    "session_start", "session_shutdown", "input", "agent_start", "agent_end", "agent_settled", "turn_end",
    "message_end", "tool_execution_start", "tool_execution_end", "session_before_compact", "session_compact",
];
const CONTROL_POLL_MS = 50;
const TEXT_CHARS = 2000;

function text(content: unknown): string {
    if (typeof content === "string") return content.slice(0, TEXT_CHARS);
    if (!Array.isArray(content)) return "";
    return content.map((c: { text?: string }) => c.text ?? "").join("").slice(0, TEXT_CHARS);
}

function fields(event: Record<string, unknown>): Record<string, unknown> {
    const message = event["message"] as Record<string, unknown> | undefined;
    const out: Record<string, unknown> = {};
    for (const key of ["reason", "aborted", "toolName", "toolCallId", "isError", "source"]) {
        if (event[key] !== undefined) out[key] = event[key];
    }
    if (typeof event["text"] === "string") out["text"] = event["text"].slice(0, TEXT_CHARS);
    if (message !== undefined) {
        Object.assign(out, {
            role: message["role"],
            customType: message["customType"],
            details: message["details"],
            stopReason: message["stopReason"],
            text: text(message["content"]),
        });
    }
    return out;
}

export default function probe(pi: Pi): void {
    const log = process.env["SHP_PROBE_LOG"];
    if (log === undefined) return;
    let timer: NodeJS.Timeout | undefined;
    const write = (record: object): void => fs.appendFileSync(log, `${JSON.stringify(record)}\n`);

    const control = (ctx: Context): void => {
        let commands: string;
        try {
            commands = fs.readFileSync(`${log}.do`, "utf8");
            fs.unlinkSync(`${log}.do`);
        } catch {
            return;
        }
        for (const line of commands.split("\n").filter((l) => l !== "")) {
            const command = JSON.parse(line) as { do: string; text?: string; message?: object; options?: object };
            try {
                if (command.do === "shutdown") ctx.shutdown();
                else if (command.do === "user") pi.sendUserMessage(command.text ?? "", command.options);
                else if (command.do === "message") pi.sendMessage(command.message ?? {}, command.options);
            } catch (err) {
                write({ name: "control_failed", text: String(err) });
            }
        }
    };

    for (const name of EVENTS) {
        pi.on(name, (event, ctx) => {
            const record: Record<string, unknown> = { name, t: Date.now(), pid: process.pid, idle: ctx.isIdle(), ...fields(event) };
            if (name === "session_start") {
                record["mode"] = ctx.mode;
                record["sessionFile"] = ctx.sessionManager.getSessionFile();
                record["sessionId"] = ctx.sessionManager.getSessionId();
                record["tools"] = pi.getAllTools().map((t) => t.name);
                timer = setInterval(() => {
                    try {
                        control(ctx);
                    } catch {
                        clearInterval(timer);
                    }
                }, CONTROL_POLL_MS);
                timer.unref();
            }
            if (name === "session_shutdown") clearInterval(timer);
            write(record);
        });
    }
}
