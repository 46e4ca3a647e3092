/** Names that stand in session files, in Pi's registries and on disk: each in one place. */
import { homedir } from "node:os";
import { join } from "node:path";

export const VERSION = "0.1.0";

/** npm name of the package; its platform packages add `-<platform>-<arch>`. */
export const PACKAGE_NAME = "pi-shepherdr";

export const TOOL_NAME = "agents";
export const TOOL_LABEL = "Shepherdr";
export const COMMAND_NAME = "herdr";

/** Custom messages that we inject. */
export const MESSAGE_TYPE = "herdr-agent-message";
export const EVENT_TYPE = "herdr-agent-event";

/** Custom entries that we append. */
export const INBOX_ENTRY = "shepherdr-inbox";
export const BINDING_ENTRY = "shepherdr-binding";

type Env = Record<string, string | undefined>;

/** Pi's agent directory, found the way Pi finds it. */
export function agentDir(env: Env = process.env): string {
  const set = env["PI_CODING_AGENT_DIR"];
  if (set === undefined || set === "") return join(homedir(), ".pi", "agent");
  if (set === "~") return homedir();
  return set.startsWith("~/") ? join(homedir(), set.slice(2)) : set;
}

/** Where helpers look for receivers: fixed, whatever the agent directory is. */
export function runDir(home: string = homedir()): string {
  return join(home, ".pi", "agent", "shepherdr", "run");
}

export function inHerdr(env: Env = process.env): boolean {
  return env["HERDR_ENV"] === "1";
}
