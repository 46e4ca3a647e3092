#include "transport/transport_openssh_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TARGET_BYTES_MAX 512

/*
 * No prompt, no forwarding, no command or terminal of the user's configuration on our channel. A
 * running connection of the user's is used (ControlPath), but none is left behind (ControlMaster), and
 * what is known of hosts stays as it is (UpdateHostKeys).
 * LogLevel: what ssh logs of itself is how we know how far it came (transport_openssh_log.h).
 */
static const char *const fixed_options[] = {
    "-T",
    "-a",
    "-x",
    "-oBatchMode=yes",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oEscapeChar=none",
    "-oControlMaster=no",
    "-oUpdateHostKeys=no",
    "-oLogLevel=DEBUG1",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=3",
};

static const struct {
    const char *name;
    const char *option;
} optional_options[SHP_OPENSSH_OPTIONAL_COUNT] = {
    {"RemoteCommand", "-oRemoteCommand=none"},
    {"StdinNull", "-oStdinNull=no"},
    {"ForkAfterAuthentication", "-oForkAfterAuthentication=no"},
};

bool shp_openssh_target_ok(const char *target)
{
    size_t len = target != NULL ? strlen(target) : 0;

    if (len == 0 || len > TARGET_BYTES_MAX || target[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)target[i] < 0x20 || target[i] == 0x7f)
            return false;
    }
    return true;
}

void shp_openssh_argv(const char *argv[SHP_OPENSSH_ARGV_MAX], const char *ssh, const char *target,
                      const char *command, unsigned optional)
{
    size_t count = 0;

    argv[count++] = ssh;
    if (command == NULL)
        argv[count++] = "-G";
    for (size_t i = 0; i < sizeof(fixed_options) / sizeof(fixed_options[0]); i++)
        argv[count++] = fixed_options[i];
    for (unsigned i = 0; i < SHP_OPENSSH_OPTIONAL_COUNT; i++) {
        if (optional & (1u << i))
            argv[count++] = optional_options[i].option;
    }
    argv[count++] = "--";
    argv[count++] = target;
    if (command != NULL)
        argv[count++] = command;
    argv[count] = NULL;
}

void shp_openssh_insert(const char *argv[SHP_OPENSSH_ARGV_MAX], const char *option)
{
    size_t count = 0;

    while (argv[count] != NULL)
        count++;
    if (count + 1 >= SHP_OPENSSH_ARGV_MAX)
        return;
    memmove(argv + 2, argv + 1, count * sizeof(argv[0]));
    argv[1] = option;
}

unsigned shp_openssh_refused_option(const char *text)
{
    static const char said[] = "command-line: line 0: Bad configuration option: ";
    const char *at = strstr(text, said);

    if (at == NULL)
        return 0;
    at += sizeof(said) - 1;
    for (unsigned i = 0; i < SHP_OPENSSH_OPTIONAL_COUNT; i++) {
        size_t len = strlen(optional_options[i].name);

        if (strncasecmp(at, optional_options[i].name, len) == 0 && !isalnum((unsigned char)at[len]))
            return 1u << i;
    }
    return 0;
}

bool shp_openssh_lacks_query(const char *text)
{
    return strstr(text, "option -- G") != NULL || strstr(text, "option -- 'G'") != NULL;
}

/* ---- ssh -G ------------------------------------------------------------------------------- */

static void copy_value(char *out, size_t size, const char *value, size_t len)
{
    shp_text_clean(out, size, value, len);
}

static void parse_line(struct shp_ssh_facts *facts, const char *line, size_t len)
{
    const char *space = memchr(line, ' ', len);
    size_t key_len = space != NULL ? (size_t)(space - line) : len;
    const char *value = space != NULL ? space + 1 : line + len;
    size_t value_len = len - (size_t)(value - line);
    bool is_none = value_len == 4 && memcmp(value, "none", 4) == 0;

    if (key_len == 8 && memcmp(line, "hostname", 8) == 0) {
        copy_value(facts->hostname, sizeof(facts->hostname), value, value_len);
    } else if (key_len == 4 && memcmp(line, "user", 4) == 0) {
        copy_value(facts->user, sizeof(facts->user), value, value_len);
    } else if (key_len == 4 && memcmp(line, "port", 4) == 0) {
        char digits[8];

        copy_value(digits, sizeof(digits), value, value_len);
        facts->port = (uint32_t)strtoul(digits, NULL, 10);
        if (facts->port > 65535)
            facts->port = 0;
    } else if ((key_len == 9 && memcmp(line, "proxyjump", 9) == 0) ||
               (key_len == 12 && memcmp(line, "proxycommand", 12) == 0)) {
        if (value_len > 0 && !is_none)
            copy_value(facts->proxy, sizeof(facts->proxy), value, value_len);
    }
}

void shp_openssh_parse_query(struct shp_ssh_facts *facts, const char *text, size_t len)
{
    size_t at = 0;

    facts->hostname[0] = facts->user[0] = facts->proxy[0] = '\0';
    facts->port = 0;
    while (at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end != NULL ? (size_t)(end - (text + at)) : len - at;

        parse_line(facts, text + at, line_len);
        at += line_len + 1;
    }
}
