/**
 * The tool `agents`: call forms in, result and errors out. Everything else is judged by the
 * controller, so that one implementation answers Pi and the command line.
 */
import type { AgentToolResult, AgentToolUpdateCallback, ToolDefinition } from "@earendil-works/pi-coding-agent";
import type { TSchema } from "typebox";
import { newId, type CallResult } from "./controller.ts";
import { ShepherdrError } from "./errors.ts";
import type { JsonObject } from "./frames.ts";
import { TOOL_LABEL, TOOL_NAME } from "./names.ts";

const ACTIONS = ["help", "list", "find", "spawn", "send", "assign", "attach", "detach", "read", "reply", "watch", "unwatch"] as const;

/** Small on purpose: `help` teaches the fields, the controller checks them. */
const PARAMETERS = {
  type: "object",
  properties: {
    action: { type: "string", enum: ACTIONS, description: "Omit for help." },
    commands: { type: "boolean", const: true, description: "List slash commands." },
    target: { type: "string", description: "Agent, exactly as list or spawn returned it." },
    machine: { type: "string", description: "Machine id from list; omit for this machine." },
  },
  additionalProperties: true,
} as unknown as TSchema;

const DESCRIPTION =
  "Run and supervise Pi agents on this and other machines. Call with {} first, alone: it returns the actions, their fields and the profiles.";

export type AgentsDetails = JsonObject;
export type AgentsToolDefinition = ToolDefinition<TSchema, AgentsDetails>;

export type Caller = {
  /** The controller's answer; throws ShepherdrError. */
  call(
    operation: string,
    call: JsonObject,
    message: string | undefined,
    signal: AbortSignal | undefined,
    onProgress: ((value: JsonObject) => void) | undefined,
  ): Promise<CallResult>;
};

/** The flat object of a call. Throws `invalid_call` for what is none. */
export function normaliseCall(raw: unknown): JsonObject {
  if (raw === undefined) return {};
  if (typeof raw === "string") {
    const text = raw.trim();
    if (text === "help") return { action: "help" };
    let parsed: unknown;
    try {
      parsed = JSON.parse(text);
    } catch {
      throw new ShepherdrError("invalid_call", { cause: text === "" ? "a blank string" : "a string that is neither help nor JSON" });
    }
    if (typeof parsed === "string") throw new ShepherdrError("invalid_call", { cause: "a string within a string" });
    return normaliseCall(parsed);
  }
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) {
    throw new ShepherdrError("invalid_call", { cause: raw === null ? "null" : Array.isArray(raw) ? "an array" : `a ${typeof raw}` });
  }
  return raw as JsonObject;
}

function isHelp(call: JsonObject): boolean {
  return Object.keys(call).length === 0 || (call["action"] === "help" && Object.keys(call).length === 1);
}

/** `help` works without the program and says what is missing. */
function helpWithout(error: ShepherdrError): JsonObject {
  return {
    actions: {},
    unavailable: { code: error.code, message: error.message, ...(error.reason === undefined ? {} : { cause: error.reason }), next: error.next },
  };
}

function toResult(value: JsonObject, warning?: string): AgentToolResult<AgentsDetails> {
  const content: AgentToolResult<AgentsDetails>["content"] = [{ type: "text", text: JSON.stringify(value) }];
  if (warning !== undefined) content.push({ type: "text", text: warning });
  return { content, details: value };
}

/** The text of an error result. Pi shows it to the model and to the person. */
function toolError(error: ShepherdrError): Error {
  return new Error(error.describe());
}

export async function executeAgents(
  caller: Caller,
  params: unknown,
  signal: AbortSignal | undefined,
  onUpdate: AgentToolUpdateCallback<AgentsDetails> | undefined,
): Promise<AgentToolResult<AgentsDetails>> {
  const operation = newId();
  try {
    const call = normaliseCall(params);
    const { message, ...rest } = call;
    const text = typeof message === "string" ? message : undefined;
    const onProgress =
      onUpdate === undefined ? undefined : (value: JsonObject) => onUpdate({ content: [{ type: "text", text: JSON.stringify(value) }], details: value });
    try {
      const result = await caller.call(operation, text === undefined ? call : rest, text, signal, onProgress);
      return toResult(result.value, result.warning);
    } catch (error) {
      const failure = ShepherdrError.from(error);
      if (signal?.aborted === true) {
        return toResult({ detached: true, operation }, "The call was stopped. What it began goes on, and its result is reported when it is there.");
      }
      if (failure.code === "controller_missing" && isHelp(call)) return toResult(helpWithout(failure));
      throw failure;
    }
  } catch (error) {
    throw toolError(ShepherdrError.from(error));
  }
}

export function agentsTool(caller: Caller): Omit<AgentsToolDefinition, "renderCall" | "renderResult"> {
  return {
    name: TOOL_NAME,
    label: TOOL_LABEL,
    description: DESCRIPTION,
    parameters: PARAMETERS,
    executionMode: "sequential",
    prepareArguments: (raw) => {
      try {
        return normaliseCall(raw);
      } catch (error) {
        throw toolError(ShepherdrError.from(error));
      }
    },
    execute: (_toolCallId, params, signal, onUpdate) => executeAgents(caller, params, signal, onUpdate),
  };
}
