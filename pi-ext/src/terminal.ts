/** Which Herdr terminal this process runs in: no variable holds it, so Herdr is asked once. */
import { connect } from "node:net";

const ASK_TIMEOUT_MS = 5000;
const ANSWER_BYTES_MAX = 1 << 20;

/** Kept over `/reload`, which loads this module anew. */
const MEMORY = Symbol.for("shepherdr/terminal-id");

function terminalOf(line: string): string | undefined {
  try {
    const answer = JSON.parse(line) as { result?: { pane?: { terminal_id?: unknown } } };
    const id = answer.result?.pane?.terminal_id;
    return typeof id === "string" && id !== "" && id.length <= 128 ? id : undefined;
  } catch {
    return undefined;
  }
}

/** One line out, one line in, on a fresh connection. Undefined when Herdr does not answer in time. */
export function askTerminal(socketPath: string, pane: string, timeoutMs: number = ASK_TIMEOUT_MS): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.unref();
    let received = "";
    const finish = (value: string | undefined): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(value);
    };
    const timer = setTimeout(() => finish(undefined), timeoutMs);
    timer.unref();
    socket.setEncoding("utf8");
    socket.on("error", () => finish(undefined));
    socket.on("close", () => finish(undefined));
    socket.on("connect", () => {
      socket.write(`${JSON.stringify({ id: "shepherdr", method: "pane.current", params: { caller_pane_id: pane } })}\n`);
    });
    socket.on("data", (chunk: string) => {
      received += chunk;
      const end = received.indexOf("\n");
      if (end >= 0) finish(terminalOf(received.slice(0, end)));
      else if (received.length > ANSWER_BYTES_MAX) finish(undefined);
    });
  });
}

/**
 * Terminal of this process; undefined outside Herdr. A Pi that another Pi's shell tool started has
 * that one's variables but not its terminal, unless it took the terminal over (mode tui).
 */
export async function terminalId(mode: string, env: NodeJS.ProcessEnv = process.env): Promise<string | undefined> {
  const socket = env["HERDR_SOCKET_PATH"];
  const pane = env["HERDR_PANE_ID"];
  if (env["HERDR_ENV"] !== "1" || socket === undefined || socket === "" || pane === undefined || pane === "") return undefined;
  if (mode !== "tui" && env["PI_SESSION_ID"] !== undefined) return undefined;
  const memory = globalThis as { [MEMORY]?: { key: string; id: string } };
  const key = `${socket}\n${pane}`;
  if (memory[MEMORY]?.key === key) return memory[MEMORY].id;
  const id = await askTerminal(socket, pane);
  if (id !== undefined) memory[MEMORY] = { key, id };
  return id;
}
