#include "framing/preamble.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/id.h"

#include <string.h>

int shp_preamble_init(struct shp_preamble *preamble, const char *marker, size_t noise_bytes_max)
{
    static const char magic[] = "\n@@SHP1 ";
    if (strnlen(marker, SHP_PREAMBLE_MARKER_HEX + 1) != SHP_PREAMBLE_MARKER_HEX ||
        !shp_hex_valid(marker, SHP_PREAMBLE_MARKER_HEX))
        return SHP_ERR_INVALID;
    memset(preamble, 0, sizeof(*preamble));
    _Static_assert(sizeof(magic) - 1 + SHP_PREAMBLE_MARKER_HEX + 1 == SHP_PREAMBLE_PATTERN_BYTES,
                   "pattern");
    memcpy(preamble->pattern, magic, sizeof(magic) - 1);
    memcpy(preamble->pattern + sizeof(magic) - 1, marker, SHP_PREAMBLE_MARKER_HEX);
    preamble->pattern[SHP_PREAMBLE_PATTERN_BYTES - 1] = ' ';
    preamble->noise_bytes_max = noise_bytes_max;
    preamble->matched = 1;
    preamble->implied_newline = true;
    return SHP_OK;
}

void shp_preamble_fini(struct shp_preamble *preamble)
{
    shp_free(preamble->tail);
    preamble->tail = NULL;
    preamble->tail_len = 0;
}

static void keep_tail(struct shp_preamble *preamble, const uint8_t *noise, size_t len)
{
    if (!preamble->tail && !(preamble->tail = shp_malloc(SHP_PREAMBLE_TAIL_MAX)))
        return;
    if (len > SHP_PREAMBLE_TAIL_MAX) {
        noise += len - SHP_PREAMBLE_TAIL_MAX;
        len = SHP_PREAMBLE_TAIL_MAX;
    }
    size_t first = SHP_PREAMBLE_TAIL_MAX - preamble->tail_end;
    if (first > len)
        first = len;
    memcpy(preamble->tail + preamble->tail_end, noise, first);
    memcpy(preamble->tail, noise + first, len - first);
    preamble->tail_end = (preamble->tail_end + len) % SHP_PREAMBLE_TAIL_MAX;
    preamble->tail_len += len;
    if (preamble->tail_len > SHP_PREAMBLE_TAIL_MAX)
        preamble->tail_len = SHP_PREAMBLE_TAIL_MAX;
}

static void add_noise(struct shp_preamble *preamble, const uint8_t *noise, size_t len)
{
    if (len == 0)
        return;
    preamble->noise_bytes += len;
    keep_tail(preamble, noise, len);
}

/* What looked like the pattern was noise. */
static void give_match_up(struct shp_preamble *preamble)
{
    size_t skip = preamble->implied_newline ? 1 : 0;
    if (preamble->matched > skip)
        add_noise(preamble, preamble->pattern + skip, preamble->matched - skip);
    preamble->matched = 0;
    preamble->implied_newline = false;
}

/*
 * The newline stands at the start of the pattern and nowhere else in it, so a mismatch can only
 * begin a new match with the byte at hand.
 */
static size_t skip_noise(struct shp_preamble *preamble, const uint8_t *in, size_t len)
{
    size_t i = 0;
    while (i < len) {
        if (preamble->matched == 0) {
            const uint8_t *newline = memchr(in + i, '\n', len - i);
            size_t end = newline ? (size_t)(newline - in) : len;
            add_noise(preamble, in + i, end - i);
            i = end;
            if (!newline)
                break;
        }
        if (in[i] != preamble->pattern[preamble->matched]) {
            give_match_up(preamble);
            continue;
        }
        i++;
        if (++preamble->matched == SHP_PREAMBLE_PATTERN_BYTES) {
            preamble->state = SHP_PREAMBLE_LINE;
            preamble->line_len = 0;
            break;
        }
    }
    return i;
}

/* The newline that ends a line may also begin the next one. */
static void finish_line(struct shp_preamble *preamble)
{
    if (preamble->line_len > 0 && preamble->line[preamble->line_len - 1] == '\r')
        preamble->line_len--;
    preamble->line[preamble->line_len] = '\0';
    preamble->state = SHP_PREAMBLE_NOISE;
    preamble->matched = 1;
    preamble->implied_newline = true;
}

int shp_preamble_feed(struct shp_preamble *preamble, const uint8_t *in, size_t len, size_t *taken,
                      const char **line)
{
    *taken = 0;
    *line = NULL;
    while (*taken < len) {
        const uint8_t *rest = in + *taken;
        size_t rest_len = len - *taken;
        if (preamble->state == SHP_PREAMBLE_NOISE) {
            *taken += skip_noise(preamble, rest, rest_len);
            if (preamble->noise_bytes > preamble->noise_bytes_max)
                return SHP_ERR_LIMIT;
            continue;
        }
        const uint8_t *newline = memchr(rest, '\n', rest_len);
        size_t text_len = newline ? (size_t)(newline - rest) : rest_len;
        size_t room = SHP_PREAMBLE_LINE_MAX - preamble->line_len;
        size_t kept = text_len < room ? text_len : room;
        memcpy(preamble->line + preamble->line_len, rest, kept);
        preamble->line_len += kept;
        *taken += text_len;
        /* Text that is dropped counts, so that a line without end ends too. */
        preamble->noise_bytes += text_len - kept;
        if (preamble->noise_bytes > preamble->noise_bytes_max)
            return SHP_ERR_LIMIT;
        if (newline) {
            *taken += 1;
            finish_line(preamble);
            *line = preamble->line;
            return SHP_OK;
        }
    }
    return SHP_OK;
}

size_t shp_preamble_diagnostic(const struct shp_preamble *preamble, char *out, size_t size)
{
    char linear[SHP_PREAMBLE_TAIL_MAX];
    if (size == 0)
        return 0;
    size_t len = preamble->tail_len < size - 1 ? preamble->tail_len : size - 1;
    size_t start = (preamble->tail_end + SHP_PREAMBLE_TAIL_MAX - len) % SHP_PREAMBLE_TAIL_MAX;
    for (size_t i = 0; i < len; i++)
        linear[i] = (char)preamble->tail[(start + i) % SHP_PREAMBLE_TAIL_MAX];
    size_t begin = 0;
    while (begin < len && (linear[begin] == '\n' || linear[begin] == '\r' || linear[begin] == ' '))
        begin++;
    while (len > begin && (linear[len - 1] == '\n' || linear[len - 1] == '\r'))
        len--;
    return shp_text_clean(out, size, linear + begin, len - begin);
}
