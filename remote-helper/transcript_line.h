/*
 * What one line of a pi session file says, as far as the latest reply needs it: a consumer of
 * json_scan that keeps a few short fields and counts or passes on the text of text blocks.
 */
#ifndef SHP_REMOTE_HELPER_TRANSCRIPT_LINE_H
#define SHP_REMOTE_HELPER_TRANSCRIPT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote-helper/json_scan.h"

#define TRANSCRIPT_ID_MAX 64
#define TRANSCRIPT_NAME_MAX 32
#define TRANSCRIPT_ERROR_TEXT_MAX 2048

/* Blocks of one message whose kind is remembered; the text of later ones is left out. */
#define TRANSCRIPT_BLOCKS_MAX 4096

struct transcript_line;

/* Text of a text block; whole characters, borrowed. */
typedef void (*transcript_text_cb)(struct transcript_line *line, const char *text, size_t len,
                                   void *user);

/* Texts are cut at their size on a character boundary. */
struct transcript_line {
    /* Results, complete after transcript_line_finish. */
    bool object;
    bool has_id;
    bool replacement_null;
    bool text_visible; /* a text block has more than white space */
    bool text_cut;     /* more than TRANSCRIPT_BLOCKS_MAX blocks */
    char type[TRANSCRIPT_NAME_MAX + 1];
    char id[TRANSCRIPT_ID_MAX + 1];
    char parent_id[TRANSCRIPT_ID_MAX + 1]; /* "": none */
    char target_id[TRANSCRIPT_ID_MAX + 1];
    char role[TRANSCRIPT_NAME_MAX + 1];
    char stop_reason[TRANSCRIPT_NAME_MAX + 1];
    uint64_t text_bytes;

    /* Private. */
    transcript_text_cb text_cb;
    void *text_user;
    bool in_message, in_content, in_block, in_text;
    bool block_is_text, block_visible;
    bool too_long;
    unsigned block;
    uint64_t block_bytes;
    char block_type[TRANSCRIPT_NAME_MAX + 1];
    char *field;
    size_t field_size, field_len;

    /* Not cleared for every line: a file has millions of them. */
    struct json_scan scan;
    char error_message[TRANSCRIPT_ERROR_TEXT_MAX + 1]; /* a result */
    uint8_t text_blocks[TRANSCRIPT_BLOCKS_MAX / 8];
};

/* First pass: text is counted. */
void transcript_line_init(struct transcript_line *line);

/*
 * Second pass over the same bytes: text of the blocks that the first pass found to be text goes to
 * cb, whatever the order of their keys.
 */
void transcript_line_rewind(struct transcript_line *line, transcript_text_cb cb, void *user);

/* Nothing but white space so far. */
bool transcript_line_blank(const struct transcript_line *line);

/* As json_scan_feed and json_scan_finish. */
int transcript_line_feed(struct transcript_line *line, const void *data, size_t len);
int transcript_line_finish(struct transcript_line *line);

#endif
