/*
 * What the end of ssh(1), or waiting for it in vain, means to a person: a code of
 * spec/messages.json and one clean sentence that names the key, the address, the URL and the
 * command to type. Pure, so that it can be tested and fuzzed. Private to transport/.
 */
#ifndef SHP_TRANSPORT_OPENSSH_CAUSE_H
#define SHP_TRANSPORT_OPENSSH_CAUSE_H

#include "base/error.h"
#include "transport/transport_openssh_log.h"

/* Of a long text the end tells most. */
#define SHP_OPENSSH_QUOTE_BYTES 600

struct shp_openssh_end {
    const struct shp_openssh_log *log; /* flushed; its facts are read */
    const char *target;
    const char *locked; /* a file of log->tried that needs a passphrase; NULL: none */
    int64_t exit_status;
    int term_signal;
    bool heard; /* at least one byte came from the remote side */
};

/* ssh ended by itself. Code 0: in order. */
void shp_openssh_explain_end(struct shp_error *error, const struct shp_openssh_end *end);

/* It was ended because the command did not get its channel in that many seconds. */
void shp_openssh_explain_wait(struct shp_error *error, const struct shp_openssh_end *end,
                              unsigned seconds);

/* `ssh -G` failed; timed_out: it was ended after that many seconds. */
void shp_openssh_explain_query(struct shp_error *error, const struct shp_openssh_end *end,
                               bool timed_out, unsigned seconds);

/*
 * Where a person is needed, the cause shall name the command that person types: appended when it is
 * not in it yet. For the transports that do not end here.
 */
void shp_openssh_add_command(struct shp_error *error, const char *target);

/*
 * Text on one line: terminal sequences are taken out, every run of space and control characters
 * becomes one space. Cut to size - 1 bytes on a UTF-8 boundary. Returns the length.
 */
size_t shp_openssh_plain(char *out, size_t size, const char *text, size_t len);

/* The target as a shell takes it for one word. */
void shp_openssh_quote(char *out, size_t size, const char *target);

#endif
