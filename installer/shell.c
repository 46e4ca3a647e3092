#include "installer/shell.h"

#include "protocol/messages.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 40
#define BEFORE_BYTES 60 /* of the text that is quoted, before the complaint */
#define AFTER_BYTES 140

/* Words in which interpreters refuse a line; small letters, the text is compared without case. */
static const char *const complaints[] = {
    "syntax error",          "syntaxerror",
    "invalid syntax",        "parse error",
    "parser error",          "parsererror",
    "unexpected token",      "unexpected identifier",
    "unexpected input",      "is not recognized",
    "not a recognized",      "invalid input detected",
    "invalid command",       "unknown command",
    "unrecognized command",  "unsupported command",
    "undefined function",    "undefined method",
    "undefined variable",    "undefined word",
    "unbound variable",      "nameerror",
    "exec: restricted",      "sh: not found",
    "sh: command not found", "unknown command: sh",
};

/* Parts of our command line as they are repeated by who does not understand it. */
static const char *const ours[] = {"exec", "sh -", "our command", "'sh'", "\"sh\"", ": sh"};

/* Interpreters that do not begin their complaints with their name. */
static const struct {
    const char *words;
    const char *name;
} dialects[] = {
    {"File \"<string>\", line", "Python"},
    {"File \"<stdin>\", line", "Python"},
    {"[eval]:", "Node.js"},
    {"at -e line", "Perl"},
    {"-e:1:", "Ruby"},
    {"cmdlet", "PowerShell"},
    {"internal or external command", "cmd.exe"},
    {"fatal: unrecognized command", "git-shell"},
    {"Invalid input detected at", "a network device's command line"},
};

static const char *find_nocase(const char *text, const char *words)
{
    size_t len = strlen(words);
    for (; *text; text++) {
        size_t at = 0;
        while (at < len && tolower((unsigned char)text[at]) == words[at])
            at++;
        if (at == len)
            return text;
    }
    return NULL;
}

/* The last complaint counts: what a start-up file said about itself came before. */
static const char *find_complaint(const char *text, size_t *len)
{
    const char *found = NULL;
    for (size_t i = 0; i < sizeof(complaints) / sizeof(complaints[0]); i++) {
        const char *at = text;
        while ((at = find_nocase(at, complaints[i]))) {
            if (!found || at > found) {
                found = at;
                *len = strlen(complaints[i]);
            }
            at++;
        }
    }
    return found;
}

static bool repeats_ours(const char *text)
{
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strstr(text, ours[i]))
            return true;
    return false;
}

/* `name:` of a word as shells begin their complaints; what says the kind of trouble is none. */
static bool is_name(const char *word, size_t len)
{
    static const char *const kinds[] = {
        "error",       "fatal",      "warning",   "exec",    "line", "sh",       "usage",
        "syntaxerror", "parseerror", "nameerror", "command", "near", "traceback"};
    if (len < 2 || len > NAME_MAX_BYTES || !isalpha((unsigned char)*word))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)word[i]) && !strchr("_.+-", word[i]))
            return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (find_nocase(word, kinds[i]) == word && strlen(kinds[i]) == len)
            return false;
    return true;
}

/* The nearest name before the end of the complaint. */
static void name_of(const char *text, const char *end, char out[NAME_MAX_BYTES + 1])
{
    out[0] = 0;
    for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++)
        if (strstr(text, dialects[i].words)) {
            snprintf(out, NAME_MAX_BYTES + 1, "%s", dialects[i].name);
            return;
        }
    for (const char *word = text; word < end;) {
        size_t len = strcspn(word, " ");
        const char *base = word;
        if (word + len > end)
            len = (size_t)(end - word);
        if (len > 1 && word[len - 1] == ':') {
            for (const char *c = word; c < word + len; c++)
                if (*c == '/')
                    base = c + 1;
            if (*base == '-') /* a login shell's argv[0] */
                base++;
            if (is_name(base, (size_t)(word + len - 1 - base)))
                snprintf(out, NAME_MAX_BYTES + 1, "%.*s", (int)(word + len - 1 - base), base);
        }
        word += len;
        word += strspn(word, " ");
    }
}

void shp_shell_hide_command(char *text)
{
    static const char begin[] = "exec sh -c 'k=";
    static const char *const ends[] = {"serve $k 2>&3 3>&-'", "\"ABSENT $z $f\"'"};
    static const char instead[] = "(our command)";
    char *from = strstr(text, begin);
    char *to = NULL; /* behind it */
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char *end = strstr(from ? from : text, ends[i]);
        if (end)
            to = end + strlen(ends[i]);
    }
    if (!from && !to)
        return;
    /* The text may have only the end of it, or only its beginning, and then something else. */
    char *rest = to ? to : from + strlen(begin);
    if (!to)
        rest += strspn(rest, "0123456789abcdef");
    if (!from)
        from = text;
    memcpy(from, instead, strlen(instead));
    memmove(from + strlen(instead), rest, strlen(rest) + 1);
}

bool shp_shell_explain(struct shp_error *error, const char *printed)
{
    char name[NAME_MAX_BYTES + 1];
    char quote[BEFORE_BYTES + AFTER_BYTES + 1];
    char machine[SHP_ERROR_MACHINE_MAX];
    size_t len = 0;
    if (error->code != SHP_CODE_SHELL_REFUSED && error->code != SHP_CODE_SHELL_SLOW)
        return false;
    const char *complaint = find_complaint(printed, &len);
    if (!complaint || !repeats_ours(printed))
        return false;
    name_of(printed, complaint + len, name);
    const char *from = complaint - printed > BEFORE_BYTES ? complaint - BEFORE_BYTES : printed;
    shp_text_clean(quote, sizeof(quote), from, strlen(from));
    memcpy(machine, error->machine, sizeof(machine));
    shp_error_set(error, SHP_CODE_SHELL_UNSUPPORTED, machine, "start helper",
                  "the login shell %s%sdoes not understand sh: %s", name, *name ? " " : "", quote);
    return true;
}
