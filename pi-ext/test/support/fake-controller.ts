/**
 * Stand-in for `shepherdr controller --stdio`: answers session_open and echoes agents_call.
 *
 * Its environment says how it behaves:
 *   SHP_FAKE_LOG        file to which it appends what it saw
 *   SHP_FAKE_DELAY_MS   pause before an answer
 *   SHP_FAKE_CRASH      file; while it exists, a call removes it and the process ends without an answer
 *   SHP_FAKE_BROKEN     end at once with this text on stderr
 *   SHP_FAKE_REFUSE     error code that session_open is refused with
 *   SHP_FAKE_REPORT     text that is pushed as report-1 after session_open, and again once it was confirmed
 */
import { appendFileSync, existsSync, rmSync } from "node:fs";
import { Connection } from "../../src/connection.ts";
import { ShepherdrError } from "../../src/errors.ts";
import { MESSAGE, type ErrorName } from "../../src/generated/messages.ts";
import { newId } from "../../src/controller.ts";

const env = process.env;
const log = (line: string): void => {
  const file = env["SHP_FAKE_LOG"];
  if (file !== undefined) appendFileSync(file, `${line}\n`);
};

const broken = env["SHP_FAKE_BROKEN"];
if (broken !== undefined) {
  log("broken");
  process.stderr.write(`${broken}\n`);
  process.exit(3);
}

log(`start ${process.argv.slice(2).join(" ")}`);
log(`foreign ${Object.keys(env).filter((name) => name.startsWith("HERDR_") || name.startsWith("PI_")).join(",")}`);

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function push(text: string): Promise<void> {
  const params = { report: "report-1", details: { machine: "local", name: "w1", state: "finished" } };
  const { json } = await connection.peer.request(MESSAGE.reportPush, params, { id: newId(), timeoutMs: 10_000, bulk: Buffer.from(text) });
  log(`again accepted=${String(json["accepted"])}`);
}

const connection: Connection = new Connection({
  input: process.stdin,
  output: process.stdout,
  role: "responder",
  handlers: {
    hello: () => ({ versions: [1, 1], role: "controller", build: "fake" }),
    request: (request) => {
      if (request.message === MESSAGE.sessionOpen) {
        log(`open ${JSON.stringify(request.json)}`);
        const refuse = env["SHP_FAKE_REFUSE"];
        if (refuse !== undefined) {
          request.fail(new ShepherdrError(refuse as ErrorName, { cause: "as the test asked" }));
          return;
        }
        request.respond({ installation: "2".repeat(32), version: "0.0.0", open_tasks: 0, durable: true });
        const report = env["SHP_FAKE_REPORT"];
        if (report !== undefined) setTimeout(() => void push(report), 300);
        return;
      }
      if (request.message === MESSAGE.ledgerMark) {
        const reports = request.json["reports"] as string[];
        for (const id of reports) log(`mark ${String(request.json["state"])} ${id}`);
        request.respond({});
        if (request.json["state"] === "confirmed" && env["SHP_FAKE_REPORT"] !== undefined) {
          const again = env["SHP_FAKE_REPORT"];
          delete env["SHP_FAKE_REPORT"];
          void push(again);
        }
        return;
      }
      if (request.message === MESSAGE.machinesGet) {
        if (request.json["reconnect"] === "nobody") request.fail(new ShepherdrError("machine_unknown", { machine: "nobody" }));
        else request.respond({ machines: 1 }, Buffer.from(JSON.stringify([{ id: "local", asked: request.json }])));
        return;
      }
      const operation = request.json["operation"] as string;
      const call = request.json["call"] as Record<string, unknown>;
      log(`call ${operation} ${JSON.stringify(call)} ${request.bulk.toString("utf8")}`);
      const crash = env["SHP_FAKE_CRASH"];
      if (crash !== undefined && existsSync(crash)) {
        rmSync(crash);
        process.exit(9);
      }
      if (call["action"] === "crash") process.exit(9);
      if (call["action"] === "find") {
        request.fail(new ShepherdrError("agent_not_found", { machine: "box", step: "route", cause: "no pane p9" }));
        return;
      }
      if (call["action"] === "send" && call["target"] === "cut") {
        request.fail(new ShepherdrError("link_lost", { machine: "box", step: "receive", outcome: "unknown" }));
        return;
      }
      connection.peer.notify(MESSAGE.agentsProgress, { operation, value: { machine: "local", status: "working" } });
      void pause(Number(env["SHP_FAKE_DELAY_MS"] ?? "0")).then(() => {
        log(request.canceled ? `canceled ${operation}` : `answer ${operation}`);
        const value = { echo: call, has_message: request.json["has_message"] };
        if (call["action"] === "read") request.respond({ value, bulk_field: "reply", warning: "old screen" }, Buffer.from("r".repeat(600_000)));
        else if (call["action"] === "watch") request.respond({ value: {}, bulk_field: "*" }, request.bulk);
        else request.respond({ value: { ...value, message: request.bulk.toString("utf8") } });
      });
    },
    closed: (error) => {
      log(`closed ${error?.code ?? "orderly"}`);
      process.exit(0);
    },
  },
});

process.stdin.ref();
