// Generated from spec/messages.json by spec/gen/generate.ts. Do not edit.

export const PROTOCOL = {
  magic: "SHP1",
  versionMin: 1,
  versionMax: 1,
} as const;

export const LIMITS = {
  /** bytes. Largest frame body on the wire after its length field (noise: ciphertext with tag). */
  frameBytesMax: 65535,
  /** bytes. Largest payload of a frame: 65535 less a 16-byte tag and the 8-byte frame header. */
  framePayloadBytesMax: 65511,
  /** bytes. Largest JSON text in a HEAD frame. Longer text travels as bulk. */
  headJsonBytesMax: 61440,
  /** levels. Deepest nesting that a HEAD's JSON may have. */
  jsonDepthMax: 16,
  /** bytes. Sum of the bulk bytes of one half of a stream. */
  messageBytesMax: 8388608,
  /** bytes. Bulk bytes that the receiver of a fresh stream half accepts before it gives more credit. */
  streamCreditBytes: 262144,
  /** streams. Streams that one side may have open at a time. */
  streamsOpenMax: 256,
  /** bytes. Encoded bytes waiting for the transport above which no further bulk is encoded. */
  outputBytesMax: 524288,
  /** bytes. Room above output_bytes_max that only HEAD and control frames may use. */
  controlReserveBytes: 131072,
  /** bytes. Bulk that one side of a link sends without acknowledgement at first, and again after bulk_base_age_ms without bulk. */
  bulkWindowBytesStart: 32768,
  /** bytes. The bulk window never gets smaller. */
  bulkWindowBytesMin: 16384,
  /** bytes. The bulk window never gets larger. */
  bulkWindowBytesMax: 4194304,
  /** ms. A round trip above one and a half of its base and this halves the bulk window; below it grows. */
  bulkDelayMs: 20,
  /** ms. A base of the round trip that was not seen for this long is measured anew on an empty line. */
  bulkBaseAgeMs: 10000,
  /** bytes. Largest hello JSON of either side. */
  helloBytesMax: 4096,
  /** bytes. Shell noise that is skipped before the marker; more is shell_noise. */
  preambleBytesMax: 8388608,
  /** bytes. Tail of shell noise or standard error that is kept for an error text. */
  diagnosticBytesMax: 8192,
  /** ids. Message ids whose receipts a receiver remembers. */
  receiptsMax: 4096,
  /** connections. Connections that one receiver serves at a time. */
  receiversMax: 64,
  /** bytes. Longest cause text in an error. */
  errorTextBytesMax: 1024,
  /** bytes. Longest message to an agent (send, spawn). */
  messageTextBytesMax: 49152,
  /** bytes. Longest reply that is pushed whole; longer ones are shown as head and tail. */
  replyVerbatimBytesMax: 51200,
  /** ms. Silence of our own side after which a ping is sent. */
  pingIntervalMs: 15000,
  /** ms. Silence of the peer after which the link is dead. */
  silenceMaxMs: 45000,
  /** ms. From the ready line to the established session. */
  handshakeTimeoutMs: 10000,
  /** ms. From the opened channel to the marker. */
  shellTimeoutMs: 30000,
  /** ms. From the start of Pi to its receiver. */
  receiverReadyTimeoutMs: 30000,
  /** ms. Default deadline of one Herdr call. */
  herdrCallTimeoutMs: 10000,
  /** ms. Longest deadline that a request may carry. */
  requestTimeoutMsMax: 86400000,
} as const;

export const FRAME = {
  /** Opens a half of a stream: fixed prefix and JSON. FIN: no bulk follows. */
  head: 1,
  /** Raw bytes of the open half. FIN: the last of them. */
  bulk: 2,
  /** u32 bytes that the sender of this frame accepts further on that stream. */
  credit: 3,
  /** u16 error code: the requester gives up, or the responder breaks its half off. */
  cancel: 4,
  /** 8 opaque bytes, answered at once by a pong with the same bytes. */
  ping: 5,
  /** The 8 bytes of the ping. */
  pong: 6,
  /** u16 error code (0: orderly), then a text; nothing follows. */
  close: 7,
  /** Suite plain only: the hello JSON of the sender, first frame in each direction. */
  hello: 8,
} as const;

export const KIND = {
  request: 1,
  response: 2,
  error: 3,
  notification: 4,
} as const;

/** Ids of the messages that pi-ext sends or receives. */
export const MESSAGE = {
  /** A session-to-session request. Its request id is the message's id and stays the same on every attempt and hop. controller -> helper: to names the session; helper -> receiver: the same without to, with host and installation in from written by the helper from its own hello. Towards the controller it is an inbound request, checked against the relation table. Bulk in: the text of the payload. Bulk out: the text of the answer. */
  sessionRequest: 272,
  /** A hint that something happened in a pi session; the truth is asked for with a request. The helper passes on what receivers of open connections say, and adds lost. */
  sessionEvent: 273,
  /** First message of pi-ext to its controller: the session's context. The controller reads none of it from its environment. */
  sessionOpen: 288,
  /** One call of the agents tool. Bulk in: the message field, when it is a string, instead of call.message. Bulk out: the field named by bulk_field of the result. */
  agentsCall: 289,
  /** What a running agents_call waits for. */
  agentsProgress: 290,
  /** Put a report into the conversation. Bulk in: the text for the model. Accepted means queued for Pi; the ledger tells the rest. */
  reportPush: 291,
  /** What became of pushed reports. confirmed: the id is in a session entry and the file exists. provisional: in an entry, no file yet. absent: the rule of the ledger says that Pi dropped it; it is pushed again. */
  ledgerMark: 292,
  /** The machines as this controller knows them now. Bulk out: the JSON array of rows that `shepherdr machines --json` prints. */
  machinesGet: 293,
} as const;

export type ErrorInfo = { code: number; scope: "session" | "request" | "call"; doc: string; next: string };

/** Error codes by name: the sentence and the next action. */
export const ERRORS = {
  protocol_error: { code: 1, scope: "session", doc: "The peer broke the protocol.", next: "Reconnect; if it repeats, run shepherdr doctor and report it." },
  auth_failed: { code: 2, scope: "session", doc: "A frame or a token did not prove who sent it.", next: "Let the start-up files of that account leave nothing running that prints; it reconnects by itself." },
  version_unsupported: { code: 3, scope: "session", doc: "The peers share no protocol version.", next: "Update shepherdr on the older side and reload it." },
  build_mismatch: { code: 4, scope: "session", doc: "The helper is not the one that this controller brings.", next: "Reconnect, and the helper is sent again; where a key's forced command names the helper, put the file of this version there." },
  too_many_streams: { code: 5, scope: "request", doc: "The side that opens has too many streams open.", next: "Wait for running calls to end and repeat." },
  unknown_message: { code: 6, scope: "request", doc: "The peer does not know the message.", next: "Update the older side and reload it." },
  invalid_params: { code: 7, scope: "request", doc: "A field is missing, unknown, of the wrong type or out of bounds.", next: "Correct the named field." },
  message_too_large: { code: 8, scope: "request", doc: "A text or a bulk section is above its limit.", next: "Shorten it, or put it into a file and send the path." },
  timeout: { code: 9, scope: "request", doc: "The deadline passed; the request may have acted.", next: "Look at the target before you repeat." },
  canceled: { code: 10, scope: "request", doc: "The asking side gave up.", next: "Nothing; repeat when wanted." },
  internal_error: { code: 11, scope: "request", doc: "Our own mistake.", next: "Report it with the output of shepherdr doctor." },
  out_of_memory: { code: 12, scope: "session", doc: "No memory.", next: "Free memory on the named machine." },
  shutting_down: { code: 13, scope: "session", doc: "The peer ends.", next: "Nothing; it reconnects by itself." },
  credit_violation: { code: 14, scope: "session", doc: "The peer sent more bulk than it had credit for.", next: "Report it with the output of shepherdr doctor." },
  silence: { code: 15, scope: "session", doc: "The peer sent no frame for too long.", next: "Nothing; it reconnects by itself." },
  kex_unsupported: { code: 16, scope: "session", doc: "The two sides share no key exchange, cipher or host key algorithm.", next: "Set transport openssh for this machine in pi-shepherdr.json, or allow one of the server's algorithms in the ssh configuration." },
  key_locked: { code: 17, scope: "session", doc: "A key needs its passphrase, and no agent holds it.", next: "Run ssh-add with the named key." },
  interaction_required: { code: 18, scope: "session", doc: "The login asks for what only a person can give.", next: "Run ssh to the target once in a terminal and follow what it says." },
  login_slow: { code: 19, scope: "session", doc: "The login did not end in time.", next: "Touch the key or unlock the agent if it waits for you; else restart the agent." },
  link_lost: { code: 20, scope: "session", doc: "The connection broke.", next: "Nothing; it reconnects by itself. Run shepherdr doctor if it stays." },
  connect_failed: { code: 21, scope: "session", doc: "SSH could not connect.", next: "Check that ssh to the target works in a terminal." },
  host_key_unknown: { code: 22, scope: "session", doc: "The host key is not known yet.", next: "Run ssh to the target once in a terminal and confirm the key." },
  host_key_changed: { code: 23, scope: "session", doc: "The host key differs from the known one.", next: "Find out why; only then correct known_hosts." },
  login_denied: { code: 24, scope: "session", doc: "The SSH server refused every key.", next: "Load the key with ssh-add, or install it on the machine." },
  name_unresolved: { code: 25, scope: "session", doc: "The host name has no address.", next: "Check the target's spelling and the network." },
  ssh_missing: { code: 26, scope: "session", doc: "No ssh program can be started.", next: "Install the OpenSSH client." },
  shell_noise: { code: 27, scope: "session", doc: "The login shell printed more than is skipped and never our marker.", next: "Make the shell's start-up files silent for noninteractive shells." },
  shell_refused: { code: 28, scope: "session", doc: "The login shell ended before our command ran.", next: "Look at the shown text: let neither a start-up file, the login shell nor a forced command (ForceCommand, command= of the key) keep this account from running commands." },
  shell_slow: { code: 29, scope: "session", doc: "Our command did not start in time.", next: "Look for a start-up file that waits or reads standard input." },
  target_invalid: { code: 30, scope: "call", doc: "The SSH target is not acceptable (empty, control characters, or begins with a dash).", next: "Correct the machine in Herdr's catalog." },
  install_failed: { code: 31, scope: "session", doc: "The helper could not be written.", next: "Look at the shown text: permissions, or a path in the way." },
  install_no_space: { code: 32, scope: "session", doc: "No space for the helper.", next: "Free space or inodes in the home directory of the machine, or raise the account's quota or file-size limit." },
  install_noexec: { code: 33, scope: "session", doc: "Programs below the home directory may not be run.", next: "Allow programs below that home directory (mount option noexec), or name another directory for this machine under helperDir in pi-shepherdr.json." },
  install_foreign_file: { code: 34, scope: "session", doc: "Something that is not ours stands at the helper's path.", next: "Look at the named path and move it away." },
  install_corrupt: { code: 35, scope: "session", doc: "The uploaded helper does not have the digest that was sent.", next: "Reconnect; if it repeats, check the disk." },
  arch_unsupported: { code: 36, scope: "session", doc: "There is no helper for this system.", next: "Use a Linux x86_64 or aarch64 machine." },
  helper_missing: { code: 37, scope: "call", doc: "This installation has no helper to send.", next: "Build or install shepherdr completely." },
  shell_unsupported: { code: 38, scope: "session", doc: "The login shell speaks another language than sh.", next: "Give the account a login shell that runs sh commands (chsh), or log in to another account." },
  helper_absent: { code: 39, scope: "session", doc: "The helper is not on the machine, and this look installs nothing.", next: "Nothing: the first connection from a pi session installs it. Or run shepherdr doctor --fix." },
  herdr_not_running: { code: 40, scope: "request", doc: "Nothing listens on Herdr's socket.", next: "Start Herdr there: herdr server." },
  herdr_no_answer: { code: 41, scope: "request", doc: "Herdr closed the connection without an answer; it may have acted.", next: "Look at the panes before you repeat." },
  herdr_error: { code: 42, scope: "request", doc: "Herdr refused the call; its own code is in the cause.", next: "Correct what Herdr names." },
  herdr_too_old: { code: 43, scope: "request", doc: "This Herdr is too old.", next: "Update Herdr to 0.9 or newer." },
  herdr_missing: { code: 44, scope: "call", doc: "The herdr program cannot be run.", next: "Install Herdr and run Pi inside it." },
  herdr_invalid: { code: 45, scope: "request", doc: "Herdr's answer is not what its API says.", next: "Update Herdr, and report it with the output of shepherdr doctor." },
  not_in_herdr: { code: 46, scope: "call", doc: "This Pi session does not run in a Herdr pane.", next: "Start Pi inside Herdr." },
  ssh_config_failed: { code: 47, scope: "session", doc: "ssh could not resolve the target: a bad configuration, or a command in it that takes too long.", next: "Run ssh -G with the target in a terminal and correct what it names." },
  connect_refused: { code: 48, scope: "session", doc: "Nothing listens at the address.", next: "Start the SSH server there, or correct the port." },
  connect_timeout: { code: 49, scope: "session", doc: "The address does not answer.", next: "Check the network, the VPN and the firewall; wake the machine." },
  catalog_failed: { code: 50, scope: "call", doc: "Herdr's machine list could not be read.", next: "Run: herdr machine list --json." },
  catalog_invalid: { code: 51, scope: "call", doc: "Herdr's machine list has a bad entry.", next: "Correct or remove the named entry with herdr machine." },
  machine_unknown: { code: 52, scope: "call", doc: "No machine has this id.", next: "Use an id that the list action returns." },
  machine_disabled: { code: 53, scope: "call", doc: "The machine is disabled in Herdr's catalog.", next: "Run: herdr machine enable with its id." },
  machine_unavailable: { code: 54, scope: "call", doc: "The machine has no live link.", next: "Run shepherdr doctor with its id." },
  install_read_only: { code: 55, scope: "session", doc: "The home directory is on a read-only file system.", next: "Mount it writable, or name another directory for this machine under helperDir in pi-shepherdr.json." },
  home_missing: { code: 56, scope: "session", doc: "The account has no home directory.", next: "Give the account a home directory that exists (HOME of a noninteractive login)." },
  channel_refused: { code: 57, scope: "session", doc: "The SSH server opened no channel for the command.", next: "Allow a session and a command for this account in the server's configuration." },
  shell_limits: { code: 58, scope: "session", doc: "The limits of the account keep its shell from starting a program.", next: "Raise the limit on processes, open files or memory of that account." },
  helper_silent: { code: 59, scope: "session", doc: "What was started as the helper did not prove in time that it is one.", next: "Reconnect; if it repeats, remove the helper on that machine (.pi/agent/shepherdr/bin below HOME, or the helperDir of pi-shepherdr.json)." },
  invalid_call: { code: 60, scope: "call", doc: "The arguments are not a flat object with an action.", next: "Call agents with {} for the request shapes." },
  unknown_action: { code: 61, scope: "call", doc: "No such action.", next: "Call agents with {} for the actions." },
  unknown_field: { code: 62, scope: "call", doc: "The action has no such field.", next: "Call agents with {} for the fields." },
  missing_field: { code: 63, scope: "call", doc: "A needed field is missing or blank.", next: "Give the named field." },
  unsupported_action: { code: 64, scope: "call", doc: "The action is not available in this version.", next: "Call agents with {} for what is." },
  field_invalid: { code: 65, scope: "call", doc: "A field has the wrong type or value.", next: "Call agents with {} for the request shapes." },
  agent_not_found: { code: 66, scope: "call", doc: "No agent has this target.", next: "Use the exact target that list or spawn returned." },
  agent_not_pi: { code: 67, scope: "call", doc: "The target is not a Pi agent.", next: "Choose a Pi agent from list." },
  agent_is_self: { code: 68, scope: "call", doc: "The target is the calling session.", next: "Choose another agent." },
  agent_blocked: { code: 69, scope: "call", doc: "The agent waits for a person.", next: "Answer its question first." },
  agent_changed: { code: 70, scope: "call", doc: "The pane now holds another process or pi session.", next: "Call list and use the new target." },
  profile_unknown: { code: 71, scope: "call", doc: "No profile has this name.", next: "Use an agent_type that help lists." },
  profile_invalid: { code: 72, scope: "call", doc: "A profile file is malformed.", next: "Correct the named profile." },
  workspace_unknown: { code: 73, scope: "call", doc: "No workspace, or several, match.", next: "Give a workspace id from list." },
  directory_missing: { code: 74, scope: "call", doc: "The directory does not exist on the machine.", next: "Give an existing directory of that machine." },
  spawn_failed: { code: 75, scope: "call", doc: "The agent did not start; what was made was closed again.", next: "Look at the cause, then repeat." },
  receiver_missing: { code: 76, scope: "call", doc: "The agent's Pi has no live receiver.", next: "Reload or restart Pi there with the shepherdr extension." },
  receiver_outdated: { code: 77, scope: "call", doc: "The agent's receiver is too old.", next: "Run /reload in that Pi session." },
  receiver_refused: { code: 78, scope: "call", doc: "The receiver refused; the message was not seen.", next: "Look at the cause, then repeat." },
  receiver_busy: { code: 79, scope: "call", doc: "The pi session is compacting or switching; the message was not seen.", next: "Repeat in a moment." },
  delivery_unknown: { code: 80, scope: "call", doc: "The message may have been seen.", next: "Read the target before you repeat." },
  already_bound: { code: 81, scope: "call", doc: "Another controller has bound this agent.", next: "Use send or watch, or spawn an own agent." },
  duplicate_conflict: { code: 82, scope: "call", doc: "The id was used before with other bytes.", next: "Report it with the output of shepherdr doctor." },
  not_related: { code: 83, scope: "call", doc: "The asking session has no relation that allows this.", next: "Ask the controlling session to do it." },
  transcript_missing: { code: 84, scope: "call", doc: "The pi session has no file yet, or it is gone.", next: "Wait for the first reply, or read the terminal." },
  transcript_invalid: { code: 85, scope: "call", doc: "The file is not a pi session.", next: "Look at the named file." },
  session_in_use: { code: 86, scope: "call", doc: "Another process controls from the same pi session.", next: "Close the other process that the error names." },
  store_failed: { code: 87, scope: "call", doc: "The durable state could not be read or written.", next: "Look at the cause: disk space, permissions, or a newer schema." },
  controller_missing: { code: 88, scope: "call", doc: "The shepherdr program was not found or does not start.", next: "Install shepherdr, or set SHEPHERDR_BIN." },
  needs_pi_session: { code: 89, scope: "call", doc: "Only a pi session can do this.", next: "Call it from Pi." },
  file_conflict: { code: 90, scope: "request", doc: "A file of that name exists and is not ours or has other bytes.", next: "Look at the named path and move it away." },
  base_unsupported: { code: 91, scope: "call", doc: "The profile does not accept base.", next: "Leave base out, or choose a profile that accepts it." },
  no_such_request: { code: 92, scope: "request", doc: "Nothing is known of that id.", next: "Repeat the message." },
  operation_interrupted: { code: 93, scope: "call", doc: "The controller ended while the call was under way; what it made is named.", next: "Call list and look before you repeat." },
  settings_invalid: { code: 94, scope: "call", doc: "The settings file is malformed.", next: "Correct the named file; an example is in the README." },
  pi_missing: { code: 95, scope: "call", doc: "No pi program is in the places where one is looked for.", next: "Install Pi on the machine, or ignore this when a login shell there finds it." },
  pi_too_old: { code: 96, scope: "call", doc: "This Pi is too old.", next: "Update Pi there to 1.2.0 or newer." },
  integration_missing: { code: 97, scope: "call", doc: "Herdr's Pi integration is not installed, so that Herdr guesses what Pi does.", next: "Run on the machine: herdr integration install pi." },
  sessions_unreadable: { code: 98, scope: "call", doc: "The directory of pi sessions cannot be read.", next: "Correct owner and mode of the named directory." },
  clock_skew: { code: 99, scope: "call", doc: "The machine's clock differs from ours.", next: "Set the clock, or switch time synchronisation on." },
  watch_polling: { code: 100, scope: "call", doc: "The machine gives no file events, so files are looked at again and again.", next: "Raise fs.inotify.max_user_watches and max_user_instances there, or live with some delay." },
  link_slow: { code: 101, scope: "call", doc: "The link carries little.", next: "Look at the network, the VPN and the load of both machines." },
  smoke_failed: { code: 102, scope: "call", doc: "A command in a throw-away tab did not come back.", next: "Look at the cause, and at the shell that Herdr starts there." },
} as const satisfies Record<string, ErrorInfo>;

export type ErrorName = keyof typeof ERRORS;

export type SessionRequestParams = {
  /** pi session id. */
  to?: string;
  /** When given it must be the receiver's terminal. */
  terminal_id?: string;
  /** One of services. */
  service: "bind" | "deliver" | "delivery_status" | "settlement" | "session_state" | "machines";
  /** {pi_session_id, installation, host, name?}: who asks. */
  from: Record<string, unknown>;
  /** Fields of the service. */
  payload: Record<string, unknown>;
};

export type SessionRequestResult = {
  /** Result fields of the service. */
  answer: Record<string, unknown>;
};

export type SessionEventParams = {
  /** The session. */
  pi_session_id: string;
  /** delivered: inputs are in the session file; settled: agent_settled; started: agent_start; lost: the connection broke; closing: session_shutdown. */
  event: "delivered" | "settled" | "started" | "lost" | "closing";
  /** Message ids (32 hex) that the event is about. */
  inputs?: unknown[];
  /** settled: newest assistant entry. */
  entry_id?: string;
  /** Leaf of the active branch. */
  leaf?: string;
  /** settled: the run was aborted. */
  aborted?: boolean;
  /** lost, closing: why. */
  reason?: string;
};

export type SessionOpenParams = {
  /** Pi's session id. */
  pi_session_id: string;
  /** Absolute path; absent with --no-session. */
  pi_session_file?: string;
  /** Header id and timestamp of the session, joined by a space. */
  header?: string;
  /** Pi's agent directory. */
  agent_dir: string;
  /** Home directory. */
  home: string;
  /** Working directory of Pi. */
  cwd: string;
  /** Pi's mode. */
  mode: "tui" | "rpc" | "json" | "print";
  /** Pi's session name. */
  session_name?: string;
  /** HERDR_SOCKET_PATH, in a Herdr pane only. */
  herdr_socket?: string;
  /** HERDR_BIN_PATH. */
  herdr_bin?: string;
  /** HERDR_PANE_ID. */
  herdr_pane?: string;
  /** HERDR_WORKSPACE_ID. */
  herdr_workspace?: string;
  /** HERDR_SESSION. */
  herdr_session?: string;
  /** SSH_AUTH_SOCK. */
  ssh_auth_sock?: string;
  /** Connect all enabled machines now. */
  eager: boolean;
  /** Orchestration mode is on. */
  orchestration?: boolean;
};

export type SessionOpenResult = {
  /** Id of this installation, 32 hex. */
  installation: string;
  /** Version of the controller. */
  version: string;
  /** Tasks that are still open in the store. */
  open_tasks: number;
  /** False: state lives in memory only. */
  durable: boolean;
  /** Texts to show once. */
  notices?: unknown[];
};

export type AgentsCallParams = {
  /** Operation id, 32 hex, made when execute was entered; the same on a repeat. */
  operation: string;
  /** The bulk is the message field. */
  has_message: boolean;
  /** The arguments as the model gave them. */
  call: Record<string, unknown>;
};

export type AgentsCallResult = {
  /** Result object of the action. */
  value: Record<string, unknown>;
  /** Field of value that the bulk carries; *: the bulk is the JSON of the whole value, and value is empty. */
  bulk_field?: string;
  /** Text beside the result. */
  warning?: string;
};

export type AgentsProgressParams = {
  /** Operation id. */
  operation: string;
  /** {machine, target?, name?, status}. */
  value: Record<string, unknown>;
};

export type ReportPushParams = {
  /** Id of the report, from stable facts. */
  report: string;
  /** {machine, machineLabel, paneId, state, name?, cwd?, workspace?, tab?, task?, evidence}. */
  details: Record<string, unknown>;
};

export type ReportPushResult = {
  /** False: it is in the session already. */
  accepted: boolean;
};

export type LedgerMarkParams = {
  /** Ids. */
  reports: unknown[];
  /** Their state. */
  state: "confirmed" | "provisional" | "absent";
};

export type LedgerMarkResult = Record<string, never>;

export type MachinesGetParams = {
  /** Id of a machine whose connection is made anew first. */
  reconnect?: string;
  /** Read Herdr's catalog again first. */
  refresh?: boolean;
};

export type MachinesGetResult = {
  /** Length of the array. */
  machines: number;
};

export type BindPayload = {
  /** Agent id of the parent. */
  agent: string;
  /** 64 hex, never stored by the receiver. */
  capability: string;
  /** Routing name. */
  name?: string;
};

export type BindAnswer = {
  /** The bound session. */
  pi_session_id: string;
  /** Its file. */
  session_file?: string;
  /** It was bound to the same parent before. */
  rebound: boolean;
};

export type DeliverPayload = {
  /** Peer message or delegated task. */
  kind: "message" | "task";
  /** Attribution: host, session, pane?, workspace?, tab?, name?, pane_name?, workspace_name?, tab_name?. */
  sender: Record<string, unknown>;
};

export type DeliverAnswer = {
  /** True. */
  accepted: boolean;
  /** No session file exists yet; the sender keeps the message until delivered. */
  provisional: boolean;
  /** The id was accepted before with the same bytes. */
  duplicate: boolean;
};

export type DeliveryStatusPayload = {
  /** Message id, 32 hex. */
  id: string;
};

export type DeliveryStatusAnswer = {
  /** unknown: never seen here. */
  state: "accepted" | "delivered" | "unknown";
};

export type SettlementPayload = {
  /** Message id of the task. */
  input: string;
};

export type SettlementAnswer = {
  /** pending: accepted, not in a run yet; unknown: never seen here. */
  state: "pending" | "running" | "settled" | "unknown";
  /** settled: the assistant entry. */
  entry_id?: string;
  /** settled: of the latest attempt. */
  stop_reason?: string;
  /** settled with an error. */
  error_message?: string;
  /** A person stopped the run. */
  aborted?: boolean;
  /** Leaf of the active branch. */
  leaf?: string;
};

export type SessionStatePayload = Record<string, never>;

export type SessionStateAnswer = {
  /** No run is active. */
  idle: boolean;
  /** Compaction is under way. */
  compacting: boolean;
  /** Leaf of the active branch. */
  leaf?: string;
  /** File of the session. */
  session_file?: string;
};

export type MachinesPayload = {
  /** As in machines_get. */
  reconnect?: string;
  /** As in machines_get. */
  refresh?: boolean;
};

export type MachinesAnswer = {
  /** False: no controller runs for this session, so it controls nothing. */
  controller: boolean;
};

export type ServiceName = "bind" | "deliver" | "delivery_status" | "settlement" | "session_state" | "machines";

export type FieldInfo = {
  type: "string" | "int" | "bool" | "enum" | "object" | "array";
  optional: boolean;
  /** int: value. */
  min?: number;
  /** string: bytes of UTF-8; int: value; array: items. */
  max?: number;
  values?: readonly string[];
};
export type FieldTable = Readonly<Record<string, FieldInfo>>;
export type MessageInfo = {
  id: number;
  name: string;
  kind: "request" | "notification";
  links: readonly string[];
  from: string;
  bulk: "none" | "in" | "out" | "both";
  params: FieldTable;
  result: FieldTable;
};

/** Messages by id, with the tables that params and results are checked against. */
export const MESSAGES: Readonly<Record<number, MessageInfo>> = {
  272: {
    id: 272,
    name: "session_request",
    kind: "request",
    links: ["helper","receiver"],
    from: "any",
    bulk: "both",
    params: {
      to: { type: "string", optional: true, max: 128 },
      terminal_id: { type: "string", optional: true, max: 128 },
      service: { type: "enum", optional: false, values: ["bind","deliver","delivery_status","settlement","session_state","machines"] },
      from: { type: "object", optional: false },
      payload: { type: "object", optional: false },
    },
    result: {
      answer: { type: "object", optional: false },
    },
  },
  273: {
    id: 273,
    name: "session_event",
    kind: "notification",
    links: ["helper","receiver"],
    from: "any",
    bulk: "none",
    params: {
      pi_session_id: { type: "string", optional: false, max: 128 },
      event: { type: "enum", optional: false, values: ["delivered","settled","started","lost","closing"] },
      inputs: { type: "array", optional: true, max: 64 },
      entry_id: { type: "string", optional: true, max: 64 },
      leaf: { type: "string", optional: true, max: 64 },
      aborted: { type: "bool", optional: true },
      reason: { type: "string", optional: true, max: 512 },
    },
    result: {},
  },
  288: {
    id: 288,
    name: "session_open",
    kind: "request",
    links: ["stdio"],
    from: "pi_ext",
    bulk: "none",
    params: {
      pi_session_id: { type: "string", optional: false, max: 128 },
      pi_session_file: { type: "string", optional: true, max: 4096 },
      header: { type: "string", optional: true, max: 256 },
      agent_dir: { type: "string", optional: false, max: 4096 },
      home: { type: "string", optional: false, max: 4096 },
      cwd: { type: "string", optional: false, max: 4096 },
      mode: { type: "enum", optional: false, values: ["tui","rpc","json","print"] },
      session_name: { type: "string", optional: true, max: 256 },
      herdr_socket: { type: "string", optional: true, max: 512 },
      herdr_bin: { type: "string", optional: true, max: 4096 },
      herdr_pane: { type: "string", optional: true, max: 64 },
      herdr_workspace: { type: "string", optional: true, max: 64 },
      herdr_session: { type: "string", optional: true, max: 64 },
      ssh_auth_sock: { type: "string", optional: true, max: 512 },
      eager: { type: "bool", optional: false },
      orchestration: { type: "bool", optional: true },
    },
    result: {
      installation: { type: "string", optional: false, max: 32 },
      version: { type: "string", optional: false, max: 64 },
      open_tasks: { type: "int", optional: false, min: 0, max: 100000 },
      durable: { type: "bool", optional: false },
      notices: { type: "array", optional: true, max: 16 },
    },
  },
  289: {
    id: 289,
    name: "agents_call",
    kind: "request",
    links: ["stdio"],
    from: "pi_ext",
    bulk: "both",
    params: {
      operation: { type: "string", optional: false, max: 32 },
      has_message: { type: "bool", optional: false },
      call: { type: "object", optional: false },
    },
    result: {
      value: { type: "object", optional: false },
      bulk_field: { type: "string", optional: true, max: 32 },
      warning: { type: "string", optional: true, max: 2048 },
    },
  },
  290: {
    id: 290,
    name: "agents_progress",
    kind: "notification",
    links: ["stdio"],
    from: "controller",
    bulk: "none",
    params: {
      operation: { type: "string", optional: false, max: 32 },
      value: { type: "object", optional: false },
    },
    result: {},
  },
  291: {
    id: 291,
    name: "report_push",
    kind: "request",
    links: ["stdio"],
    from: "controller",
    bulk: "in",
    params: {
      report: { type: "string", optional: false, max: 64 },
      details: { type: "object", optional: false },
    },
    result: {
      accepted: { type: "bool", optional: false },
    },
  },
  292: {
    id: 292,
    name: "ledger_mark",
    kind: "request",
    links: ["stdio"],
    from: "pi_ext",
    bulk: "none",
    params: {
      reports: { type: "array", optional: false, max: 64 },
      state: { type: "enum", optional: false, values: ["confirmed","provisional","absent"] },
    },
    result: {},
  },
  293: {
    id: 293,
    name: "machines_get",
    kind: "request",
    links: ["stdio"],
    from: "pi_ext",
    bulk: "out",
    params: {
      reconnect: { type: "string", optional: true, max: 64 },
      refresh: { type: "bool", optional: true },
    },
    result: {
      machines: { type: "int", optional: false, min: 0, max: 100000 },
    },
  },
};

/** Payload and answer of the services of session_request. */
export const SERVICES: Readonly<Record<ServiceName, { payload: FieldTable; answer: FieldTable }>> = {
  bind: {
    payload: {
      agent: { type: "string", optional: false, max: 64 },
      capability: { type: "string", optional: false, max: 64 },
      name: { type: "string", optional: true, max: 64 },
    },
    answer: {
      pi_session_id: { type: "string", optional: false, max: 128 },
      session_file: { type: "string", optional: true, max: 4096 },
      rebound: { type: "bool", optional: false },
    },
  },
  deliver: {
    payload: {
      kind: { type: "enum", optional: false, values: ["message","task"] },
      sender: { type: "object", optional: false },
    },
    answer: {
      accepted: { type: "bool", optional: false },
      provisional: { type: "bool", optional: false },
      duplicate: { type: "bool", optional: false },
    },
  },
  delivery_status: {
    payload: {
      id: { type: "string", optional: false, max: 32 },
    },
    answer: {
      state: { type: "enum", optional: false, values: ["accepted","delivered","unknown"] },
    },
  },
  settlement: {
    payload: {
      input: { type: "string", optional: false, max: 32 },
    },
    answer: {
      state: { type: "enum", optional: false, values: ["pending","running","settled","unknown"] },
      entry_id: { type: "string", optional: true, max: 64 },
      stop_reason: { type: "string", optional: true, max: 32 },
      error_message: { type: "string", optional: true, max: 2048 },
      aborted: { type: "bool", optional: true },
      leaf: { type: "string", optional: true, max: 64 },
    },
  },
  session_state: {
    payload: {},
    answer: {
      idle: { type: "bool", optional: false },
      compacting: { type: "bool", optional: false },
      leaf: { type: "string", optional: true, max: 64 },
      session_file: { type: "string", optional: true, max: 4096 },
    },
  },
  machines: {
    payload: {
      reconnect: { type: "string", optional: true, max: 64 },
      refresh: { type: "bool", optional: true },
    },
    answer: {
      controller: { type: "bool", optional: false },
    },
  },
};

const NAMES = new Map<number, ErrorName>(
  Object.entries(ERRORS).map(([name, info]) => [info.code, name as ErrorName]),
);

/** Name of an error code; undefined when this version does not know it. */
export function errorName(code: number): ErrorName | undefined {
  return NAMES.get(code);
}
