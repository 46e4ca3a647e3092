/**
 * The extension in Pi's TUI, in tmux: drafts, Escape, /reload and /new, what is drawn, /herdr.
 * Skipped with a printed reason when Pi or tmux is missing.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { ModelServer } from "../../tests/support/model-server.ts";
import { LONG_MS, removeRoot, repoRoot, until } from "../../tests/support/process.ts";
import { HelperClient, newId } from "./support/helper-client.ts";
import { fakeProgram } from "./support/fake-program.ts";
import { PI_CLI, descriptorsOf, missing, prepareMachine, type Machine } from "./support/pi-machine.ts";

const skip = missing({ tmux: true });
if (skip !== false) console.log(`tui.test.ts skipped: ${skip}`);

class Terminal {
  readonly #socket: string;
  readonly #m: Machine;

  constructor(m: Machine, args: string[], env: Record<string, string>) {
    this.#m = m;
    this.#socket = join(m.root, "tmux.sock");
    const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
    const assignments = Object.entries({ ...m.env, ...env, TERM: "screen-256color" }).map(([name, value]) => `${name}=${quote(value)}`);
    const command = ["env", "-i", ...assignments, quote(process.execPath), PI_CLI, ...args.map(quote), "; echo EXIT=$?; sleep 600"].join(" ");
    this.#start(["new-session", "-d", "-s", "t", "-x", "120", "-y", "40", "-c", m.project, command]);
  }

  /** tmux's server sometimes ends while it starts on a loaded machine; what runs in it has not begun then. */
  #start(args: string[]): void {
    for (let attempt = 1; ; attempt++) {
      try {
        this.#tmux(...args);
        return;
      } catch (err) {
        if (attempt === 3 || !String(err).includes("server exited unexpectedly")) throw err;
      }
    }
  }

  #tmux(...args: string[]): string {
    return execFileSync("tmux", ["-f", "/dev/null", "-S", this.#socket, ...args], { encoding: "utf8", env: { PATH: "/usr/bin:/bin", HOME: this.#m.root } });
  }

  screen(): string {
    return this.#tmux("capture-pane", "-p", "-t", "t");
  }

  type(text: string): void {
    this.#tmux("send-keys", "-t", "t", "-l", "--", text);
  }

  key(name: string): void {
    this.#tmux("send-keys", "-t", "t", name);
  }

  async see(text: string | RegExp): Promise<void> {
    await until(() => (typeof text === "string" ? this.screen().includes(text) : text.test(this.screen())), {
      what: `on the screen: ${String(text)}`,
      deadlineMs: LONG_MS,
      dump: () => this.screen(),
    });
  }

  /** Types, waits until the editor shows it, submits. */
  async enter(text: string): Promise<void> {
    this.type(text);
    await this.see(text);
    this.key("Enter");
  }

  end(): void {
    try {
      this.#tmux("kill-server");
    } catch {
      // It ended already.
    }
  }
}

describe("pi-ext in Pi's TUI", { skip }, () => {
  let model: ModelServer;
  let m: Machine;
  let terminal: Terminal | undefined;

  before(async () => {
    model = await ModelServer.start();
    m = prepareMachine(model);
    mkdirSync(join(m.root, "bin"), { recursive: true });
  });

  after(async () => {
    terminal?.end();
    await model.stop();
    removeRoot(m.root);
  });

  it("keeps the draft, survives Escape, /reload and /new, and quits", async () => {
    model.add(
      { when: { last: "first delivery" }, answer: { text: "Answer to the first delivery." } },
      { when: { last: "hold the line" }, answer: { text: "A long answer that a person stops.", holdInside: "escape" } },
      { when: { any: "second delivery", last: "carry on" }, answer: { text: "Answer to both." } },
      { when: { last: "after the reload" }, answer: { text: "Answer after the reload." } },
    );
    const log = join(m.root, "controller.log");
    const herdr = { HERDR_ENV: "1", HERDR_SOCKET_PATH: join(m.root, "none.sock"), HERDR_PANE_ID: "p1" };
    const env = { ...herdr, SHEPHERDR_BIN: fakeProgram(join(m.root, "bin")), SHP_FAKE_LOG: log };
    const flags = ["-ne", "-nc", "-ns", "-np", "-nbt", "-e", join(repoRoot, "pi-ext/src/index.ts"), "--session-id", "tui-1"];
    terminal = new Terminal(m, flags, env);
    const t = terminal;
    const descriptor = await until(() => descriptorsOf(m)[0], { what: "a descriptor", deadlineMs: LONG_MS, dump: () => t.screen() });
    // A root TUI session in Herdr starts its controller by itself.
    await until(() => existsSync(log) && readFileSync(log, "utf8").includes("open "), { what: "the controller", deadlineMs: LONG_MS });
    assert.match(readFileSync(log, "utf8"), /"eager":true/u);
    await t.see("mock-1");
    let client = await HelperClient.open(descriptor);

    t.type("an unsent draft");
    await t.see("an unsent draft");
    await client.deliver(newId(), "first delivery \u001b[31mred", "message", { host: "laptop", name: "root\u001b]0;x\u0007" });
    await t.see("Answer to the first delivery.");
    await t.see("Message from root");
    assert.match(t.screen(), /an unsent draft/u);
    assert.match(t.screen(), /first delivery red/u);
    t.key("C-c");
    await until(() => !t.screen().includes("an unsent draft"), { what: "an empty editor" });

    await t.enter("hold the line");
    await until(() => model.waiting("escape") === 1, { what: "the held answer", deadlineMs: LONG_MS });
    const second = newId();
    await client.deliver(second, "second delivery", "task");
    t.key("Escape");
    await until(() => client.events.some((e) => e.event === "settled" && e.aborted === true), { what: "the stop", deadlineMs: LONG_MS, dump: () => t.screen() });
    await t.see("second delivery");
    assert.equal((await client.ask("settlement", { input: second })).answer["state"], "pending");
    model.release("escape");
    await t.enter("carry on");
    await until(async () => (await client.ask("settlement", { input: second })).answer["state"] === "settled", { what: "the settlement", deadlineMs: LONG_MS, dump: () => model.dump() });
    assert.equal((await client.ask("settlement", { input: second })).text, "Answer to both.");
    const file = readFileSync(descriptor.session_file, "utf8");
    assert.equal(file.split("\n").filter((line) => line.includes('"custom_message"') && line.includes(second)).length, 1);

    await t.enter("/reload");
    const reloaded = await until(() => descriptorsOf(m).find((d) => d.token !== descriptor.token), { what: "the receiver after /reload", deadlineMs: LONG_MS, dump: () => t.screen() });
    await until(() => readFileSync(log, "utf8").split("open ").length === 3, { what: "the controller after /reload", deadlineMs: LONG_MS });
    assert.equal(client.closed, true);
    client = await HelperClient.open(reloaded);
    assert.equal((await client.ask("settlement", { input: second })).text, "Answer to both.");
    await client.deliver(newId(), "after the reload");
    await t.see("Answer after the reload.");

    await t.enter("/herdr");
    await t.see("controller: running");
    await t.enter("/new");
    const fresh = await until(() => descriptorsOf(m).find((d) => d.pi_session_id !== "tui-1"), { what: "the receiver after /new", deadlineMs: LONG_MS, dump: () => t.screen() });
    assert.equal(descriptorsOf(m).length, 1);
    assert.notEqual(fresh.socket, reloaded.socket);
    await t.enter("/quit");
    await t.see("EXIT=0");
    assert.deepEqual(readdirSync(m.runDir), []);

    // A resumed session draws its old messages with our renderer as well.
    terminal.end();
    terminal = new Terminal(m, flags, env);
    await terminal.see("Task from p1");
    await until(() => descriptorsOf(m).some((d) => d.pi_session_id === "tui-1"), { what: "the receiver of the resumed session", deadlineMs: LONG_MS });
    await terminal.enter("/quit");
    await terminal.see("EXIT=0");
    await until(() => readFileSync(log, "utf8").split("closed ").length === readFileSync(log, "utf8").split("start ").length, { what: "the end of every controller" });
  });
});
