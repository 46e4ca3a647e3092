#include "remote-helper/transcript.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/messages.h"

/* Input of one text piece; each byte becomes at most three (U+FFFD). */
#define TEXT_INPUT_BYTES 8192

enum phase {
    PHASE_FIND, /* the beginning of the line that ends at line_end, probing down from probe */
    PHASE_SCAN, /* the line, from scan_at on */
    PHASE_DONE,
};

struct transcript {
    int fd;
    enum phase phase;
    bool skip_torn; /* the line at hand is the incomplete last one */
    bool have_text;
    bool text_done;
    uint64_t probe;
    uint64_t line_start, line_end;
    uint64_t scan_at;
    uint64_t block_at;
    size_t block_len;
    uint64_t text_left;                 /* bytes of text that may still go out */
    char wanted[TRANSCRIPT_ID_MAX + 1]; /* id of the next entry of the branch; "": any */
    unsigned hidden_count;
    char hidden[TRANSCRIPT_HIDDEN_MAX][TRANSCRIPT_ID_MAX + 1];
    struct transcript_result result;
    struct transcript_line line;
    size_t text_len;
    char text[TEXT_INPUT_BYTES * 3 + JSON_SCAN_PIECE_MAX];
    uint8_t block[TRANSCRIPT_BLOCK_BYTES];
};

/* Fill the block from offset on, up to end. IO when the file is shorter than it was. */
static int block_load(struct transcript *t, uint64_t offset, uint64_t end)
{
    size_t len = end - offset < sizeof t->block ? (size_t)(end - offset) : sizeof t->block;
    size_t have = 0;
    t->block_len = 0;
    while (have < len) {
        ssize_t got = pread(t->fd, t->block + have, len - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return SHP_ERR_IO;
        have += (size_t)got;
    }
    t->block_at = offset;
    t->block_len = len;
    return 0;
}

static bool block_has(const struct transcript *t, uint64_t offset)
{
    return offset >= t->block_at && offset - t->block_at < t->block_len;
}

/* ---- header ------------------------------------------------------------------------------- */

static int header_line(struct transcript *t, bool *is_header)
{
    bool blank = transcript_line_blank(&t->line);
    if (transcript_line_finish(&t->line) != 0 || blank)
        return SHP_ERR_AGAIN;
    *is_header = t->line.has_id && strcmp(t->line.type, "session") == 0;
    return 0;
}

/* The first complete line that parses must be a session header. */
static int check_header(struct transcript *t, bool *is_header)
{
    uint64_t limit =
        t->result.size < TRANSCRIPT_HEADER_BYTES_MAX ? t->result.size : TRANSCRIPT_HEADER_BYTES_MAX;
    bool any_line = false;
    uint64_t at = 0;
    transcript_line_init(&t->line);
    while (at < limit) {
        if (!block_has(t, at)) {
            int status = block_load(t, at, limit);
            if (status != 0)
                return status;
        }
        const uint8_t *from = t->block + (at - t->block_at);
        size_t len = t->block_len - (size_t)(at - t->block_at);
        const uint8_t *newline = memchr(from, '\n', len);
        size_t take = newline != NULL ? (size_t)(newline - from) : len;
        transcript_line_feed(&t->line, from, take);
        at += take;
        if (newline == NULL)
            continue;
        at++;
        any_line = true;
        if (header_line(t, is_header) == 0)
            return 0;
        transcript_line_init(&t->line);
    }
    /* No complete line at all: Pi has not written it yet. */
    *is_header = !any_line && t->result.size < TRANSCRIPT_HEADER_BYTES_MAX;
    return 0;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int open_failed(struct shp_error *error, int code, const char *path, const char *why)
{
    shp_error_set(error, code, NULL, "open transcript", "%s: %s", path, why);
    return SHP_ERR_IO;
}

static int open_file(const char *path, int *fd, struct stat *info, struct shp_error *error)
{
    /* Non-blocking, so that a fifo at that path cannot hold us. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return open_failed(error,
                           errno == ENOENT || errno == ENOTDIR ? SHP_CODE_TRANSCRIPT_MISSING
                                                               : SHP_CODE_TRANSCRIPT_INVALID,
                           path, strerror(errno));
    if (fstat(*fd, info) == 0 && S_ISREG(info->st_mode))
        return 0;
    close(*fd);
    return open_failed(error, SHP_CODE_TRANSCRIPT_INVALID, path, "not a regular file");
}

static void begin(struct transcript *t, const char *leaf)
{
    if (leaf != NULL && strlen(leaf) <= TRANSCRIPT_ID_MAX)
        memcpy(t->wanted, leaf, strlen(leaf) + 1);
    uint64_t size = t->result.size;
    if (size == 0) {
        t->phase = PHASE_DONE;
        return;
    }
    uint64_t from = size > sizeof t->block ? size - sizeof t->block : 0;
    if (block_load(t, from, size) == 0)
        t->result.torn = t->block[t->block_len - 1] != '\n';
    t->skip_torn = t->result.torn;
    t->line_end = t->result.torn ? size : size - 1;
    t->probe = t->line_end;
    t->phase = PHASE_FIND;
}

int transcript_open(struct transcript **out, const char *path, const char *leaf,
                    uint64_t text_bytes_max, struct shp_error *error)
{
    int fd = -1;
    struct stat info;
    int status = open_file(path, &fd, &info, error);
    if (status != 0)
        return status;
    struct transcript *t = calloc(1, sizeof *t);
    if (t == NULL) {
        close(fd);
        shp_error_set(error, SHP_CODE_OUT_OF_MEMORY, NULL, "open transcript", "no memory");
        return SHP_ERR_NOMEM;
    }
    t->fd = fd;
    t->result.size = (uint64_t)info.st_size;
    t->text_left = text_bytes_max;
    bool is_header = false;
    status = check_header(t, &is_header);
    if (status != 0 || !is_header) {
        open_failed(error, SHP_CODE_TRANSCRIPT_INVALID, path,
                    status != 0 ? "cannot be read" : "does not begin with a session header");
        transcript_free(t);
        return SHP_ERR_IO;
    }
    begin(t, leaf);
    *out = t;
    return 0;
}

void transcript_free(struct transcript *transcript)
{
    if (transcript == NULL)
        return;
    close(transcript->fd);
    free(transcript);
}

/* ---- walking up --------------------------------------------------------------------------- */

static void hide(struct transcript *t, const char *id)
{
    if (t->hidden_count == TRANSCRIPT_HIDDEN_MAX) {
        memmove(t->hidden[0], t->hidden[1], sizeof t->hidden - sizeof t->hidden[0]);
        t->hidden_count--;
    }
    memcpy(t->hidden[t->hidden_count++], id, sizeof t->hidden[0]);
}

static bool take_hidden(struct transcript *t, const char *id)
{
    for (unsigned i = 0; i < t->hidden_count; i++) {
        if (strcmp(t->hidden[i], id) != 0)
            continue;
        t->hidden_count--;
        if (i != t->hidden_count)
            memcpy(t->hidden[i], t->hidden[t->hidden_count], sizeof t->hidden[0]);
        return true;
    }
    return false;
}

static void reply_text(struct transcript *t)
{
    t->have_text = true;
    t->result.text_bytes = t->line.text_bytes;
    t->result.truncated = t->line.text_cut || t->line.text_bytes > t->text_left;
    t->phase = PHASE_DONE;
}

static void assistant_entry(struct transcript *t)
{
    struct transcript_line *line = &t->line;
    bool hidden = take_hidden(t, line->id);
    bool stopped = strcmp(line->stop_reason, "stop") == 0;
    bool first = !t->result.found;
    if (first) {
        t->result.found = true;
        memcpy(t->result.entry_id, line->id, sizeof line->id);
        memcpy(t->result.stop_reason, line->stop_reason, sizeof line->stop_reason);
        memcpy(t->result.error_message, line->error_message, sizeof line->error_message);
    }
    if (!hidden && (line->text_visible || (first && stopped)))
        reply_text(t);
}

/* The line above line_start is next; above the first line the walk ends. */
static void line_above(struct transcript *t)
{
    if (t->line_start == 0) {
        t->phase = PHASE_DONE;
        return;
    }
    t->line_end = t->line_start - 1;
    t->probe = t->line_end;
    t->phase = PHASE_FIND;
}

static void line_scanned(struct transcript *t)
{
    struct transcript_line *line = &t->line;
    bool blank = transcript_line_blank(line);
    bool bad = transcript_line_finish(line) != 0;
    if (bad && !blank && t->result.bad_lines < INT32_MAX)
        t->result.bad_lines++;
    bool entry = !bad && line->object && line->has_id && strcmp(line->type, "session") != 0;
    if (entry && (t->wanted[0] == '\0' || strcmp(t->wanted, line->id) == 0)) {
        if (strcmp(line->type, "context_edit") == 0 && line->replacement_null)
            hide(t, line->target_id);
        else if (strcmp(line->type, "message") == 0 && strcmp(line->role, "assistant") == 0)
            assistant_entry(t);
        memcpy(t->wanted, line->parent_id, sizeof t->wanted);
        if (t->wanted[0] == '\0')
            t->phase = PHASE_DONE;
    }
    if (t->phase != PHASE_DONE)
        line_above(t);
}

/* One block of looking for the newline above; returns bytes looked at or a negative error. */
static long find_step(struct transcript *t)
{
    size_t looked = 0;
    t->line_start = 0;
    if (t->probe > 0) {
        if (!block_has(t, t->probe - 1)) {
            uint64_t from = t->probe > sizeof t->block ? t->probe - sizeof t->block : 0;
            int status = block_load(t, from, t->probe);
            if (status != 0)
                return status;
        }
        looked = (size_t)(t->probe - t->block_at);
        const uint8_t *newline = memrchr(t->block, '\n', looked);
        if (newline == NULL && t->block_at > 0) {
            t->probe = t->block_at;
            return (long)looked;
        }
        if (newline != NULL) {
            t->line_start = t->block_at + (uint64_t)(newline - t->block) + 1;
            looked = (size_t)(t->probe - t->line_start);
        }
    }
    if (t->skip_torn) {
        t->skip_torn = false;
        line_above(t);
    } else {
        transcript_line_init(&t->line);
        t->scan_at = t->line_start;
        t->phase = PHASE_SCAN;
    }
    return (long)looked;
}

static long scan_step(struct transcript *t)
{
    if (t->scan_at == t->line_end) {
        line_scanned(t);
        return 1;
    }
    if (!block_has(t, t->scan_at)) {
        int status = block_load(t, t->scan_at, t->line_end);
        if (status != 0)
            return status;
    }
    size_t at = (size_t)(t->scan_at - t->block_at);
    uint64_t left = t->line_end - t->scan_at;
    size_t len = t->block_len - at < left ? t->block_len - at : (size_t)left;
    /* A line that is bad already only counts; its rest needs no look. */
    if (transcript_line_feed(&t->line, t->block + at, len) != 0)
        t->scan_at = t->line_end;
    else
        t->scan_at += len;
    return (long)len;
}

enum transcript_status transcript_step(struct transcript *t, struct shp_error *error)
{
    long work = 0;
    while (t->phase != PHASE_DONE && work < TRANSCRIPT_STEP_BYTES) {
        long did = t->phase == PHASE_FIND ? find_step(t) : scan_step(t);
        if (did < 0) {
            shp_error_set(error, SHP_CODE_TRANSCRIPT_INVALID, NULL, "read transcript",
                          "the file changed while it was read");
            return TRANSCRIPT_FAILED;
        }
        work += did + 1;
    }
    if (t->phase != PHASE_DONE)
        return TRANSCRIPT_MORE;
    t->scan_at = t->line_start;
    t->text_done = !t->have_text;
    return TRANSCRIPT_DONE;
}

const struct transcript_result *transcript_result(const struct transcript *transcript)
{
    return &transcript->result;
}

/* ---- text --------------------------------------------------------------------------------- */

static void on_text(struct transcript_line *line, const char *text, size_t len, void *user)
{
    struct transcript *t = user;
    (void)line;
    if (t->text_done)
        return;
    if (len > t->text_left) {
        len = (size_t)t->text_left;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--;
        t->text_done = true;
    }
    t->text_left -= len;
    memcpy(t->text + t->text_len, text, len);
    t->text_len += len;
}

int transcript_text(struct transcript *t, const char **text, size_t *len)
{
    if (t->scan_at == t->line_start)
        transcript_line_rewind(&t->line, on_text, t);
    t->text_len = 0;
    size_t work = 0;
    while (!t->text_done && t->text_len == 0) {
        if (work >= TRANSCRIPT_STEP_BYTES)
            return SHP_ERR_AGAIN;
        if (t->scan_at == t->line_end) {
            t->text_done = true;
            break;
        }
        if (!block_has(t, t->scan_at)) {
            int status = block_load(t, t->scan_at, t->line_end);
            if (status != 0)
                return status;
        }
        size_t at = (size_t)(t->scan_at - t->block_at);
        uint64_t left = t->line_end - t->scan_at;
        size_t input = t->block_len - at < left ? t->block_len - at : (size_t)left;
        if (input > TEXT_INPUT_BYTES)
            input = TEXT_INPUT_BYTES;
        if (transcript_line_feed(&t->line, t->block + at, input) != 0)
            return SHP_ERR_IO;
        t->scan_at += input;
        work += input;
    }
    *text = t->text;
    *len = t->text_len;
    return 0;
}
