/* Generated from spec/messages.json by spec/gen/generate.ts. Do not edit. */
/* clang-format off */

#include "protocol/messages.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct shp_field herdr_call_params[] = {
    {"socket", SHP_FIELD_STRING, true, 0, 512, NULL},
    {"session", SHP_FIELD_STRING, true, 0, 64, NULL},
};

static const struct shp_field roster_get_params[] = {
    {"socket", SHP_FIELD_STRING, true, 0, 512, NULL},
    {"session", SHP_FIELD_STRING, true, 0, 64, NULL},
};

static const struct shp_field roster_get_result[] = {
    {"agents", SHP_FIELD_INT, false, 0, 1000000, NULL},
};

static const struct shp_field transcript_latest_params[] = {
    {"path", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"leaf", SHP_FIELD_STRING, true, 0, 64, NULL},
};

static const struct shp_field transcript_latest_result[] = {
    {"found", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"entry_id", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"stop_reason", SHP_FIELD_STRING, true, 0, 32, NULL},
    {"error_message", SHP_FIELD_STRING, true, 0, 2048, NULL},
    {"truncated", SHP_FIELD_BOOL, true, 0, 0, NULL},
    {"bad_lines", SHP_FIELD_INT, false, 0, 2000000000, NULL},
    {"torn", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"size", SHP_FIELD_INT, false, 0, 9007199254740991, NULL},
};

static const struct shp_field directory_resolve_params[] = {
    {"path", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"base", SHP_FIELD_STRING, true, 0, 4096, NULL},
};

static const struct shp_field directory_resolve_result[] = {
    {"path", SHP_FIELD_STRING, false, 0, 4096, NULL},
};

static const struct shp_field identity_get_result[] = {
    {"hostname", SHP_FIELD_STRING, false, 0, 256, NULL},
    {"host", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"uid", SHP_FIELD_INT, false, 0, 4294967295, NULL},
    {"home", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"pid", SHP_FIELD_INT, false, 1, 4294967295, NULL},
    {"system", SHP_FIELD_STRING, false, 0, 128, NULL},
};

static const struct shp_field receivers_list_result[] = {
    {"receivers", SHP_FIELD_INT, false, 0, 100000, NULL},
};

static const struct shp_field receiver_wait_params[] = {
    {"terminal_id", SHP_FIELD_STRING, false, 0, 128, NULL},
};

static const struct shp_field receiver_wait_result[] = {
    {"pi_session_id", SHP_FIELD_STRING, false, 0, 128, NULL},
    {"session_file", SHP_FIELD_STRING, true, 0, 4096, NULL},
    {"protocol_min", SHP_FIELD_INT, false, 0, 65535, NULL},
    {"protocol_max", SHP_FIELD_INT, false, 0, 65535, NULL},
};

static const struct shp_field receiver_open_params[] = {
    {"pi_session_id", SHP_FIELD_STRING, false, 0, 128, NULL},
};

static const struct shp_field receiver_close_params[] = {
    {"pi_session_id", SHP_FIELD_STRING, false, 0, 128, NULL},
};

static const char *const values_0[] = {"extension", "prompt", NULL};

static const struct shp_field file_put_params[] = {
    {"kind", SHP_FIELD_ENUM, false, 0, 0, values_0},
    {"digest", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"size", SHP_FIELD_INT, false, 0, 8388608, NULL},
    {"probe", SHP_FIELD_BOOL, true, 0, 0, NULL},
};

static const struct shp_field file_put_result[] = {
    {"path", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"present", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"written", SHP_FIELD_BOOL, false, 0, 0, NULL},
};

static const struct shp_field machine_facts_params[] = {
    {"agent_dir", SHP_FIELD_STRING, true, 0, 4096, NULL},
};

static const char *const values_1[] = {"events", "polling", NULL};

static const struct shp_field machine_facts_result[] = {
    {"home", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"home_exists", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"home_owned", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"home_writable", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"read_only", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"noexec", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"disk_free_bytes", SHP_FIELD_INT, false, 0, 9007199254740991, NULL},
    {"disk_free_inodes", SHP_FIELD_INT, true, 0, 9007199254740991, NULL},
    {"system", SHP_FIELD_STRING, false, 0, 128, NULL},
    {"host", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"build", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"version", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"helper", SHP_FIELD_STRING, true, 0, 4096, NULL},
    {"helper_bytes", SHP_FIELD_INT, true, 0, 9007199254740991, NULL},
    {"stale", SHP_FIELD_INT, false, 0, 100000, NULL},
    {"unix_ms", SHP_FIELD_INT, false, 0, 9007199254740991, NULL},
    {"herdr", SHP_FIELD_STRING, true, 0, 4096, NULL},
    {"pi", SHP_FIELD_STRING, true, 0, 4096, NULL},
    {"pi_version", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"extension_installed", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"extension_pushed", SHP_FIELD_INT, false, 0, 100000, NULL},
    {"integration", SHP_FIELD_INT, true, 0, 1000000, NULL},
    {"sessions_dir", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"sessions_readable", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"sessions", SHP_FIELD_INT, false, 0, 1000000, NULL},
    {"watch", SHP_FIELD_ENUM, false, 0, 0, values_1},
    {"calls_per_minute", SHP_FIELD_INT, false, 0, 100000, NULL},
};

static const char *const values_2[] = {"bind", "deliver", "delivery_status", "settlement", "session_state", "machines", NULL};

static const struct shp_field session_request_params[] = {
    {"to", SHP_FIELD_STRING, true, 0, 128, NULL},
    {"terminal_id", SHP_FIELD_STRING, true, 0, 128, NULL},
    {"service", SHP_FIELD_ENUM, false, 0, 0, values_2},
    {"from", SHP_FIELD_OBJECT, false, 0, 0, NULL},
    {"payload", SHP_FIELD_OBJECT, false, 0, 0, NULL},
};

static const struct shp_field session_request_result[] = {
    {"answer", SHP_FIELD_OBJECT, false, 0, 0, NULL},
};

static const char *const values_3[] = {"delivered", "settled", "started", "lost", "closing", NULL};

static const struct shp_field session_event_params[] = {
    {"pi_session_id", SHP_FIELD_STRING, false, 0, 128, NULL},
    {"event", SHP_FIELD_ENUM, false, 0, 0, values_3},
    {"inputs", SHP_FIELD_ARRAY, true, 0, 64, NULL},
    {"entry_id", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"leaf", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"aborted", SHP_FIELD_BOOL, true, 0, 0, NULL},
    {"reason", SHP_FIELD_STRING, true, 0, 512, NULL},
};

static const char *const values_4[] = {"tui", "rpc", "json", "print", NULL};

static const struct shp_field session_open_params[] = {
    {"pi_session_id", SHP_FIELD_STRING, false, 0, 128, NULL},
    {"pi_session_file", SHP_FIELD_STRING, true, 0, 4096, NULL},
    {"header", SHP_FIELD_STRING, true, 0, 256, NULL},
    {"agent_dir", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"home", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"cwd", SHP_FIELD_STRING, false, 0, 4096, NULL},
    {"mode", SHP_FIELD_ENUM, false, 0, 0, values_4},
    {"session_name", SHP_FIELD_STRING, true, 0, 256, NULL},
    {"herdr_socket", SHP_FIELD_STRING, true, 0, 512, NULL},
    {"herdr_bin", SHP_FIELD_STRING, true, 0, 4096, NULL},
    {"herdr_pane", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"herdr_workspace", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"herdr_session", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"ssh_auth_sock", SHP_FIELD_STRING, true, 0, 512, NULL},
    {"eager", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"orchestration", SHP_FIELD_BOOL, true, 0, 0, NULL},
};

static const struct shp_field session_open_result[] = {
    {"installation", SHP_FIELD_STRING, false, 0, 32, NULL},
    {"version", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"open_tasks", SHP_FIELD_INT, false, 0, 100000, NULL},
    {"durable", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"notices", SHP_FIELD_ARRAY, true, 0, 16, NULL},
};

static const struct shp_field agents_call_params[] = {
    {"operation", SHP_FIELD_STRING, false, 0, 32, NULL},
    {"has_message", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"call", SHP_FIELD_OBJECT, false, 0, 0, NULL},
};

static const struct shp_field agents_call_result[] = {
    {"value", SHP_FIELD_OBJECT, false, 0, 0, NULL},
    {"bulk_field", SHP_FIELD_STRING, true, 0, 32, NULL},
    {"warning", SHP_FIELD_STRING, true, 0, 2048, NULL},
};

static const struct shp_field agents_progress_params[] = {
    {"operation", SHP_FIELD_STRING, false, 0, 32, NULL},
    {"value", SHP_FIELD_OBJECT, false, 0, 0, NULL},
};

static const struct shp_field report_push_params[] = {
    {"report", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"details", SHP_FIELD_OBJECT, false, 0, 0, NULL},
};

static const struct shp_field report_push_result[] = {
    {"accepted", SHP_FIELD_BOOL, false, 0, 0, NULL},
};

static const char *const values_5[] = {"confirmed", "provisional", "absent", NULL};

static const struct shp_field ledger_mark_params[] = {
    {"reports", SHP_FIELD_ARRAY, false, 0, 64, NULL},
    {"state", SHP_FIELD_ENUM, false, 0, 0, values_5},
};

static const struct shp_field machines_get_params[] = {
    {"reconnect", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"refresh", SHP_FIELD_BOOL, true, 0, 0, NULL},
};

static const struct shp_field machines_get_result[] = {
    {"machines", SHP_FIELD_INT, false, 0, 100000, NULL},
};

static const struct shp_field bind_payload[] = {
    {"agent", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"capability", SHP_FIELD_STRING, false, 0, 64, NULL},
    {"name", SHP_FIELD_STRING, true, 0, 64, NULL},
};

static const struct shp_field bind_answer[] = {
    {"pi_session_id", SHP_FIELD_STRING, false, 0, 128, NULL},
    {"session_file", SHP_FIELD_STRING, true, 0, 4096, NULL},
    {"rebound", SHP_FIELD_BOOL, false, 0, 0, NULL},
};

static const char *const values_6[] = {"message", "task", NULL};

static const struct shp_field deliver_payload[] = {
    {"kind", SHP_FIELD_ENUM, false, 0, 0, values_6},
    {"sender", SHP_FIELD_OBJECT, false, 0, 0, NULL},
};

static const struct shp_field deliver_answer[] = {
    {"accepted", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"provisional", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"duplicate", SHP_FIELD_BOOL, false, 0, 0, NULL},
};

static const struct shp_field delivery_status_payload[] = {
    {"id", SHP_FIELD_STRING, false, 0, 32, NULL},
};

static const char *const values_7[] = {"accepted", "delivered", "unknown", NULL};

static const struct shp_field delivery_status_answer[] = {
    {"state", SHP_FIELD_ENUM, false, 0, 0, values_7},
};

static const struct shp_field settlement_payload[] = {
    {"input", SHP_FIELD_STRING, false, 0, 32, NULL},
};

static const char *const values_8[] = {"pending", "running", "settled", "unknown", NULL};

static const struct shp_field settlement_answer[] = {
    {"state", SHP_FIELD_ENUM, false, 0, 0, values_8},
    {"entry_id", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"stop_reason", SHP_FIELD_STRING, true, 0, 32, NULL},
    {"error_message", SHP_FIELD_STRING, true, 0, 2048, NULL},
    {"aborted", SHP_FIELD_BOOL, true, 0, 0, NULL},
    {"leaf", SHP_FIELD_STRING, true, 0, 64, NULL},
};

static const struct shp_field session_state_answer[] = {
    {"idle", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"compacting", SHP_FIELD_BOOL, false, 0, 0, NULL},
    {"leaf", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"session_file", SHP_FIELD_STRING, true, 0, 4096, NULL},
};

static const struct shp_field machines_payload[] = {
    {"reconnect", SHP_FIELD_STRING, true, 0, 64, NULL},
    {"refresh", SHP_FIELD_BOOL, true, 0, 0, NULL},
};

static const struct shp_field machines_answer[] = {
    {"controller", SHP_FIELD_BOOL, false, 0, 0, NULL},
};

/* Ascending by id. */
static const struct shp_message_info messages[] = {
    {SHP_MSG_HERDR_CALL, "herdr_call", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_BOTH, {herdr_call_params, 2}, {NULL, 0}},
    {SHP_MSG_ROSTER_GET, "roster_get", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_OUT, {roster_get_params, 2}, {roster_get_result, 1}},
    {SHP_MSG_TRANSCRIPT_LATEST, "transcript_latest", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_OUT, {transcript_latest_params, 2}, {transcript_latest_result, 8}},
    {SHP_MSG_DIRECTORY_RESOLVE, "directory_resolve", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_NONE, {directory_resolve_params, 2}, {directory_resolve_result, 1}},
    {SHP_MSG_IDENTITY_GET, "identity_get", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_NONE, {NULL, 0}, {identity_get_result, 6}},
    {SHP_MSG_RECEIVERS_LIST, "receivers_list", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_OUT, {NULL, 0}, {receivers_list_result, 1}},
    {SHP_MSG_RECEIVER_WAIT, "receiver_wait", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_NONE, {receiver_wait_params, 1}, {receiver_wait_result, 4}},
    {SHP_MSG_RECEIVER_OPEN, "receiver_open", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_NONE, {receiver_open_params, 1}, {NULL, 0}},
    {SHP_MSG_RECEIVER_CLOSE, "receiver_close", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_NONE, {receiver_close_params, 1}, {NULL, 0}},
    {SHP_MSG_FILE_PUT, "file_put", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_IN, {file_put_params, 4}, {file_put_result, 3}},
    {SHP_MSG_MACHINE_FACTS, "machine_facts", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_NONE, {machine_facts_params, 1}, {machine_facts_result, 27}},
    {SHP_MSG_LINK_ECHO, "link_echo", SHP_KIND_REQUEST, SHP_LINK_HELPER, SHP_FROM_CONTROLLER, SHP_BULK_BOTH, {NULL, 0}, {NULL, 0}},
    {SHP_MSG_SESSION_REQUEST, "session_request", SHP_KIND_REQUEST, SHP_LINK_HELPER | SHP_LINK_RECEIVER, SHP_FROM_ANY, SHP_BULK_BOTH, {session_request_params, 5}, {session_request_result, 1}},
    {SHP_MSG_SESSION_EVENT, "session_event", SHP_KIND_NOTIFICATION, SHP_LINK_HELPER | SHP_LINK_RECEIVER, SHP_FROM_ANY, SHP_BULK_NONE, {session_event_params, 7}, {NULL, 0}},
    {SHP_MSG_SESSION_OPEN, "session_open", SHP_KIND_REQUEST, SHP_LINK_STDIO, SHP_FROM_PI_EXT, SHP_BULK_NONE, {session_open_params, 16}, {session_open_result, 5}},
    {SHP_MSG_AGENTS_CALL, "agents_call", SHP_KIND_REQUEST, SHP_LINK_STDIO, SHP_FROM_PI_EXT, SHP_BULK_BOTH, {agents_call_params, 3}, {agents_call_result, 3}},
    {SHP_MSG_AGENTS_PROGRESS, "agents_progress", SHP_KIND_NOTIFICATION, SHP_LINK_STDIO, SHP_FROM_CONTROLLER, SHP_BULK_NONE, {agents_progress_params, 2}, {NULL, 0}},
    {SHP_MSG_REPORT_PUSH, "report_push", SHP_KIND_REQUEST, SHP_LINK_STDIO, SHP_FROM_CONTROLLER, SHP_BULK_IN, {report_push_params, 2}, {report_push_result, 1}},
    {SHP_MSG_LEDGER_MARK, "ledger_mark", SHP_KIND_REQUEST, SHP_LINK_STDIO, SHP_FROM_PI_EXT, SHP_BULK_NONE, {ledger_mark_params, 2}, {NULL, 0}},
    {SHP_MSG_MACHINES_GET, "machines_get", SHP_KIND_REQUEST, SHP_LINK_STDIO, SHP_FROM_PI_EXT, SHP_BULK_OUT, {machines_get_params, 2}, {machines_get_result, 1}},
};

static const struct shp_service_info services[SHP_SERVICE_COUNT] = {
    [SHP_SERVICE_BIND] = {"bind", {bind_payload, 3}, {bind_answer, 3}},
    [SHP_SERVICE_DELIVER] = {"deliver", {deliver_payload, 2}, {deliver_answer, 3}},
    [SHP_SERVICE_DELIVERY_STATUS] = {"delivery_status", {delivery_status_payload, 1}, {delivery_status_answer, 1}},
    [SHP_SERVICE_SETTLEMENT] = {"settlement", {settlement_payload, 1}, {settlement_answer, 6}},
    [SHP_SERVICE_SESSION_STATE] = {"session_state", {NULL, 0}, {session_state_answer, 4}},
    [SHP_SERVICE_MACHINES] = {"machines", {machines_payload, 2}, {machines_answer, 1}},
};

struct code_info {
    int code;
    enum shp_scope scope;
    const char *name;
    const char *doc;
    const char *next;
};

/* Ascending by code. */
static const struct code_info codes[] = {
    {1, SHP_SCOPE_SESSION, "protocol_error", "The peer broke the protocol.", "Reconnect; if it repeats, run shepherdr doctor and report it."},
    {2, SHP_SCOPE_SESSION, "auth_failed", "A frame or a token did not prove who sent it.", "Let the start-up files of that account leave nothing running that prints; it reconnects by itself."},
    {3, SHP_SCOPE_SESSION, "version_unsupported", "The peers share no protocol version.", "Update shepherdr on the older side and reload it."},
    {4, SHP_SCOPE_SESSION, "build_mismatch", "The helper is not the one that this controller brings.", "Reconnect, and the helper is sent again; where a key's forced command names the helper, put the file of this version there."},
    {5, SHP_SCOPE_REQUEST, "too_many_streams", "The side that opens has too many streams open.", "Wait for running calls to end and repeat."},
    {6, SHP_SCOPE_REQUEST, "unknown_message", "The peer does not know the message.", "Update the older side and reload it."},
    {7, SHP_SCOPE_REQUEST, "invalid_params", "A field is missing, unknown, of the wrong type or out of bounds.", "Correct the named field."},
    {8, SHP_SCOPE_REQUEST, "message_too_large", "A text or a bulk section is above its limit.", "Shorten it, or put it into a file and send the path."},
    {9, SHP_SCOPE_REQUEST, "timeout", "The deadline passed; the request may have acted.", "Look at the target before you repeat."},
    {10, SHP_SCOPE_REQUEST, "canceled", "The asking side gave up.", "Nothing; repeat when wanted."},
    {11, SHP_SCOPE_REQUEST, "internal_error", "Our own mistake.", "Report it with the output of shepherdr doctor."},
    {12, SHP_SCOPE_SESSION, "out_of_memory", "No memory.", "Free memory on the named machine."},
    {13, SHP_SCOPE_SESSION, "shutting_down", "The peer ends.", "Nothing; it reconnects by itself."},
    {14, SHP_SCOPE_SESSION, "credit_violation", "The peer sent more bulk than it had credit for.", "Report it with the output of shepherdr doctor."},
    {15, SHP_SCOPE_SESSION, "silence", "The peer sent no frame for too long.", "Nothing; it reconnects by itself."},
    {16, SHP_SCOPE_SESSION, "kex_unsupported", "The two sides share no key exchange, cipher or host key algorithm.", "Set transport openssh for this machine in pi-shepherdr.json, or allow one of the server's algorithms in the ssh configuration."},
    {17, SHP_SCOPE_SESSION, "key_locked", "A key needs its passphrase, and no agent holds it.", "Run ssh-add with the named key."},
    {18, SHP_SCOPE_SESSION, "interaction_required", "The login asks for what only a person can give.", "Run ssh to the target once in a terminal and follow what it says."},
    {19, SHP_SCOPE_SESSION, "login_slow", "The login did not end in time.", "Touch the key or unlock the agent if it waits for you; else restart the agent."},
    {20, SHP_SCOPE_SESSION, "link_lost", "The connection broke.", "Nothing; it reconnects by itself. Run shepherdr doctor if it stays."},
    {21, SHP_SCOPE_SESSION, "connect_failed", "SSH could not connect.", "Check that ssh to the target works in a terminal."},
    {22, SHP_SCOPE_SESSION, "host_key_unknown", "The host key is not known yet.", "Run ssh to the target once in a terminal and confirm the key."},
    {23, SHP_SCOPE_SESSION, "host_key_changed", "The host key differs from the known one.", "Find out why; only then correct known_hosts."},
    {24, SHP_SCOPE_SESSION, "login_denied", "The SSH server refused every key.", "Load the key with ssh-add, or install it on the machine."},
    {25, SHP_SCOPE_SESSION, "name_unresolved", "The host name has no address.", "Check the target's spelling and the network."},
    {26, SHP_SCOPE_SESSION, "ssh_missing", "No ssh program can be started.", "Install the OpenSSH client."},
    {27, SHP_SCOPE_SESSION, "shell_noise", "The login shell printed more than is skipped and never our marker.", "Make the shell's start-up files silent for noninteractive shells."},
    {28, SHP_SCOPE_SESSION, "shell_refused", "The login shell ended before our command ran.", "Look at the shown text: let neither a start-up file, the login shell nor a forced command (ForceCommand, command= of the key) keep this account from running commands."},
    {29, SHP_SCOPE_SESSION, "shell_slow", "Our command did not start in time.", "Look for a start-up file that waits or reads standard input."},
    {30, SHP_SCOPE_CALL, "target_invalid", "The SSH target is not acceptable (empty, control characters, or begins with a dash).", "Correct the machine in Herdr's catalog."},
    {31, SHP_SCOPE_SESSION, "install_failed", "The helper could not be written.", "Look at the shown text: permissions, or a path in the way."},
    {32, SHP_SCOPE_SESSION, "install_no_space", "No space for the helper.", "Free space or inodes in the home directory of the machine, or raise the account's quota or file-size limit."},
    {33, SHP_SCOPE_SESSION, "install_noexec", "Programs below the home directory may not be run.", "Allow programs below that home directory (mount option noexec), or name another directory for this machine under helperDir in pi-shepherdr.json."},
    {34, SHP_SCOPE_SESSION, "install_foreign_file", "Something that is not ours stands at the helper's path.", "Look at the named path and move it away."},
    {35, SHP_SCOPE_SESSION, "install_corrupt", "The uploaded helper does not have the digest that was sent.", "Reconnect; if it repeats, check the disk."},
    {36, SHP_SCOPE_SESSION, "arch_unsupported", "There is no helper for this system.", "Use a Linux x86_64 or aarch64 machine."},
    {37, SHP_SCOPE_CALL, "helper_missing", "This installation has no helper to send.", "Build or install shepherdr completely."},
    {38, SHP_SCOPE_SESSION, "shell_unsupported", "The login shell speaks another language than sh.", "Give the account a login shell that runs sh commands (chsh), or log in to another account."},
    {39, SHP_SCOPE_SESSION, "helper_absent", "The helper is not on the machine, and this look installs nothing.", "Nothing: the first connection from a pi session installs it. Or run shepherdr doctor --fix."},
    {40, SHP_SCOPE_REQUEST, "herdr_not_running", "Nothing listens on Herdr's socket.", "Start Herdr there: herdr server."},
    {41, SHP_SCOPE_REQUEST, "herdr_no_answer", "Herdr closed the connection without an answer; it may have acted.", "Look at the panes before you repeat."},
    {42, SHP_SCOPE_REQUEST, "herdr_error", "Herdr refused the call; its own code is in the cause.", "Correct what Herdr names."},
    {43, SHP_SCOPE_REQUEST, "herdr_too_old", "This Herdr is too old.", "Update Herdr to 0.9 or newer."},
    {44, SHP_SCOPE_CALL, "herdr_missing", "The herdr program cannot be run.", "Install Herdr and run Pi inside it."},
    {45, SHP_SCOPE_REQUEST, "herdr_invalid", "Herdr's answer is not what its API says.", "Update Herdr, and report it with the output of shepherdr doctor."},
    {46, SHP_SCOPE_CALL, "not_in_herdr", "This Pi session does not run in a Herdr pane.", "Start Pi inside Herdr."},
    {47, SHP_SCOPE_SESSION, "ssh_config_failed", "ssh could not resolve the target: a bad configuration, or a command in it that takes too long.", "Run ssh -G with the target in a terminal and correct what it names."},
    {48, SHP_SCOPE_SESSION, "connect_refused", "Nothing listens at the address.", "Start the SSH server there, or correct the port."},
    {49, SHP_SCOPE_SESSION, "connect_timeout", "The address does not answer.", "Check the network, the VPN and the firewall; wake the machine."},
    {50, SHP_SCOPE_CALL, "catalog_failed", "Herdr's machine list could not be read.", "Run: herdr machine list --json."},
    {51, SHP_SCOPE_CALL, "catalog_invalid", "Herdr's machine list has a bad entry.", "Correct or remove the named entry with herdr machine."},
    {52, SHP_SCOPE_CALL, "machine_unknown", "No machine has this id.", "Use an id that the list action returns."},
    {53, SHP_SCOPE_CALL, "machine_disabled", "The machine is disabled in Herdr's catalog.", "Run: herdr machine enable with its id."},
    {54, SHP_SCOPE_CALL, "machine_unavailable", "The machine has no live link.", "Run shepherdr doctor with its id."},
    {55, SHP_SCOPE_SESSION, "install_read_only", "The home directory is on a read-only file system.", "Mount it writable, or name another directory for this machine under helperDir in pi-shepherdr.json."},
    {56, SHP_SCOPE_SESSION, "home_missing", "The account has no home directory.", "Give the account a home directory that exists (HOME of a noninteractive login)."},
    {57, SHP_SCOPE_SESSION, "channel_refused", "The SSH server opened no channel for the command.", "Allow a session and a command for this account in the server's configuration."},
    {58, SHP_SCOPE_SESSION, "shell_limits", "The limits of the account keep its shell from starting a program.", "Raise the limit on processes, open files or memory of that account."},
    {59, SHP_SCOPE_SESSION, "helper_silent", "What was started as the helper did not prove in time that it is one.", "Reconnect; if it repeats, remove the helper on that machine (.pi/agent/shepherdr/bin below HOME, or the helperDir of pi-shepherdr.json)."},
    {60, SHP_SCOPE_CALL, "invalid_call", "The arguments are not a flat object with an action.", "Call agents with {} for the request shapes."},
    {61, SHP_SCOPE_CALL, "unknown_action", "No such action.", "Call agents with {} for the actions."},
    {62, SHP_SCOPE_CALL, "unknown_field", "The action has no such field.", "Call agents with {} for the fields."},
    {63, SHP_SCOPE_CALL, "missing_field", "A needed field is missing or blank.", "Give the named field."},
    {64, SHP_SCOPE_CALL, "unsupported_action", "The action is not available in this version.", "Call agents with {} for what is."},
    {65, SHP_SCOPE_CALL, "field_invalid", "A field has the wrong type or value.", "Call agents with {} for the request shapes."},
    {66, SHP_SCOPE_CALL, "agent_not_found", "No agent has this target.", "Use the exact target that list or spawn returned."},
    {67, SHP_SCOPE_CALL, "agent_not_pi", "The target is not a Pi agent.", "Choose a Pi agent from list."},
    {68, SHP_SCOPE_CALL, "agent_is_self", "The target is the calling session.", "Choose another agent."},
    {69, SHP_SCOPE_CALL, "agent_blocked", "The agent waits for a person.", "Answer its question first."},
    {70, SHP_SCOPE_CALL, "agent_changed", "The pane now holds another process or pi session.", "Call list and use the new target."},
    {71, SHP_SCOPE_CALL, "profile_unknown", "No profile has this name.", "Use an agent_type that help lists."},
    {72, SHP_SCOPE_CALL, "profile_invalid", "A profile file is malformed.", "Correct the named profile."},
    {73, SHP_SCOPE_CALL, "workspace_unknown", "No workspace, or several, match.", "Give a workspace id from list."},
    {74, SHP_SCOPE_CALL, "directory_missing", "The directory does not exist on the machine.", "Give an existing directory of that machine."},
    {75, SHP_SCOPE_CALL, "spawn_failed", "The agent did not start; what was made was closed again.", "Look at the cause, then repeat."},
    {76, SHP_SCOPE_CALL, "receiver_missing", "The agent's Pi has no live receiver.", "Reload or restart Pi there with the shepherdr extension."},
    {77, SHP_SCOPE_CALL, "receiver_outdated", "The agent's receiver is too old.", "Run /reload in that Pi session."},
    {78, SHP_SCOPE_CALL, "receiver_refused", "The receiver refused; the message was not seen.", "Look at the cause, then repeat."},
    {79, SHP_SCOPE_CALL, "receiver_busy", "The pi session is compacting or switching; the message was not seen.", "Repeat in a moment."},
    {80, SHP_SCOPE_CALL, "delivery_unknown", "The message may have been seen.", "Read the target before you repeat."},
    {81, SHP_SCOPE_CALL, "already_bound", "Another controller has bound this agent.", "Use send or watch, or spawn an own agent."},
    {82, SHP_SCOPE_CALL, "duplicate_conflict", "The id was used before with other bytes.", "Report it with the output of shepherdr doctor."},
    {83, SHP_SCOPE_CALL, "not_related", "The asking session has no relation that allows this.", "Ask the controlling session to do it."},
    {84, SHP_SCOPE_CALL, "transcript_missing", "The pi session has no file yet, or it is gone.", "Wait for the first reply, or read the terminal."},
    {85, SHP_SCOPE_CALL, "transcript_invalid", "The file is not a pi session.", "Look at the named file."},
    {86, SHP_SCOPE_CALL, "session_in_use", "Another process controls from the same pi session.", "Close the other process that the error names."},
    {87, SHP_SCOPE_CALL, "store_failed", "The durable state could not be read or written.", "Look at the cause: disk space, permissions, or a newer schema."},
    {88, SHP_SCOPE_CALL, "controller_missing", "The shepherdr program was not found or does not start.", "Install shepherdr, or set SHEPHERDR_BIN."},
    {89, SHP_SCOPE_CALL, "needs_pi_session", "Only a pi session can do this.", "Call it from Pi."},
    {90, SHP_SCOPE_REQUEST, "file_conflict", "A file of that name exists and is not ours or has other bytes.", "Look at the named path and move it away."},
    {91, SHP_SCOPE_CALL, "base_unsupported", "The profile does not accept base.", "Leave base out, or choose a profile that accepts it."},
    {92, SHP_SCOPE_REQUEST, "no_such_request", "Nothing is known of that id.", "Repeat the message."},
    {93, SHP_SCOPE_CALL, "operation_interrupted", "The controller ended while the call was under way; what it made is named.", "Call list and look before you repeat."},
    {94, SHP_SCOPE_CALL, "settings_invalid", "The settings file is malformed.", "Correct the named file; an example is in the README."},
    {95, SHP_SCOPE_CALL, "pi_missing", "No pi program is in the places where one is looked for.", "Install Pi on the machine, or ignore this when a login shell there finds it."},
    {96, SHP_SCOPE_CALL, "pi_too_old", "This Pi is too old.", "Update Pi there to 1.2.0 or newer."},
    {97, SHP_SCOPE_CALL, "integration_missing", "Herdr's Pi integration is not installed, so that Herdr guesses what Pi does.", "Run on the machine: herdr integration install pi."},
    {98, SHP_SCOPE_CALL, "sessions_unreadable", "The directory of pi sessions cannot be read.", "Correct owner and mode of the named directory."},
    {99, SHP_SCOPE_CALL, "clock_skew", "The machine's clock differs from ours.", "Set the clock, or switch time synchronisation on."},
    {100, SHP_SCOPE_CALL, "watch_polling", "The machine gives no file events, so files are looked at again and again.", "Raise fs.inotify.max_user_watches and max_user_instances there, or live with some delay."},
    {101, SHP_SCOPE_CALL, "link_slow", "The link carries little.", "Look at the network, the VPN and the load of both machines."},
    {102, SHP_SCOPE_CALL, "smoke_failed", "A command in a throw-away tab did not come back.", "Look at the cause, and at the shell that Herdr starts there."},
};

static const struct code_info no_code = {0, SHP_SCOPE_CALL, "none", "No error.", "Nothing."};
static const struct code_info unknown_code = {-1, SHP_SCOPE_CALL, "unknown_error", "An error that this version does not know.", "Update shepherdr on this side."};

_Static_assert(COUNT(messages) == 20, "messages");
_Static_assert(COUNT(codes) == 102, "codes");

const struct shp_message_info *shp_message_find(uint16_t id)
{
    size_t low = 0;
    size_t high = COUNT(messages);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (messages[middle].id == id)
            return &messages[middle];
        if (messages[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *shp_message_name(uint16_t id)
{
    const struct shp_message_info *info = shp_message_find(id);
    return info ? info->name : "unknown";
}

const struct shp_service_info *shp_service_get(int service)
{
    return service >= 0 && service < SHP_SERVICE_COUNT ? &services[service] : NULL;
}

int shp_service_from_name(const char *name)
{
    for (int i = 0; i < SHP_SERVICE_COUNT; i++)
        if (strcmp(services[i].name, name) == 0)
            return i;
    return -1;
}

static const struct code_info *find_code(int code)
{
    if (code == 0)
        return &no_code;
    for (size_t i = 0; i < COUNT(codes); i++)
        if (codes[i].code == code)
            return &codes[i];
    return &unknown_code;
}

const char *shp_code_name(int code)
{
    return find_code(code)->name;
}

const char *shp_code_doc(int code)
{
    return find_code(code)->doc;
}

const char *shp_code_next(int code)
{
    return find_code(code)->next;
}

enum shp_scope shp_code_scope(int code)
{
    return find_code(code)->scope;
}

int shp_code_from_name(const char *name)
{
    for (size_t i = 0; i < COUNT(codes); i++)
        if (strcmp(codes[i].name, name) == 0)
            return codes[i].code;
    return 0;
}
