/** What a helper is to a receiver: connects by the descriptor and asks. */
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { Connection } from "../../src/connection.ts";
import type { Descriptor } from "../../src/descriptor.ts";
import { MESSAGE } from "../../src/generated/messages.ts";
import type { JsonObject } from "../../src/frames.ts";
import type { ShepherdrError } from "../../src/errors.ts";

export const INSTALLATION = "1".repeat(32);
export const PARENT = "parent-session";

export const newId = (): string => randomBytes(16).toString("hex");

export type Event = { event: string; inputs?: string[]; entry_id?: string; leaf?: string; aborted?: boolean; reason?: string };

export class HelperClient {
  readonly events: Event[] = [];
  hello: JsonObject | undefined;
  closed = false;
  closedWith: ShepherdrError | undefined;
  readonly #connection: Connection;

  private constructor(connection: Connection) {
    this.#connection = connection;
  }

  static open(descriptor: Pick<Descriptor, "socket" | "token">, hello: JsonObject = {}): Promise<HelperClient> {
    return new Promise((resolve, reject) => {
      const socket = connect(descriptor.socket);
      socket.on("error", reject);
      const connection: Connection = new Connection({
        input: socket,
        output: socket,
        role: "initiator",
        hello: {
          versions: [1, 1],
          role: "helper",
          installation: INSTALLATION,
          pi_session_id: PARENT,
          host: "test-host",
          token: descriptor.token,
          ...hello,
        },
        handlers: {
          established: (theirs) => {
            client.hello = theirs;
            socket.ref();
            resolve(client);
          },
          notification: (message, json) => {
            if (message === MESSAGE.sessionEvent) client.events.push(json as unknown as Event);
          },
          closed: (error) => {
            client.closed = true;
            client.closedWith = error;
            reject(error ?? new Error("closed"));
          },
        },
      });
      const client = new HelperClient(connection);
      socket.ref();
    });
  }

  async ask(
    service: string,
    payload: JsonObject,
    options: { id?: string; text?: string; from?: JsonObject; extra?: JsonObject } = {},
  ): Promise<{ answer: JsonObject; text: string }> {
    const { json, bulk } = await this.#connection.peer.request(
      MESSAGE.sessionRequest,
      {
        service,
        from: options.from ?? { pi_session_id: PARENT, installation: INSTALLATION, host: "test-host" },
        payload,
        ...options.extra,
      },
      { id: options.id ?? newId(), timeoutMs: 20_000, ...(options.text === undefined ? {} : { bulk: Buffer.from(options.text) }) },
    );
    return { answer: json["answer"] as JsonObject, text: bulk.toString("utf8") };
  }

  deliver(id: string, text: string, kind: "task" | "message" = "message", sender: JsonObject = { host: "laptop", pane: "p1" }): Promise<{ answer: JsonObject; text: string }> {
    return this.ask("deliver", { kind, sender }, { id, text });
  }

  close(): void {
    this.#connection.close();
  }
}
