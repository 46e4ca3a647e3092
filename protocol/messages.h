/* Generated from spec/messages.json by spec/gen/generate.ts. Do not edit. */
/* clang-format off */

/*
 * Names, numbers and bounds of the protocol as data. What they mean is in spec/protocol.md; the page
 * for reading is spec/messages.md. All tables are static and read-only.
 */
#ifndef SHP_PROTOCOL_MESSAGES_H
#define SHP_PROTOCOL_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_PROTOCOL_MAGIC "SHP1"
#define SHP_PROTOCOL_VERSION_MIN 1
#define SHP_PROTOCOL_VERSION_MAX 1

#define SHP_LIMIT_FRAME_BYTES_MAX 65535 /* bytes. Largest frame body on the wire after its length field (noise: ciphertext with tag). */
#define SHP_LIMIT_FRAME_PAYLOAD_BYTES_MAX 65511 /* bytes. Largest payload of a frame: 65535 less a 16-byte tag and the 8-byte frame header. */
#define SHP_LIMIT_HEAD_JSON_BYTES_MAX 61440 /* bytes. Largest JSON text in a HEAD frame. Longer text travels as bulk. */
#define SHP_LIMIT_JSON_DEPTH_MAX 16 /* levels. Deepest nesting that a HEAD's JSON may have. */
#define SHP_LIMIT_MESSAGE_BYTES_MAX 8388608 /* bytes. Sum of the bulk bytes of one half of a stream. */
#define SHP_LIMIT_STREAM_CREDIT_BYTES 262144 /* bytes. Bulk bytes that the receiver of a fresh stream half accepts before it gives more credit. */
#define SHP_LIMIT_STREAMS_OPEN_MAX 256 /* streams. Streams that one side may have open at a time. */
#define SHP_LIMIT_OUTPUT_BYTES_MAX 524288 /* bytes. Encoded bytes waiting for the transport above which no further bulk is encoded. */
#define SHP_LIMIT_CONTROL_RESERVE_BYTES 131072 /* bytes. Room above output_bytes_max that only HEAD and control frames may use. */
#define SHP_LIMIT_BULK_WINDOW_BYTES_START 32768 /* bytes. Bulk that one side of a link sends without acknowledgement at first, and again after bulk_base_age_ms without bulk. */
#define SHP_LIMIT_BULK_WINDOW_BYTES_MIN 16384 /* bytes. The bulk window never gets smaller. */
#define SHP_LIMIT_BULK_WINDOW_BYTES_MAX 4194304 /* bytes. The bulk window never gets larger. */
#define SHP_LIMIT_BULK_DELAY_MS 20 /* ms. A round trip above one and a half of its base and this halves the bulk window; below it grows. */
#define SHP_LIMIT_BULK_BASE_AGE_MS 10000 /* ms. A base of the round trip that was not seen for this long is measured anew on an empty line. */
#define SHP_LIMIT_HELLO_BYTES_MAX 4096 /* bytes. Largest hello JSON of either side. */
#define SHP_LIMIT_PREAMBLE_BYTES_MAX 8388608 /* bytes. Shell noise that is skipped before the marker; more is shell_noise. */
#define SHP_LIMIT_DIAGNOSTIC_BYTES_MAX 8192 /* bytes. Tail of shell noise or standard error that is kept for an error text. */
#define SHP_LIMIT_RECEIPTS_MAX 4096 /* ids. Message ids whose receipts a receiver remembers. */
#define SHP_LIMIT_RECEIVERS_MAX 64 /* connections. Connections that one receiver serves at a time. */
#define SHP_LIMIT_ERROR_TEXT_BYTES_MAX 1024 /* bytes. Longest cause text in an error. */
#define SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX 49152 /* bytes. Longest message to an agent (send, spawn). */
#define SHP_LIMIT_REPLY_VERBATIM_BYTES_MAX 51200 /* bytes. Longest reply that is pushed whole; longer ones are shown as head and tail. */
#define SHP_LIMIT_PING_INTERVAL_MS 15000 /* ms. Silence of our own side after which a ping is sent. */
#define SHP_LIMIT_SILENCE_MAX_MS 45000 /* ms. Silence of the peer after which the link is dead. */
#define SHP_LIMIT_HANDSHAKE_TIMEOUT_MS 10000 /* ms. From the ready line to the established session. */
#define SHP_LIMIT_SHELL_TIMEOUT_MS 30000 /* ms. From the opened channel to the marker. */
#define SHP_LIMIT_RECEIVER_READY_TIMEOUT_MS 30000 /* ms. From the start of Pi to its receiver. */
#define SHP_LIMIT_HERDR_CALL_TIMEOUT_MS 10000 /* ms. Default deadline of one Herdr call. */
#define SHP_LIMIT_REQUEST_TIMEOUT_MS_MAX 86400000 /* ms. Longest deadline that a request may carry. */

enum shp_frame_type {
    SHP_FRAME_HEAD = 1, /* Opens a half of a stream: fixed prefix and JSON. FIN: no bulk follows. */
    SHP_FRAME_BULK = 2, /* Raw bytes of the open half. FIN: the last of them. */
    SHP_FRAME_CREDIT = 3, /* u32 bytes that the sender of this frame accepts further on that stream. */
    SHP_FRAME_CANCEL = 4, /* u16 error code: the requester gives up, or the responder breaks its half off. */
    SHP_FRAME_PING = 5, /* 8 opaque bytes, answered at once by a pong with the same bytes. */
    SHP_FRAME_PONG = 6, /* The 8 bytes of the ping. */
    SHP_FRAME_CLOSE = 7, /* u16 error code (0: orderly), then a text; nothing follows. */
    SHP_FRAME_HELLO = 8, /* Suite plain only: the hello JSON of the sender, first frame in each direction. */
};

enum shp_kind {
    SHP_KIND_REQUEST = 1,
    SHP_KIND_RESPONSE = 2,
    SHP_KIND_ERROR = 3,
    SHP_KIND_NOTIFICATION = 4,
};

/* Error codes on the wire and in struct shp_error. 0 is no error. */
enum shp_code {
    SHP_CODE_NONE = 0,
    SHP_CODE_PROTOCOL_ERROR = 1, /* The peer broke the protocol. */
    SHP_CODE_AUTH_FAILED = 2, /* A frame or a token did not prove who sent it. */
    SHP_CODE_VERSION_UNSUPPORTED = 3, /* The peers share no protocol version. */
    SHP_CODE_BUILD_MISMATCH = 4, /* The helper is not the one that this controller brings. */
    SHP_CODE_TOO_MANY_STREAMS = 5, /* The side that opens has too many streams open. */
    SHP_CODE_UNKNOWN_MESSAGE = 6, /* The peer does not know the message. */
    SHP_CODE_INVALID_PARAMS = 7, /* A field is missing, unknown, of the wrong type or out of bounds. */
    SHP_CODE_MESSAGE_TOO_LARGE = 8, /* A text or a bulk section is above its limit. */
    SHP_CODE_TIMEOUT = 9, /* The deadline passed; the request may have acted. */
    SHP_CODE_CANCELED = 10, /* The asking side gave up. */
    SHP_CODE_INTERNAL_ERROR = 11, /* Our own mistake. */
    SHP_CODE_OUT_OF_MEMORY = 12, /* No memory. */
    SHP_CODE_SHUTTING_DOWN = 13, /* The peer ends. */
    SHP_CODE_CREDIT_VIOLATION = 14, /* The peer sent more bulk than it had credit for. */
    SHP_CODE_SILENCE = 15, /* The peer sent no frame for too long. */
    SHP_CODE_KEX_UNSUPPORTED = 16, /* The two sides share no key exchange, cipher or host key algorithm. */
    SHP_CODE_KEY_LOCKED = 17, /* A key needs its passphrase, and no agent holds it. */
    SHP_CODE_INTERACTION_REQUIRED = 18, /* The login asks for what only a person can give. */
    SHP_CODE_LOGIN_SLOW = 19, /* The login did not end in time. */
    SHP_CODE_LINK_LOST = 20, /* The connection broke. */
    SHP_CODE_CONNECT_FAILED = 21, /* SSH could not connect. */
    SHP_CODE_HOST_KEY_UNKNOWN = 22, /* The host key is not known yet. */
    SHP_CODE_HOST_KEY_CHANGED = 23, /* The host key differs from the known one. */
    SHP_CODE_LOGIN_DENIED = 24, /* The SSH server refused every key. */
    SHP_CODE_NAME_UNRESOLVED = 25, /* The host name has no address. */
    SHP_CODE_SSH_MISSING = 26, /* No ssh program can be started. */
    SHP_CODE_SHELL_NOISE = 27, /* The login shell printed more than is skipped and never our marker. */
    SHP_CODE_SHELL_REFUSED = 28, /* The login shell ended before our command ran. */
    SHP_CODE_SHELL_SLOW = 29, /* Our command did not start in time. */
    SHP_CODE_TARGET_INVALID = 30, /* The SSH target is not acceptable (empty, control characters, or begins with a dash). */
    SHP_CODE_INSTALL_FAILED = 31, /* The helper could not be written. */
    SHP_CODE_INSTALL_NO_SPACE = 32, /* No space for the helper. */
    SHP_CODE_INSTALL_NOEXEC = 33, /* Programs below the home directory may not be run. */
    SHP_CODE_INSTALL_FOREIGN_FILE = 34, /* Something that is not ours stands at the helper's path. */
    SHP_CODE_INSTALL_CORRUPT = 35, /* The uploaded helper does not have the digest that was sent. */
    SHP_CODE_ARCH_UNSUPPORTED = 36, /* There is no helper for this system. */
    SHP_CODE_HELPER_MISSING = 37, /* This installation has no helper to send. */
    SHP_CODE_SHELL_UNSUPPORTED = 38, /* The login shell speaks another language than sh. */
    SHP_CODE_HELPER_ABSENT = 39, /* The helper is not on the machine, and this look installs nothing. */
    SHP_CODE_HERDR_NOT_RUNNING = 40, /* Nothing listens on Herdr's socket. */
    SHP_CODE_HERDR_NO_ANSWER = 41, /* Herdr closed the connection without an answer; it may have acted. */
    SHP_CODE_HERDR_ERROR = 42, /* Herdr refused the call; its own code is in the cause. */
    SHP_CODE_HERDR_TOO_OLD = 43, /* This Herdr is too old. */
    SHP_CODE_HERDR_MISSING = 44, /* The herdr program cannot be run. */
    SHP_CODE_HERDR_INVALID = 45, /* Herdr's answer is not what its API says. */
    SHP_CODE_NOT_IN_HERDR = 46, /* This Pi session does not run in a Herdr pane. */
    SHP_CODE_SSH_CONFIG_FAILED = 47, /* ssh could not resolve the target: a bad configuration, or a command in it that takes too long. */
    SHP_CODE_CONNECT_REFUSED = 48, /* Nothing listens at the address. */
    SHP_CODE_CONNECT_TIMEOUT = 49, /* The address does not answer. */
    SHP_CODE_CATALOG_FAILED = 50, /* Herdr's machine list could not be read. */
    SHP_CODE_CATALOG_INVALID = 51, /* Herdr's machine list has a bad entry. */
    SHP_CODE_MACHINE_UNKNOWN = 52, /* No machine has this id. */
    SHP_CODE_MACHINE_DISABLED = 53, /* The machine is disabled in Herdr's catalog. */
    SHP_CODE_MACHINE_UNAVAILABLE = 54, /* The machine has no live link. */
    SHP_CODE_INSTALL_READ_ONLY = 55, /* The home directory is on a read-only file system. */
    SHP_CODE_HOME_MISSING = 56, /* The account has no home directory. */
    SHP_CODE_CHANNEL_REFUSED = 57, /* The SSH server opened no channel for the command. */
    SHP_CODE_SHELL_LIMITS = 58, /* The limits of the account keep its shell from starting a program. */
    SHP_CODE_HELPER_SILENT = 59, /* What was started as the helper did not prove in time that it is one. */
    SHP_CODE_INVALID_CALL = 60, /* The arguments are not a flat object with an action. */
    SHP_CODE_UNKNOWN_ACTION = 61, /* No such action. */
    SHP_CODE_UNKNOWN_FIELD = 62, /* The action has no such field. */
    SHP_CODE_MISSING_FIELD = 63, /* A needed field is missing or blank. */
    SHP_CODE_UNSUPPORTED_ACTION = 64, /* The action is not available in this version. */
    SHP_CODE_FIELD_INVALID = 65, /* A field has the wrong type or value. */
    SHP_CODE_AGENT_NOT_FOUND = 66, /* No agent has this target. */
    SHP_CODE_AGENT_NOT_PI = 67, /* The target is not a Pi agent. */
    SHP_CODE_AGENT_IS_SELF = 68, /* The target is the calling session. */
    SHP_CODE_AGENT_BLOCKED = 69, /* The agent waits for a person. */
    SHP_CODE_AGENT_CHANGED = 70, /* The pane now holds another process or pi session. */
    SHP_CODE_PROFILE_UNKNOWN = 71, /* No profile has this name. */
    SHP_CODE_PROFILE_INVALID = 72, /* A profile file is malformed. */
    SHP_CODE_WORKSPACE_UNKNOWN = 73, /* No workspace, or several, match. */
    SHP_CODE_DIRECTORY_MISSING = 74, /* The directory does not exist on the machine. */
    SHP_CODE_SPAWN_FAILED = 75, /* The agent did not start; what was made was closed again. */
    SHP_CODE_RECEIVER_MISSING = 76, /* The agent's Pi has no live receiver. */
    SHP_CODE_RECEIVER_OUTDATED = 77, /* The agent's receiver is too old. */
    SHP_CODE_RECEIVER_REFUSED = 78, /* The receiver refused; the message was not seen. */
    SHP_CODE_RECEIVER_BUSY = 79, /* The pi session is compacting or switching; the message was not seen. */
    SHP_CODE_DELIVERY_UNKNOWN = 80, /* The message may have been seen. */
    SHP_CODE_ALREADY_BOUND = 81, /* Another controller has bound this agent. */
    SHP_CODE_DUPLICATE_CONFLICT = 82, /* The id was used before with other bytes. */
    SHP_CODE_NOT_RELATED = 83, /* The asking session has no relation that allows this. */
    SHP_CODE_TRANSCRIPT_MISSING = 84, /* The pi session has no file yet, or it is gone. */
    SHP_CODE_TRANSCRIPT_INVALID = 85, /* The file is not a pi session. */
    SHP_CODE_SESSION_IN_USE = 86, /* Another process controls from the same pi session. */
    SHP_CODE_STORE_FAILED = 87, /* The durable state could not be read or written. */
    SHP_CODE_CONTROLLER_MISSING = 88, /* The shepherdr program was not found or does not start. */
    SHP_CODE_NEEDS_PI_SESSION = 89, /* Only a pi session can do this. */
    SHP_CODE_FILE_CONFLICT = 90, /* A file of that name exists and is not ours or has other bytes. */
    SHP_CODE_BASE_UNSUPPORTED = 91, /* The profile does not accept base. */
    SHP_CODE_NO_SUCH_REQUEST = 92, /* Nothing is known of that id. */
    SHP_CODE_OPERATION_INTERRUPTED = 93, /* The controller ended while the call was under way; what it made is named. */
    SHP_CODE_SETTINGS_INVALID = 94, /* The settings file is malformed. */
    SHP_CODE_PI_MISSING = 95, /* No pi program is in the places where one is looked for. */
    SHP_CODE_PI_TOO_OLD = 96, /* This Pi is too old. */
    SHP_CODE_INTEGRATION_MISSING = 97, /* Herdr's Pi integration is not installed, so that Herdr guesses what Pi does. */
    SHP_CODE_SESSIONS_UNREADABLE = 98, /* The directory of pi sessions cannot be read. */
    SHP_CODE_CLOCK_SKEW = 99, /* The machine's clock differs from ours. */
    SHP_CODE_WATCH_POLLING = 100, /* The machine gives no file events, so files are looked at again and again. */
    SHP_CODE_LINK_SLOW = 101, /* The link carries little. */
    SHP_CODE_SMOKE_FAILED = 102, /* A command in a throw-away tab did not come back. */
};

/* How far an error reaches. */
enum shp_scope {
    SHP_SCOPE_SESSION,
    SHP_SCOPE_REQUEST,
    SHP_SCOPE_CALL,
};

/* Links as bits. */
enum shp_link_bit {
    SHP_LINK_HELPER = 1, /* noise: controller to helper */
    SHP_LINK_RECEIVER = 2, /* plain: helper to receiver */
    SHP_LINK_STDIO = 4, /* plain: pi_ext to controller */
};

/* Who may send a message. */
enum shp_from {
    SHP_FROM_ANY = 0,
    SHP_FROM_CONTROLLER = 1,
    SHP_FROM_HELPER = 2,
    SHP_FROM_RECEIVER = 3,
    SHP_FROM_PI_EXT = 4,
};

/* Which halves may carry bulk. */
enum shp_bulk {
    SHP_BULK_NONE = 0,
    SHP_BULK_IN = 1,
    SHP_BULK_OUT = 2,
    SHP_BULK_BOTH = 3,
};

enum shp_message {
    SHP_MSG_HERDR_CALL = 256, /* request */
    SHP_MSG_ROSTER_GET = 257, /* request */
    SHP_MSG_TRANSCRIPT_LATEST = 258, /* request */
    SHP_MSG_DIRECTORY_RESOLVE = 259, /* request */
    SHP_MSG_IDENTITY_GET = 260, /* request */
    SHP_MSG_RECEIVERS_LIST = 261, /* request */
    SHP_MSG_RECEIVER_WAIT = 262, /* request */
    SHP_MSG_RECEIVER_OPEN = 263, /* request */
    SHP_MSG_RECEIVER_CLOSE = 264, /* request */
    SHP_MSG_FILE_PUT = 265, /* request */
    SHP_MSG_MACHINE_FACTS = 266, /* request */
    SHP_MSG_LINK_ECHO = 267, /* request */
    SHP_MSG_SESSION_REQUEST = 272, /* request */
    SHP_MSG_SESSION_EVENT = 273, /* notification */
    SHP_MSG_SESSION_OPEN = 288, /* request */
    SHP_MSG_AGENTS_CALL = 289, /* request */
    SHP_MSG_AGENTS_PROGRESS = 290, /* notification */
    SHP_MSG_REPORT_PUSH = 291, /* request */
    SHP_MSG_LEDGER_MARK = 292, /* request */
    SHP_MSG_MACHINES_GET = 293, /* request */
};

/* Services of session_request. */
enum shp_service {
    SHP_SERVICE_BIND = 0, /* Make the pi session a worker of the asking one. Repeated after every reconnect and resume with a new capability. The answer names the session's state. */
    SHP_SERVICE_DELIVER = 1, /* Give the session a message. Bulk in: the text. Looked up by id first; recorded as shepherdr-inbox before the answer; injected after it. */
    SHP_SERVICE_DELIVERY_STATUS = 2, /* What became of a message id. */
    SHP_SERVICE_SETTLEMENT = 3, /* Did the work that this input began settle? Bulk out: text of the reply. */
    SHP_SERVICE_SESSION_STATE = 4, /* How the session is now. */
    SHP_SERVICE_MACHINES = 5, /* The machines that this session controls, for `shepherdr machines --session`. Bulk out: rows as in machines_get. It changes nothing in the session. */
};
#define SHP_SERVICE_COUNT 6

enum shp_field_type {
    SHP_FIELD_STRING, /* max: bytes of UTF-8 */
    SHP_FIELD_INT,    /* min, max: value */
    SHP_FIELD_BOOL,
    SHP_FIELD_ENUM,   /* values: NULL-terminated */
    SHP_FIELD_OBJECT,
    SHP_FIELD_ARRAY,  /* max: items */
};

struct shp_field {
    const char *name;
    enum shp_field_type type;
    bool optional;
    int64_t min;
    int64_t max;
    const char *const *values;
};

/* fields may be NULL when count is 0. */
struct shp_fields {
    const struct shp_field *fields;
    size_t count;
};

struct shp_message_info {
    uint16_t id;
    const char *name;
    enum shp_kind kind;
    unsigned links; /* enum shp_link_bit */
    enum shp_from from;
    enum shp_bulk bulk;
    struct shp_fields params;
    struct shp_fields result;
};

struct shp_service_info {
    const char *name;
    struct shp_fields payload;
    struct shp_fields answer;
};

/* NULL: no message has this id. */
const struct shp_message_info *shp_message_find(uint16_t id);

/* "unknown" when there is none. */
const char *shp_message_name(uint16_t id);

/* NULL: no such service. */
const struct shp_service_info *shp_service_get(int service);

/* enum shp_service, or -1. */
int shp_service_from_name(const char *name);

/*
 * Name, sentence, next action and scope of an enum shp_code; never NULL. For a code that this build
 * does not know: "unknown_error", and a sentence that says so.
 */
const char *shp_code_name(int code);
const char *shp_code_doc(int code);
const char *shp_code_next(int code);
enum shp_scope shp_code_scope(int code);

/* 0: no code has this name. */
int shp_code_from_name(const char *name);

#endif
