/** A fresh home with Pi's settings for the scripted model, and what its receivers wrote. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelServer } from "../../../tests/support/model-server.ts";
import { repoRoot, tmpRoot } from "../../../tests/support/process.ts";
import type { Descriptor } from "../../src/descriptor.ts";

export const PI_CLI = join(repoRoot, ".deps/pi/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");

/** Why the tests of a real Pi cannot run here; false when they can. */
export function missing(options: { tmux?: boolean } = {}): string | false {
  if (!existsSync(PI_CLI)) return "Pi is not installed below .deps; scripts/bootstrap does it";
  if (options.tmux === true) {
    try {
      execFileSync("tmux", ["-V"], { stdio: "ignore" });
    } catch {
      return "tmux is not installed; scripts/bootstrap does it";
    }
  }
  return false;
}

export type Machine = { root: string; env: Record<string, string>; project: string; runDir: string };

export function prepareMachine(model: ModelServer): Machine {
  const root = tmpRoot("pi");
  const agent = join(root, "agent");
  const project = join(root, "project");
  for (const dir of [agent, project]) mkdirSync(dir, { recursive: true });
  const entry = {
    id: "mock-1",
    name: "mock",
    reasoning: false,
    input: ["text"],
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    contextWindow: 128000,
    maxTokens: 4096,
  };
  const provider = { baseUrl: model.url(), api: "openai-completions", apiKey: "dummy", models: [entry] };
  writeFileSync(join(agent, "models.json"), JSON.stringify({ providers: { mock: provider } }));
  const settings = {
    defaultProvider: "mock",
    defaultModel: "mock-1",
    quietStartup: true,
    enableInstallTelemetry: false,
    retry: { enabled: false },
  };
  writeFileSync(join(agent, "settings.json"), JSON.stringify(settings));
  const env = {
    PATH: "/usr/bin:/bin",
    HOME: root,
    PI_CODING_AGENT_DIR: agent,
    PI_OFFLINE: "1",
    PI_SKIP_VERSION_CHECK: "1",
    PI_TELEMETRY: "0",
    TERM: "dumb",
  };
  return { root, env, project, runDir: join(root, ".pi/agent/shepherdr/run") };
}

export function descriptorsOf(m: Machine): Descriptor[] {
  if (!existsSync(m.runDir)) return [];
  return readdirSync(m.runDir)
    .filter((name) => name.endsWith(".json"))
    .map((name) => JSON.parse(readFileSync(join(m.runDir, name), "utf8")) as Descriptor);
}
