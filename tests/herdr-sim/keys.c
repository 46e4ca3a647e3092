#include "keys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    const char *bytes;
} named[] = {
    {"enter", "\r"},       {"tab", "\t"},           {"esc", "\033"},    {"escape", "\033"},
    {"backspace", "\177"}, {"space", " "},          {"left", "\033[D"}, {"right", "\033[C"},
    {"up", "\033[A"},      {"down", "\033[B"},      {"minus", "-"},     {"plus", "+"},
    {"backtick", "`"},     {"shift+tab", "\033[Z"}, {"f1", "\033OP"},   {"f2", "\033OQ"},
    {"f3", "\033OR"},      {"f4", "\033OS"},        {"f5", "\033[15~"}, {"f6", "\033[17~"},
    {"f7", "\033[18~"},    {"f8", "\033[19~"},      {"f9", "\033[20~"}, {"f10", "\033[21~"},
    {"f11", "\033[23~"},   {"f12", "\033[24~"},
};

static size_t one_character(const char *s)
{
    unsigned char c = (unsigned char)*s;
    size_t n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    return strlen(s) == n && utf8_valid(s, n) && c >= 0x20 && c != 0x7F ? n : 0;
}

int key_bytes(const char *name, struct str *out)
{
    const char *rest = NULL;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (!strcasecmp(name, named[i].name)) {
            str_puts(out, named[i].bytes);
            return 0;
        }
    }
    if (!strncasecmp(name, "ctrl+", 5))
        rest = name + 5;
    else if (!strncasecmp(name, "control+", 8))
        rest = name + 8;
    else if (!strncmp(name, "C-", 2))
        rest = name + 2;
    if (rest) {
        char control;
        if (strlen(rest) == 1 && isalpha((unsigned char)*rest))
            control = (char)(toupper((unsigned char)*rest) & 0x1F);
        else if (strlen(rest) == 1 && strchr("@[\\]^_", *rest))
            control = (char)(*rest & 0x1F);
        else if (!strcasecmp(rest, "space"))
            control = '\0';
        else
            return -1;
        str_add(out, &control, 1);
        return 0;
    }
    if (!strncasecmp(name, "alt+", 4) && one_character(name + 4)) {
        str_puts(out, "\033");
        str_puts(out, name + 4);
        return 0;
    }
    if (*name && one_character(name)) {
        str_puts(out, name);
        return 0;
    }
    return -1;
}
