/*
 * Finds lines `\n@@SHP1 <marker> <text>\n` in whatever a login shell prints before our program
 * speaks. spec/protocol.md 2.1 and 9. The marker is unguessable, so no other output is taken for
 * such a line. At the very start of the stream the first newline may be missing.
 *
 * Everything else is noise: counted, and its tail kept for an error text.
 */
#ifndef SHP_FRAMING_PREAMBLE_H
#define SHP_FRAMING_PREAMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_PREAMBLE_MARKER_HEX 32
#define SHP_PREAMBLE_LINE_MAX                                                                      \
    1024 /* text behind the marker; the rest of a longer line is dropped */
#define SHP_PREAMBLE_TAIL_MAX 8192

/* "\n@@SHP1 " + marker + " " */
#define SHP_PREAMBLE_PATTERN_BYTES (8 + SHP_PREAMBLE_MARKER_HEX + 1)

enum shp_preamble_state {
    SHP_PREAMBLE_NOISE, /* looking for the pattern; matched says how much of it was there */
    SHP_PREAMBLE_LINE,  /* behind the marker, up to the newline */
};

struct shp_preamble {
    enum shp_preamble_state state;
    uint8_t pattern[SHP_PREAMBLE_PATTERN_BYTES];
    size_t matched;
    bool implied_newline; /* the first byte of the match was not in the stream */
    size_t noise_bytes;
    size_t noise_bytes_max;
    uint8_t *tail; /* ring of SHP_PREAMBLE_TAIL_MAX bytes; NULL before the first noise */
    size_t tail_end;
    size_t tail_len;
    char line[SHP_PREAMBLE_LINE_MAX + 1];
    size_t line_len;
};

/* INVALID: the marker is not 32 lower-case hex digits. */
int shp_preamble_init(struct shp_preamble *preamble, const char *marker, size_t noise_bytes_max);
void shp_preamble_fini(struct shp_preamble *preamble);

/*
 * Take bytes up to the end of the next line of ours. *line is its text behind the marker
 * (NUL-terminated, a carriage return at the end removed), borrowed until the next call, and *taken
 * is behind its newline; or NULL when all of in was taken and no line ended. LIMIT: more noise than
 * noise_bytes_max. An allocation that fails costs the tail only.
 */
int shp_preamble_feed(struct shp_preamble *preamble, const uint8_t *in, size_t len, size_t *taken,
                      const char **line);

/*
 * Tail of the noise as text that is safe to show: control characters replaced, line ends as spaces,
 * at most size - 1 bytes of it, the last ones. Returns its length.
 */
size_t shp_preamble_diagnostic(const struct shp_preamble *preamble, char *out, size_t size);

#endif
