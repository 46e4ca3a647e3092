/*
 * An approximation of a terminal screen: enough of CR, LF, BS, cursor movement, erasing, scroll
 * regions and the alternate screen that reading a pane gives the text a person would see. Colours
 * and double-width characters are not modelled: every character takes one cell.
 */
#ifndef HERDR_SIM_SCREEN_H
#define HERDR_SIM_SCREEN_H

#include "util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lines kept above the screen; the oldest go first. */
#define SCREEN_HISTORY_MAX 2000
#define SCREEN_TITLE_MAX 256

struct screen;

/* Answers of the terminal to queries of the program (cursor position, device attributes). */
typedef void (*screen_reply_cb)(const char *bytes, size_t len, void *user);

struct screen *screen_new(int rows, int cols, screen_reply_cb reply, void *user);
void screen_free(struct screen *s);
void screen_feed(struct screen *s, const uint8_t *bytes, size_t len);

bool screen_bracketed_paste(const struct screen *s);
/* Borrowed until the next feed; "" without a title. */
const char *screen_title(const struct screen *s);
size_t screen_history_lines(const struct screen *s);

enum screen_source { SCREEN_VISIBLE, SCREEN_RECENT, SCREEN_RECENT_UNWRAPPED, SCREEN_DETECTION };
/*
 * Appends the last `lines` lines (0 = all of the source), '\n' between them, trailing blank lines
 * dropped. Returns true when older lines were left out.
 */
bool screen_text(const struct screen *s, enum screen_source source, size_t lines, struct str *out);

#endif
