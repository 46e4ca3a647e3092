// HERDR_INTEGRATION_ID=pi
// HERDR_INTEGRATION_VERSION=10
//
// Test-only: plays Herdr's own Pi integration, so that a pane of the stand-in gets its status and
// its session reference the way a real one does. Load with `pi -e <this file>`, or place it as
// `<agent dir>/extensions/herdr-agent-state.ts`.
//
// Every report is its own connection. A stale call inside a timer or socket callback kills Pi, so
// what those callbacks need is copied out of the context first and each of them is guarded.

import net from "node:net";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";

const SOURCE = "herdr:pi";
const AGENT = "pi";
const FIRST_TRY_MS = 500;
const SECOND_TRY_MS = 1500;

type State = "working" | "idle" | "blocked";
type Params = Record<string, string | number>;
interface SessionRef {
    agent_session_path?: string;
    agent_session_id?: string;
}

let seq = Date.now() * 1000;

function sendOnce(socketPath: string, line: string, limitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
        let done = false;
        const socket = net.connect(socketPath);
        const finish = (delivered: boolean): void => {
            if (done) return;
            done = true;
            clearTimeout(timer);
            socket.destroy();
            resolve(delivered);
        };
        const timer = setTimeout(() => finish(false), limitMs);
        timer.unref();
        socket.unref();
        socket.on("connect", () => socket.write(line));
        socket.on("data", () => finish(true));
        socket.on("error", () => finish(false));
        socket.on("close", () => finish(false));
    });
}

async function send(socketPath: string, method: string, params: Params): Promise<void> {
    const request = { id: `pi:${seq}`, method, params: { ...params, seq: seq++ } };
    const line = `${JSON.stringify(request)}\n`;
    if (!(await sendOnce(socketPath, line, FIRST_TRY_MS)))
        await sendOnce(socketPath, line, SECOND_TRY_MS);
}

function sessionRef(ctx: ExtensionContext): SessionRef {
    const file = ctx.sessionManager.getSessionFile();
    if (file?.startsWith("/")) return { agent_session_path: file };
    const id = ctx.sessionManager.getSessionId();
    return id ? { agent_session_id: id } : {};
}

export default function herdrPiIntegration(pi: ExtensionAPI): void {
    const socketPath = process.env.HERDR_SOCKET_PATH;
    const paneId = process.env.HERDR_PANE_ID;
    if (process.env.HERDR_ENV !== "1" || !socketPath || !paneId) return;

    const base: Params = { pane_id: paneId, source: SOURCE, agent: AGENT };
    let disposed = false;
    let ref: SessionRef = {};
    let working = false;
    let blocked = 0;
    let blockedLabel: string | undefined;
    let reported: State | undefined;
    let inFlight = false;
    let pending: Params | undefined;

    const pump = (): void => {
        if (inFlight || disposed || !pending) return;
        const params = pending;
        pending = undefined;
        inFlight = true;
        send(socketPath, "pane.report_agent", params)
            .catch(() => undefined)
            .finally(() => {
                inFlight = false;
                pump();
            });
    };

    // Only the newest state that waits is kept; an unchanged one is not sent again.
    const report = (force: boolean): void => {
        const state: State = blocked > 0 ? "blocked" : working ? "working" : "idle";
        if (!force && state === reported) return;
        reported = state;
        pending = { ...base, ...ref, state };
        if (state === "blocked" && blockedLabel) pending.message = blockedLabel;
        pump();
    };

    const isTui = (ctx: ExtensionContext): boolean => ctx.mode === "tui";

    pi.on("session_start", async (event, ctx) => {
        if (!isTui(ctx)) return;
        ref = sessionRef(ctx);
        working = !ctx.isIdle();
        const started = event.reason === "reload" ? "startup" : event.reason;
        await send(socketPath, "pane.report_agent_session", {
            ...base,
            ...ref,
            session_start_source: started,
        }).catch(() => undefined);
        if (!disposed) report(true);
    });

    pi.on("agent_start", (_event, ctx) => {
        if (!isTui(ctx)) return;
        ref = sessionRef(ctx);
        void send(socketPath, "pane.report_agent_session", { ...base, ...ref }).catch(
            () => undefined,
        );
        working = true;
        report(false);
    });

    pi.on("agent_settled", (_event, ctx) => {
        if (!isTui(ctx) || !ctx.isIdle()) return;
        working = false;
        report(false);
    });

    pi.on("session_shutdown", () => {
        // Nothing is sent: Herdr notices the end of the process by itself.
        disposed = true;
        pending = undefined;
    });

    pi.events.on("herdr:blocked", (data: unknown) => {
        if (disposed || typeof data !== "object" || data === null) return;
        const { active, label } = data as { active?: unknown; label?: unknown };
        blocked = Math.max(0, blocked + (active === true ? 1 : -1));
        blockedLabel = active === true && typeof label === "string" ? label : undefined;
        report(false);
    });
}
