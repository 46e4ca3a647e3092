#include "installer/bootstrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framing/preamble.h"
#include "installer/command.h"
#include "installer/shell.h"
#include "protocol/messages.h"

enum bootstrap_state {
    BOOTSTRAP_SHELL,  /* no line of ours yet: the login shell speaks */
    BOOTSTRAP_UPLOAD, /* the helper is under way */
    BOOTSTRAP_CHECK,  /* all of it is sent; READY or FAIL comes */
};

struct bootstrap {
    enum bootstrap_state state;
    struct shp_preamble preamble;
    const struct shp_artifacts *artifacts;
    const uint8_t *out; /* rest of the upload */
    size_t out_len;
    struct shp_bootstrap_seen *seen;
    uint64_t began_ns;
    char first[64]; /* the first line of everything received, as it came */
    size_t first_len;
    bool first_ended;
    struct shp_bootstrap_seen unseen; /* for callers that ask for none */
    char build_id[65];
    char tried[512]; /* the program that is asked for its digest; empty: none, or it has answered */
};

/* ---- noise --------------------------------------------------------------------------------- */

static void note_first_line(struct bootstrap *bootstrap, const uint8_t *in, size_t len)
{
    for (size_t i = 0; i < len && !bootstrap->first_ended; i++) {
        bool end = in[i] == '\n' || bootstrap->first_len == sizeof(bootstrap->first);
        if (!end)
            bootstrap->first[bootstrap->first_len++] = (char)in[i];
        else if (bootstrap->first_len > 0)
            bootstrap->first_ended = true;
    }
}

/* What was received before a line of ours, as far as there was anything. */
static void note_noise(const struct bootstrap *bootstrap)
{
    struct shp_bootstrap_seen *seen = bootstrap->seen;
    size_t at = 0;
    seen->noise_bytes = bootstrap->preamble.noise_bytes;
    for (size_t i = 0; seen->noise_bytes > 0 && i < bootstrap->first_len; i++) {
        unsigned char c = (unsigned char)bootstrap->first[i];
        bool plain = c >= ' ' && c < 127 && c != '\\';
        char text[5] = {(char)c, 0};
        if (!plain)
            snprintf(text, sizeof(text), "\\x%02x", c);
        size_t width = strlen(text);
        if (at + width >= sizeof(seen->first_line))
            break;
        memcpy(seen->first_line + at, text, width);
        at += width;
    }
    seen->first_line[at] = 0;
}

static const char *after(const char *line, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(line, word, len) != 0)
        return NULL;
    if (line[len] == 0)
        return line + len;
    return line[len] == ' ' ? line + len + 1 : NULL;
}

/* ---- failures ------------------------------------------------------------------------------ */

bool shp_bootstrap_names_limit(const char *text)
{
    /* sh, bash, busybox; then the loader, for descriptors and for address space */
    static const char *const words[] = {"annot fork",
                                        "an't fork",
                                        "fork: ",
                                        "Pipe call failed",
                                        "Too many open files",
                                        "annot allocate memory",
                                        "Error 24",
                                        "failed to map segment"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(text, words[i]))
            return true;
    return false;
}

/* Status 153: ended by SIGXFSZ without a word. */
static int code_of_write(const char *text)
{
    if (strstr(text, "No space left") || strstr(text, "uota exceeded") ||
        strstr(text, "File too large") || strstr(text, "ile size limit") ||
        strcmp(text, "status 153") == 0)
        return SHP_CODE_INSTALL_NO_SPACE;
    if (strstr(text, "ead-only file system"))
        return SHP_CODE_INSTALL_READ_ONLY;
    return shp_bootstrap_names_limit(text) ? SHP_CODE_SHELL_LIMITS : SHP_CODE_INSTALL_FAILED;
}

/*
 * `check <status> <text>`: the program that was sent did not prove itself. 126 with "Permission
 * denied" is a file system mounted noexec; a wrong architecture is "Exec format error", or, in a
 * shell that then tries it as a script, a syntax error.
 */
static int code_of_check(const char *text)
{
    if (strstr(text, "ermission denied"))
        return SHP_CODE_INSTALL_NOEXEC;
    if (strstr(text, "digest"))
        return SHP_CODE_INSTALL_CORRUPT;
    if (shp_bootstrap_names_limit(text))
        return SHP_CODE_SHELL_LIMITS;
    if (strstr(text, "format") || strstr(text, "yntax error") || strstr(text, "not found"))
        return SHP_CODE_ARCH_UNSUPPORTED;
    return SHP_CODE_INSTALL_FAILED;
}

/*
 * `ended <status>`: sh itself left, or the helper before it was ready. 126 and 127 are an exec that failed: what was looked at a moment
 * ago may not be run or is gone. Anything else is a want of processes, descriptors or memory.
 */
static int code_of_end(const char *status)
{
    if (strcmp(status, "126") == 0)
        return SHP_CODE_INSTALL_NOEXEC;
    return strcmp(status, "127") == 0 ? SHP_CODE_INSTALL_FAILED : SHP_CODE_SHELL_LIMITS;
}

static void remote_failure(const struct bootstrap *bootstrap, const char *text,
                           struct shp_error *error)
{
    const char *rest = NULL;
    char noise[512];
    char clean[SHP_ERROR_CAUSE_MAX];
    int code = SHP_CODE_INSTALL_FAILED;
    if ((rest = after(text, "write")))
        code = code_of_write(rest);
    else if ((rest = after(text, "check")))
        code = code_of_check(rest);
    else if ((rest = after(text, "foreign")))
        code = SHP_CODE_INSTALL_FOREIGN_FILE;
    else if ((rest = after(text, "arch")))
        code = SHP_CODE_ARCH_UNSUPPORTED;
    else if ((rest = after(text, "home"))) {
        shp_text_clean(clean, sizeof(clean), rest, strlen(rest));
        shp_error_set(error, SHP_CODE_HOME_MISSING, NULL, "install helper",
                      *clean ? "HOME is %s, which is no directory with an absolute path"
                             : "HOME is not set%s",
                      clean);
        return;
    } else if ((rest = after(text, "ended"))) {
        shp_preamble_diagnostic(&bootstrap->preamble, noise, sizeof(noise));
        shp_error_set(error, code_of_end(rest), NULL, "start helper",
                      "the command ended with status %.8s%s%s", rest,
                      *noise ? "; it printed: " : "", noise);
        return;
    }
    if (!rest)
        rest = text;
    shp_text_clean(clean, sizeof(clean), rest, strlen(rest));
    shp_error_set(error, code, NULL, "install helper", "%s",
                  *clean ? clean : "the machine gave no reason");
}

/* The end of a text, from the beginning of a character. */
static const char *last_of(const char *text, size_t len_max)
{
    size_t len = strlen(text);
    if (len > len_max)
        text += len - len_max;
    while (((unsigned char)*text & 0xc0) == 0x80)
        text++;
    return text;
}

static void ended_early(struct bootstrap *bootstrap, bool ended, struct shp_error *error)
{
    char all[SHP_PREAMBLE_TAIL_MAX + 1];
    shp_preamble_diagnostic(&bootstrap->preamble, all, sizeof(all));
    shp_shell_hide_command(all);
    const char *noise = last_of(all, SHP_ERROR_CAUSE_MAX - 128);
    const char *printed = *noise ? "; it printed: " : "";
    if (shp_bootstrap_names_limit(noise))
        shp_error_set(error, SHP_CODE_SHELL_LIMITS, NULL, "start helper", "%s", noise);
    else if (*bootstrap->tried)
        shp_error_set(error, SHP_CODE_INSTALL_FOREIGN_FILE, NULL, "start helper",
                      "%s does not answer as a helper does", bootstrap->tried);
    else if (bootstrap->state != BOOTSTRAP_SHELL)
        shp_error_set(
            error, ended ? SHP_CODE_LINK_LOST : SHP_CODE_INSTALL_FAILED, NULL, "install helper",
            ended ? "the connection ended during the upload" : "no answer after the upload");
    else if (ended)
        shp_error_set(error, SHP_CODE_SHELL_REFUSED, NULL, "start helper",
                      "the login shell ended before our command ran%s%s", printed, noise);
    else
        shp_error_set(
            error, SHP_CODE_SHELL_SLOW, NULL, "start helper",
            "no answer within %d s: a start-up file of the login shell is slow, waits, or "
            "reads standard input%s%s",
            SHP_LIMIT_SHELL_TIMEOUT_MS / 1000, printed, noise);
}

/* ---- lines --------------------------------------------------------------------------------- */

static const struct shp_artifact *artifact_for(const struct bootstrap *bootstrap,
                                               const char *system)
{
    if (!*system)
        return &bootstrap->artifacts->items[0];
    for (size_t i = 0; i < bootstrap->artifacts->len; i++)
        if (strcmp(bootstrap->artifacts->items[i].system, system) == 0)
            return &bootstrap->artifacts->items[i];
    return NULL;
}

static enum shp_prelude_status take_need(struct bootstrap *bootstrap, const char *system,
                                         struct shp_error *error)
{
    const struct shp_artifact *artifact = artifact_for(bootstrap, system);
    if (bootstrap->state != BOOTSTRAP_SHELL || !artifact) {
        shp_error_set(error, SHP_CODE_PROTOCOL_ERROR, NULL, "install helper",
                      "the machine asked for a helper that was not offered");
        return SHP_PRELUDE_FAILED;
    }
    bootstrap->state = BOOTSTRAP_UPLOAD;
    bootstrap->tried[0] = 0;
    bootstrap->out = artifact->content;
    bootstrap->out_len = artifact->len;
    bootstrap->seen->uploaded = true;
    return SHP_PRELUDE_MORE;
}

/* <build id>, and `forced` where the helper is the forced command of a key. */
static enum shp_prelude_status take_ready(const struct bootstrap *bootstrap, const char *text,
                                          struct shp_error *error)
{
    size_t len = strcspn(text, " ");
    bool forced = after(text + len, " forced") != NULL;
    char build[65];
    snprintf(build, sizeof(build), "%.*s", (int)(len < 64 ? len : 64), text);
    if (strcmp(build, bootstrap->build_id) == 0 && (forced || text[len] == 0)) {
        bootstrap->seen->ready_ms = (uv_hrtime() - bootstrap->began_ns) / 1000000 + 1;
        return SHP_PRELUDE_READY;
    }
    shp_error_set(error, SHP_CODE_BUILD_MISMATCH, NULL, "start helper",
                  "%s is build %s, ours is %s",
                  forced ? "the helper that the key's forced command names" : "the helper", build,
                  bootstrap->build_id);
    return SHP_PRELUDE_FAILED;
}

/* <writable> <KiB free> <inodes free> <mount options> */
static enum shp_prelude_status take_look(const struct bootstrap *bootstrap, const char *text)
{
    struct shp_bootstrap_seen *seen = bootstrap->seen;
    char options[512] = ",";
    unsigned long long kib = 0, inodes = 0;
    char word[2][24] = {"", ""};
    int writable = 1;
    sscanf(text, "%d %23s %23s %509s", &writable, word[0], word[1], options + 1);
    strcat(options, ",");
    seen->unwritable = writable == 0;
    seen->read_only = strstr(options, ",ro,") != NULL;
    seen->noexec = strstr(options, ",noexec,") != NULL;
    if (sscanf(word[0], "%llu", &kib) == 1)
        seen->free_kib = kib;
    /* A file system that counts no inodes says 0 of 0, as - or as 0. */
    if (sscanf(word[1], "%llu", &inodes) == 1)
        seen->free_inodes = inodes;
    return SHP_PRELUDE_MORE;
}

static enum shp_prelude_status take_absent(const struct bootstrap *bootstrap, const char *text,
                                           struct shp_error *error)
{
    const char *path = strchr(text, ' ');
    struct shp_bootstrap_seen *seen = bootstrap->seen;
    seen->absent = true;
    seen->absent_bytes = strtoull(text, NULL, 10);
    snprintf(seen->absent_path, sizeof(seen->absent_path), "%s", path ? path + 1 : "");
    shp_error_set(error, SHP_CODE_HELPER_ABSENT, NULL, "start helper",
                  "not installed (would write %.*s bytes to%s)", path ? (int)(path - text) : 0,
                  text, path ? path : " the machine");
    return SHP_PRELUDE_FAILED;
}

static enum shp_prelude_status take_line(struct bootstrap *bootstrap, const char *line,
                                         struct shp_error *error)
{
    const char *text = NULL;
    note_noise(bootstrap);
    if ((text = after(line, "READY")))
        return take_ready(bootstrap, text, error);
    if ((text = after(line, "NEED")))
        return take_need(bootstrap, text, error);
    if ((text = after(line, "FAIL"))) {
        remote_failure(bootstrap, text, error);
        return SHP_PRELUDE_FAILED;
    }
    if ((text = after(line, "TRY"))) {
        shp_text_clean(bootstrap->tried, sizeof(bootstrap->tried), text, strlen(text));
        return SHP_PRELUDE_MORE;
    }
    if ((text = after(line, "LOOK")))
        return take_look(bootstrap, text);
    if ((text = after(line, "ABSENT")))
        return take_absent(bootstrap, text, error);
    shp_error_set(error, SHP_CODE_PROTOCOL_ERROR, NULL, "start helper", "unknown line: %.200s",
                  line);
    return SHP_PRELUDE_FAILED;
}

/* ---- prelude ------------------------------------------------------------------------------- */

static enum shp_prelude_status feed(void *prelude, const uint8_t *in, size_t len, size_t *taken,
                                    bool ended, struct shp_error *error)
{
    struct bootstrap *bootstrap = prelude;
    size_t at = 0;
    note_first_line(bootstrap, in, len);
    if (len == 0) {
        note_noise(bootstrap);
        ended_early(bootstrap, ended, error);
        return SHP_PRELUDE_FAILED;
    }
    while (at < len) {
        const char *line = NULL;
        size_t step = 0;
        if (shp_preamble_feed(&bootstrap->preamble, in + at, len - at, &step, &line) != SHP_OK) {
            char noise[512];
            shp_preamble_diagnostic(&bootstrap->preamble, noise, sizeof(noise));
            shp_error_set(error, SHP_CODE_SHELL_NOISE, NULL, "start helper",
                          "more than %d MiB before our marker; the last of it: %s",
                          SHP_LIMIT_PREAMBLE_BYTES_MAX >> 20, noise);
            return SHP_PRELUDE_FAILED;
        }
        at += step;
        if (!line)
            continue;
        enum shp_prelude_status status = take_line(bootstrap, line, error);
        if (status != SHP_PRELUDE_MORE) {
            *taken = at;
            return status;
        }
    }
    *taken = len;
    return SHP_PRELUDE_MORE;
}

static size_t output(void *prelude, const uint8_t **out)
{
    struct bootstrap *bootstrap = prelude;
    *out = bootstrap->out;
    return bootstrap->out_len;
}

static void consume(void *prelude, size_t len)
{
    struct bootstrap *bootstrap = prelude;
    bootstrap->out += len;
    bootstrap->out_len -= len;
    if (bootstrap->out_len == 0)
        bootstrap->state = BOOTSTRAP_CHECK;
}

static void bootstrap_free(void *prelude)
{
    struct bootstrap *bootstrap = prelude;
    shp_preamble_fini(&bootstrap->preamble);
    free(bootstrap);
}

bool shp_bootstrap_directory_valid(const char *path)
{
    static const char alphabet[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    return path[0] == '/' && strspn(path, alphabet) == strlen(path);
}

int shp_bootstrap_new(struct shp_prelude *prelude, char **command,
                      const struct shp_bootstrap_options *options)
{
    if (options->artifacts->len == 0 ||
        (options->helper_dir && !shp_bootstrap_directory_valid(options->helper_dir)))
        return SHP_ERR_INVALID;
    struct bootstrap *bootstrap = calloc(1, sizeof(*bootstrap));
    char *line = shp_bootstrap_command(options);
    int rc = bootstrap && line ? SHP_OK : SHP_ERR_NOMEM;
    if (rc == SHP_OK)
        rc = shp_preamble_init(&bootstrap->preamble, options->marker, SHP_LIMIT_PREAMBLE_BYTES_MAX);
    if (rc != SHP_OK) {
        free(bootstrap);
        free(line);
        return rc;
    }
    bootstrap->artifacts = options->artifacts;
    bootstrap->seen = options->seen ? options->seen : &bootstrap->unseen;
    *bootstrap->seen = (struct shp_bootstrap_seen){.free_kib = SHP_BOOTSTRAP_UNKNOWN,
                                                   .free_inodes = SHP_BOOTSTRAP_UNKNOWN};
    bootstrap->began_ns = uv_hrtime();
    snprintf(bootstrap->build_id, sizeof(bootstrap->build_id), "%s", options->build_id);
    *prelude = (struct shp_prelude){
        .feed = feed,
        .output = output,
        .consume = consume,
        .free = bootstrap_free,
        .prelude = bootstrap,
        .timeout_ms = SHP_LIMIT_SHELL_TIMEOUT_MS,
    };
    *command = line;
    return SHP_OK;
}
