/*
 * Standard error of ssh: however it is cut, the same facts and the same text; and every end of it is
 * one clean sentence with a known code.
 *
 * input: u8 size of the pieces, u8 exit status, u8 bits (heard, signal), then standard error; the
 * byte 0xff stands for "\ndebug1: ".
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "protocol/messages.h"
#include "transport/transport_openssh_cause.h"
#include "transport/transport_openssh_log.h"
#include "transport/transport_openssh_text.h"

#define HEAD 3
#define TEXT_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct shp_ssh_facts facts;
    struct shp_openssh_log log;
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_clean(const char *text, size_t size)
{
    size_t len = strnlen(text, size);

    require(len < size);
    for (size_t i = 0; i < len;) {
        size_t bytes = shp_utf8_char((const uint8_t *)text + i, len - i);

        require(bytes > 0 && ((unsigned char)text[i] >= 0x20 || text[i] == '\t'));
        i += bytes;
    }
}

static void read_all(struct seen *seen, const char *text, size_t len, size_t piece)
{
    memset(seen, 0, sizeof(*seen));
    seen->log.facts = &seen->facts;
    for (size_t at = 0; at < len; at += piece)
        shp_openssh_log_feed(&seen->log, text + at, len - at < piece ? len - at : piece);
    shp_openssh_log_flush(&seen->log);
}

static void check_facts(const struct seen *seen)
{
    const struct shp_ssh_facts *facts = &seen->facts;

    check_clean(facts->address, sizeof(facts->address));
    check_clean(facts->kex, sizeof(facts->kex));
    check_clean(facts->host_key, sizeof(facts->host_key));
    check_clean(facts->auth_offered, sizeof(facts->auth_offered));
    check_clean(facts->auth_used, sizeof(facts->auth_used));
    check_clean(facts->agent, sizeof(facts->agent));
    check_clean(seen->log.key.name, sizeof(seen->log.key.name));
    check_clean(seen->log.url, sizeof(seen->log.url));
    require(strnlen(seen->log.tried, sizeof(seen->log.tried)) < sizeof(seen->log.tried));
    require(seen->log.opened == (facts->phase == SHP_SSH_PHASE_RUNNING));
}

static void check_error(const struct shp_error *error)
{
    require(shp_code_name(error->code) != NULL && error->step[0] != '\0');
    require(error->cause[0] != '\0' && shp_code_next(error->code)[0] != '\0');
    check_clean(error->cause, sizeof(error->cause));
}

static void check_causes(const struct seen *seen, const uint8_t *head)
{
    struct shp_openssh_end end = {
        .log = &seen->log,
        .target = "box",
        .exit_status = head[1],
        .heard = head[2] & 1,
        .term_signal = head[2] & 2 ? 9 : 0,
        .locked = head[2] & 4 ? "/key" : NULL,
    };
    struct shp_error error;

    shp_openssh_explain_end(&error, &end);
    if (error.code != 0)
        check_error(&error);
    else
        require(end.exit_status == 0 && end.term_signal == 0);
    shp_openssh_explain_wait(&error, &end, 30);
    check_error(&error);
    shp_openssh_explain_query(&error, &end, head[2] & 8, 10);
    check_error(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char mark[] = "\ndebug1: ";
    static struct seen whole;
    static struct seen pieces;
    static char text[TEXT_MAX];
    static char one[SHP_TAIL_BYTES + 1];
    static char other[SHP_TAIL_BYTES + 1];
    size_t len = 0;

    if (size < HEAD)
        return 0;
    for (size_t i = HEAD; i < size && len + sizeof(mark) < TEXT_MAX; i++) {
        if (data[i] == 0xff) {
            memcpy(text + len, mark, sizeof(mark) - 1);
            len += sizeof(mark) - 1;
        } else {
            text[len++] = (char)data[i];
        }
    }
    read_all(&whole, text, len, TEXT_MAX);
    read_all(&pieces, text, len, data[0] == 0 ? 1 : data[0]);
    require(memcmp(&whole.facts, &pieces.facts, sizeof(whole.facts)) == 0);
    shp_tail_clean(&whole.log.tail, one, sizeof(one));
    shp_tail_clean(&pieces.log.tail, other, sizeof(other));
    require(strcmp(one, other) == 0);
    check_facts(&whole);
    check_causes(&whole, data);
    text[len] = '\0';
    shp_openssh_refused_option(text);
    shp_openssh_lacks_query(text);
    shp_openssh_quote(one, sizeof(one), text);
    require(strlen(one) < sizeof(one));
    return 0;
}
