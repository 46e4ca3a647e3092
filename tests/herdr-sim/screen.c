/*
 * The parser has five states: ground, after ESC, inside CSI, inside OSC (and the other string
 * sequences), and one that swallows a charset designator. Cells hold code points; a row remembers
 * whether it continues on the next one, so that unwrapped reads can join them.
 */
#include "screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CSI_PARAMS_MAX 16
#define OSC_BYTES_MAX 1024

enum parse_state { GROUND, ESCAPE, CSI, STRING, CHARSET };

struct row {
    uint32_t *cells;
    bool wrapped; /* continues on the next row */
};

struct screen {
    int rows, cols;
    struct row *grid;
    struct row *saved_grid; /* the main screen while the alternate one shows */
    int saved_row, saved_col;
    struct row *history;
    size_t history_start, history_len;
    int row, col;
    bool pending_wrap;
    int mark_row, mark_col;
    int top, bottom; /* scroll region, inclusive */
    bool bracketed;
    char title[SCREEN_TITLE_MAX];
    enum parse_state state;
    int params[CSI_PARAMS_MAX];
    int nparams;
    char prefix;
    char string_kind;
    char string[OSC_BYTES_MAX];
    size_t string_len;
    bool string_escape;
    uint32_t cp;
    int cp_need;
    screen_reply_cb reply;
    void *user;
};

static struct row row_new(int cols)
{
    struct row r = {.cells = sim_alloc(sizeof *r.cells * (size_t)cols)};
    return r;
}

static void row_clear(struct screen *s, struct row *r)
{
    memset(r->cells, 0, sizeof *r->cells * (size_t)s->cols);
    r->wrapped = false;
}

static struct row *grid_new(int rows, int cols)
{
    struct row *g = sim_alloc(sizeof *g * (size_t)rows);
    for (int i = 0; i < rows; i++)
        g[i] = row_new(cols);
    return g;
}

static void grid_free(struct row *g, int rows)
{
    if (!g)
        return;
    for (int i = 0; i < rows; i++)
        free(g[i].cells);
    free(g);
}

struct screen *screen_new(int rows, int cols, screen_reply_cb reply, void *user)
{
    struct screen *s = sim_alloc(sizeof *s);
    s->rows = rows;
    s->cols = cols;
    s->grid = grid_new(rows, cols);
    s->history = sim_alloc(sizeof *s->history * SCREEN_HISTORY_MAX);
    s->bottom = rows - 1;
    s->reply = reply;
    s->user = user;
    return s;
}

void screen_free(struct screen *s)
{
    if (!s)
        return;
    grid_free(s->grid, s->rows);
    grid_free(s->saved_grid, s->rows);
    for (size_t i = 0; i < SCREEN_HISTORY_MAX; i++)
        free(s->history[i].cells);
    free(s->history);
    free(s);
}

bool screen_bracketed_paste(const struct screen *s)
{
    return s->bracketed;
}

const char *screen_title(const struct screen *s)
{
    return s->title;
}

size_t screen_history_lines(const struct screen *s)
{
    return s->history_len;
}

static void history_push(struct screen *s, const struct row *r)
{
    size_t at = (s->history_start + s->history_len) % SCREEN_HISTORY_MAX;
    if (s->history_len == SCREEN_HISTORY_MAX)
        s->history_start = (s->history_start + 1) % SCREEN_HISTORY_MAX;
    else
        s->history_len++;
    if (!s->history[at].cells)
        s->history[at] = row_new(s->cols);
    memcpy(s->history[at].cells, r->cells, sizeof *r->cells * (size_t)s->cols);
    s->history[at].wrapped = r->wrapped;
}

static void scroll_up(struct screen *s, int top, int n, bool keep)
{
    while (n-- > 0) {
        struct row first = s->grid[top];
        /* Only the main screen scrolled at its very top has a past worth keeping. */
        if (keep && top == 0 && !s->saved_grid)
            history_push(s, &first);
        memmove(&s->grid[top], &s->grid[top + 1], sizeof first * (size_t)(s->bottom - top));
        row_clear(s, &first);
        s->grid[s->bottom] = first;
    }
}

static void scroll_down(struct screen *s, int top, int n)
{
    while (n-- > 0) {
        struct row last = s->grid[s->bottom];
        memmove(&s->grid[top + 1], &s->grid[top], sizeof last * (size_t)(s->bottom - top));
        row_clear(s, &last);
        s->grid[top] = last;
    }
}

static int clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

static void move_to(struct screen *s, int row, int col)
{
    s->row = clamp(row, 0, s->rows - 1);
    s->col = clamp(col, 0, s->cols - 1);
    s->pending_wrap = false;
}

static void line_feed(struct screen *s)
{
    s->pending_wrap = false;
    if (s->row == s->bottom)
        scroll_up(s, s->top, 1, true);
    else if (s->row < s->rows - 1)
        s->row++;
}

static void put(struct screen *s, uint32_t cp)
{
    if (s->pending_wrap) {
        s->grid[s->row].wrapped = true;
        line_feed(s);
        s->col = 0;
    }
    s->grid[s->row].cells[s->col] = cp;
    if (s->col == s->cols - 1)
        s->pending_wrap = true;
    else
        s->col++;
}

static void erase(struct screen *s, int row, int from, int to)
{
    for (int c = from; c <= to; c++)
        s->grid[row].cells[c] = 0;
    if (to == s->cols - 1)
        s->grid[row].wrapped = false;
}

static void erase_display(struct screen *s, int mode)
{
    int from = mode == 0 ? s->row + 1 : 0;
    int to = mode == 1 ? s->row - 1 : s->rows - 1;
    for (int r = from; r <= to; r++)
        row_clear(s, &s->grid[r]);
    if (mode == 0)
        erase(s, s->row, s->col, s->cols - 1);
    if (mode == 1)
        erase(s, s->row, 0, s->col);
    if (mode == 3)
        s->history_len = 0;
}

static void shift_cells(struct screen *s, int n, bool insert)
{
    uint32_t *cells = s->grid[s->row].cells;
    int room = s->cols - s->col;
    n = clamp(n, 1, room);
    size_t keep = sizeof *cells * (size_t)(room - n);
    if (insert) {
        memmove(cells + s->col + n, cells + s->col, keep);
        memset(cells + s->col, 0, sizeof *cells * (size_t)n);
    } else {
        memmove(cells + s->col, cells + s->col + n, keep);
        memset(cells + s->cols - n, 0, sizeof *cells * (size_t)n);
    }
}

static void alternate(struct screen *s, bool on)
{
    if (on && !s->saved_grid) {
        s->saved_grid = s->grid;
        s->saved_row = s->row;
        s->saved_col = s->col;
        s->grid = grid_new(s->rows, s->cols);
        move_to(s, 0, 0);
    } else if (!on && s->saved_grid) {
        grid_free(s->grid, s->rows);
        s->grid = s->saved_grid;
        s->saved_grid = NULL;
        move_to(s, s->saved_row, s->saved_col);
    }
    s->top = 0;
    s->bottom = s->rows - 1;
}

static void mode_set(struct screen *s, bool on)
{
    for (int i = 0; s->prefix == '?' && i < s->nparams; i++) {
        if (s->params[i] == 2004)
            s->bracketed = on;
        if (s->params[i] == 1049 || s->params[i] == 47 || s->params[i] == 1047)
            alternate(s, on);
    }
}

static void answer(struct screen *s, const char *text)
{
    if (s->reply)
        s->reply(text, strlen(text), s->user);
}

static void csi_query(struct screen *s, char final)
{
    char text[48];
    if (final == 'c' && s->prefix == 0)
        answer(s, "\033[?62;22c");
    if (final == 'n' && s->prefix == 0 && s->params[0] == 6) {
        snprintf(text, sizeof text, "\033[%d;%dR", s->row + 1, s->col + 1);
        answer(s, text);
    }
    if (final == 'n' && s->prefix == 0 && s->params[0] == 5)
        answer(s, "\033[0n");
}

static void csi_done(struct screen *s, char final)
{
    int p0 = s->nparams > 0 ? s->params[0] : 0;
    int n = p0 > 0 ? p0 : 1;
    if (s->prefix && final != 'h' && final != 'l')
        return;
    switch (final) {
    case 'A':
        move_to(s, s->row - n, s->col);
        break;
    case 'B':
        move_to(s, s->row + n, s->col);
        break;
    case 'C':
        move_to(s, s->row, s->col + n);
        break;
    case 'D':
        move_to(s, s->row, s->col - n);
        break;
    case 'E':
        move_to(s, s->row + n, 0);
        break;
    case 'F':
        move_to(s, s->row - n, 0);
        break;
    case 'G':
    case '`':
        move_to(s, s->row, n - 1);
        break;
    case 'd':
        move_to(s, n - 1, s->col);
        break;
    case 'H':
    case 'f':
        move_to(s, n - 1, (s->nparams > 1 && s->params[1] > 0 ? s->params[1] : 1) - 1);
        break;
    case 'J':
        erase_display(s, p0);
        break;
    case 'K':
        erase(s, s->row, p0 == 0 ? s->col : 0, p0 == 1 ? s->col : s->cols - 1);
        break;
    case 'X':
        erase(s, s->row, s->col, clamp(s->col + n - 1, s->col, s->cols - 1));
        break;
    case 'P':
        shift_cells(s, n, false);
        break;
    case '@':
        shift_cells(s, n, true);
        break;
    case 'L':
    case 'M':
        if (s->row >= s->top && s->row <= s->bottom) {
            n = clamp(n, 1, s->bottom - s->row + 1);
            if (final == 'L')
                scroll_down(s, s->row, n);
            else
                scroll_up(s, s->row, n, false);
        }
        break;
    case 'S':
        scroll_up(s, s->top, clamp(n, 1, s->rows), true);
        break;
    case 'T':
        scroll_down(s, s->top, clamp(n, 1, s->rows));
        break;
    case 'r': {
        int top = n - 1;
        int bottom = s->nparams > 1 && s->params[1] > 0 ? s->params[1] - 1 : s->rows - 1;
        if (top < bottom && bottom < s->rows) {
            s->top = top;
            s->bottom = bottom;
            move_to(s, 0, 0);
        }
        break;
    }
    case 's':
        s->mark_row = s->row;
        s->mark_col = s->col;
        break;
    case 'u':
        move_to(s, s->mark_row, s->mark_col);
        break;
    case 'h':
    case 'l':
        mode_set(s, final == 'h');
        break;
    default:
        csi_query(s, final);
    }
}

static void set_title(struct screen *s, const char *text)
{
    size_t len = strlen(text);
    if (len >= SCREEN_TITLE_MAX) {
        len = SCREEN_TITLE_MAX - 1;
        /* The cut may split a character. */
        for (int cut = 0; cut < 3 && !utf8_valid(text, len); cut++)
            len--;
    }
    if (!utf8_valid(text, len))
        return;
    memcpy(s->title, text, len);
    s->title[len] = '\0';
}

static void string_done(struct screen *s)
{
    s->string[s->string_len] = '\0';
    if (s->string_kind == ']' && (s->string[0] == '0' || s->string[0] == '2') &&
        s->string[1] == ';')
        set_title(s, s->string + 2);
    s->state = GROUND;
}

static void escape(struct screen *s, uint8_t b)
{
    s->state = GROUND;
    switch (b) {
    case '[':
        s->state = CSI;
        memset(s->params, 0, sizeof s->params);
        s->nparams = 0;
        s->prefix = 0;
        break;
    case ']':
    case 'P':
    case '_':
    case '^':
    case 'X':
        s->state = STRING;
        s->string_kind = (char)b;
        s->string_len = 0;
        s->string_escape = false;
        break;
    case '(':
    case ')':
    case '*':
    case '+':
    case '#':
        s->state = CHARSET;
        break;
    case '7':
        s->mark_row = s->row;
        s->mark_col = s->col;
        break;
    case '8':
        move_to(s, s->mark_row, s->mark_col);
        break;
    case 'D':
        line_feed(s);
        break;
    case 'E':
        line_feed(s);
        s->col = 0;
        break;
    case 'M':
        if (s->row == s->top)
            scroll_down(s, s->top, 1);
        else
            move_to(s, s->row - 1, s->col);
        break;
    case 'c':
        alternate(s, false);
        erase_display(s, 2);
        move_to(s, 0, 0);
        s->bracketed = false;
        break;
    default:
        break;
    }
}

static void csi(struct screen *s, uint8_t b)
{
    if (b >= '0' && b <= '9') {
        if (s->nparams == 0)
            s->nparams = 1;
        int *p = &s->params[s->nparams - 1];
        if (*p < 100000)
            *p = *p * 10 + (b - '0');
    } else if (b == ';' || b == ':') {
        if (s->nparams == 0)
            s->nparams = 1;
        if (s->nparams < CSI_PARAMS_MAX)
            s->params[s->nparams++] = 0;
    } else if (b >= '<' && b <= '?') {
        s->prefix = (char)b;
    } else if (b >= 0x20 && b <= 0x2F) {
        s->prefix = (char)b;
    } else if (b >= 0x40 && b <= 0x7E) {
        s->state = GROUND;
        csi_done(s, (char)b);
    } else if (b == 0x1B) {
        s->state = ESCAPE;
    }
}

static void string_byte(struct screen *s, uint8_t b)
{
    if (b == 0x07 || (s->string_escape && b == '\\')) {
        string_done(s);
        return;
    }
    s->string_escape = b == 0x1B;
    if (!s->string_escape && s->string_len < OSC_BYTES_MAX - 1)
        s->string[s->string_len++] = (char)b;
}

static void ground(struct screen *s, uint8_t b)
{
    if (s->cp_need > 0 && (b & 0xC0) == 0x80) {
        s->cp = s->cp << 6 | (b & 0x3Fu);
        if (--s->cp_need == 0 && s->cp >= 0xA0)
            put(s, s->cp);
        return;
    }
    s->cp_need = 0;
    if (b >= 0xF0 && b <= 0xF4) {
        s->cp = b & 0x07u;
        s->cp_need = 3;
    } else if (b >= 0xE0) {
        s->cp = b & 0x0Fu;
        s->cp_need = 2;
    } else if (b >= 0xC2) {
        s->cp = b & 0x1Fu;
        s->cp_need = 1;
    } else if (b == 0x1B) {
        s->state = ESCAPE;
    } else if (b == '\r') {
        s->col = 0;
        s->pending_wrap = false;
    } else if (b == '\n' || b == 0x0B || b == 0x0C) {
        line_feed(s);
    } else if (b == '\b') {
        move_to(s, s->row, s->col - 1);
    } else if (b == '\t') {
        move_to(s, s->row, (s->col / 8 + 1) * 8);
    } else if (b >= 0x20 && b < 0x7F) {
        put(s, b);
    }
}

void screen_feed(struct screen *s, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        switch (s->state) {
        case GROUND:
            ground(s, bytes[i]);
            break;
        case ESCAPE:
            escape(s, bytes[i]);
            break;
        case CSI:
            csi(s, bytes[i]);
            break;
        case STRING:
            string_byte(s, bytes[i]);
            break;
        case CHARSET:
            s->state = GROUND;
            break;
        }
    }
}

static void add_cell(struct str *out, uint32_t cp)
{
    char b[4];
    size_t n = 0;
    if (cp < 0x80) {
        b[n++] = (char)(cp ? cp : ' ');
    } else if (cp < 0x800) {
        b[n++] = (char)(0xC0 | cp >> 6);
        b[n++] = (char)(0x80 | (cp & 0x3F));
    } else if (cp < 0x10000) {
        b[n++] = (char)(0xE0 | cp >> 12);
        b[n++] = (char)(0x80 | (cp >> 6 & 0x3F));
        b[n++] = (char)(0x80 | (cp & 0x3F));
    } else {
        b[n++] = (char)(0xF0 | cp >> 18);
        b[n++] = (char)(0x80 | (cp >> 12 & 0x3F));
        b[n++] = (char)(0x80 | (cp >> 6 & 0x3F));
        b[n++] = (char)(0x80 | (cp & 0x3F));
    }
    str_add(out, b, n);
}

static const struct row *row_at(const struct screen *s, size_t i)
{
    if (i < s->history_len)
        return &s->history[(s->history_start + i) % SCREEN_HISTORY_MAX];
    return &s->grid[i - s->history_len];
}

static int row_used(const struct screen *s, const struct row *r)
{
    int n = s->cols;
    while (n > 0 && (r->cells[n - 1] == 0 || r->cells[n - 1] == ' '))
        n--;
    return n;
}

static bool row_valid_text(uint32_t cp)
{
    return cp <= 0x10FFFF && !(cp >= 0xD800 && cp <= 0xDFFF);
}

bool screen_text(const struct screen *s, enum screen_source source, size_t lines, struct str *out)
{
    bool with_history = source == SCREEN_RECENT || source == SCREEN_RECENT_UNWRAPPED;
    bool join = source == SCREEN_RECENT_UNWRAPPED;
    size_t total = s->history_len + (size_t)s->rows;
    size_t first = with_history ? 0 : s->history_len;
    while (total > first && row_used(s, row_at(s, total - 1)) == 0)
        total--;

    /* Walk back until enough logical lines are found. */
    size_t from = total, found = 0;
    while (from > first && (lines == 0 || found < lines)) {
        from--;
        while (join && from > first && row_at(s, from - 1)->wrapped)
            from--;
        found++;
    }
    for (size_t i = from; i < total; i++) {
        const struct row *r = row_at(s, i);
        bool joined = join && r->wrapped && i + 1 < total;
        int n = joined ? s->cols : row_used(s, r);
        for (int c = 0; c < n; c++)
            add_cell(out, row_valid_text(r->cells[c]) ? r->cells[c] : 0xFFFD);
        if (!joined && i + 1 < total)
            str_add(out, "\n", 1);
    }
    str_add(out, "", 0);
    return from > first;
}
