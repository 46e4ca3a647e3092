#include "remote-helper/transcript_line.h"

#include <string.h>

static void field_begin(struct transcript_line *line, char *field, size_t size)
{
    line->field = field;
    line->field_size = size;
    line->field_len = 0;
    line->too_long = false;
    field[0] = '\0';
}

static void field_put(struct transcript_line *line, const char *text, size_t len)
{
    if (line->too_long)
        return;
    size_t room = line->field_size - 1 - line->field_len;
    if (len > room) {
        line->too_long = true;
        len = room;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(line->field + line->field_len, text, len);
    line->field_len += len;
    line->field[line->field_len] = '\0';
}

static bool is_visible(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] > ' ')
            return true;
    return false;
}

static bool block_marked(const struct transcript_line *line)
{
    return line->block < TRANSCRIPT_BLOCKS_MAX &&
           (line->text_blocks[line->block / 8] >> (line->block % 8) & 1) != 0;
}

static void block_begin(struct transcript_line *line)
{
    line->in_block = true;
    line->block_bytes = 0;
    line->block_visible = false;
    line->block_type[0] = '\0';
    if (line->text_cb == NULL && line->block % 8 == 0 && line->block < TRANSCRIPT_BLOCKS_MAX)
        line->text_blocks[line->block / 8] = 0;
}

/* The kind of a block may stand behind its text, so it counts only when the block has ended. */
static void block_end(struct transcript_line *line)
{
    line->in_block = false;
    if (line->text_cb == NULL && strcmp(line->block_type, "text") == 0) {
        if (line->block < TRANSCRIPT_BLOCKS_MAX) {
            line->text_blocks[line->block / 8] |= (uint8_t)(1u << (line->block % 8));
            line->text_bytes += line->block_bytes;
            line->text_visible = line->text_visible || line->block_visible;
        } else if (line->block_bytes > 0) {
            line->text_cut = true;
        }
    }
    line->block++;
}

/* Content that is one string counts as one text block. */
static void content_string_begin(struct transcript_line *line)
{
    block_begin(line);
    line->in_text = true;
    memcpy(line->block_type, "text", 5);
}

/* Tool results are most of a file: once the role is known, their text is passed over unseen. */
static bool text_wanted(const struct transcript_line *line)
{
    if (line->text_cb != NULL)
        return block_marked(line);
    return line->role[0] == '\0' || strcmp(line->role, "assistant") == 0;
}

static int string_begin(struct transcript_line *line)
{
    struct json_scan *scan = &line->scan;
    const char *key = scan->key;
    line->field = NULL;
    line->in_text = false;
    if (scan->depth == 1) {
        if (strcmp(key, "type") == 0)
            field_begin(line, line->type, sizeof line->type);
        else if (strcmp(key, "id") == 0)
            field_begin(line, line->id, sizeof line->id);
        else if (strcmp(key, "parentId") == 0)
            field_begin(line, line->parent_id, sizeof line->parent_id);
        else if (strcmp(key, "targetId") == 0)
            field_begin(line, line->target_id, sizeof line->target_id);
        else if (strcmp(key, "replacement") == 0)
            line->replacement_null = false;
    } else if (line->in_message && scan->depth == 2) {
        if (strcmp(key, "role") == 0)
            field_begin(line, line->role, sizeof line->role);
        else if (strcmp(key, "stopReason") == 0)
            field_begin(line, line->stop_reason, sizeof line->stop_reason);
        else if (strcmp(key, "errorMessage") == 0)
            field_begin(line, line->error_message, sizeof line->error_message);
        else if (strcmp(key, "content") == 0)
            content_string_begin(line);
    } else if (line->in_block && scan->depth == 4) {
        if (strcmp(key, "type") == 0)
            field_begin(line, line->block_type, sizeof line->block_type);
        else if (strcmp(key, "text") == 0)
            line->in_text = text_wanted(line);
    }
    return line->field != NULL || line->in_text ? 0 : JSON_SCAN_SKIP;
}

static void string_part(struct transcript_line *line, const char *text, size_t len)
{
    if (line->field != NULL) {
        field_put(line, text, len);
        return;
    }
    line->block_bytes += len;
    line->block_visible = line->block_visible || is_visible(text, len);
    if (line->text_cb != NULL && block_marked(line))
        line->text_cb(line, text, len, line->text_user);
}

static void string_end(struct transcript_line *line)
{
    if (line->field == line->id && line->field != NULL)
        line->has_id = line->field_len > 0 && !line->too_long;
    line->field = NULL;
    if (line->in_text && line->scan.depth == 2)
        block_end(line);
    line->in_text = false;
}

static int on_token(struct json_scan *scan, enum json_token token, const char *text, size_t len,
                    void *user)
{
    struct transcript_line *line = user;
    switch (token) {
    case JSON_STRING:
        return string_begin(line);
    case JSON_STRING_PART:
        string_part(line, text, len);
        return 0;
    case JSON_STRING_END:
        string_end(line);
        return 0;
    case JSON_OBJECT:
        if (scan->depth == 0)
            line->object = true;
        else if (scan->depth == 1 && strcmp(scan->key, "message") == 0)
            line->in_message = true;
        else if (line->in_content && scan->depth == 3)
            block_begin(line);
        return 0;
    case JSON_OBJECT_END:
        if (line->in_block && scan->depth == 3)
            block_end(line);
        else if (scan->depth == 1)
            line->in_message = false;
        return 0;
    case JSON_ARRAY:
        if (line->in_message && scan->depth == 2 && strcmp(scan->key, "content") == 0)
            line->in_content = true;
        return 0;
    case JSON_ARRAY_END:
        if (scan->depth == 2)
            line->in_content = false;
        return 0;
    case JSON_NULL:
        if (scan->depth == 1 && strcmp(scan->key, "replacement") == 0)
            line->replacement_null = true;
        return 0;
    default:
        return 0;
    }
}

void transcript_line_init(struct transcript_line *line)
{
    memset(line, 0, offsetof(struct transcript_line, scan));
    line->error_message[0] = '\0';
    json_scan_init(&line->scan, on_token, line);
}

void transcript_line_rewind(struct transcript_line *line, transcript_text_cb cb, void *user)
{
    line->text_cb = cb;
    line->text_user = user;
    line->in_message = line->in_content = line->in_block = line->in_text = false;
    line->field = NULL;
    line->block = 0;
    json_scan_init(&line->scan, on_token, line);
}

bool transcript_line_blank(const struct transcript_line *line)
{
    return json_scan_blank(&line->scan);
}

int transcript_line_feed(struct transcript_line *line, const void *data, size_t len)
{
    return json_scan_feed(&line->scan, data, len);
}

int transcript_line_finish(struct transcript_line *line)
{
    return json_scan_finish(&line->scan);
}
