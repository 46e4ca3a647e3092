#include "match.h"

#include "util.h"

#include <stdlib.h>
#include <string.h>

int match_init(struct match *m, bool is_regex, const char *value)
{
    memset(m, 0, sizeof *m);
    if (is_regex && regcomp(&m->regex, value, REG_EXTENDED | REG_NOSUB) != 0)
        return -1;
    m->is_regex = is_regex;
    m->value = sim_strdup(value);
    return 0;
}

char *match_line(const struct match *m, const char *text)
{
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n");
        char *line = sim_format("%.*s", (int)n, at);
        bool hit = m->is_regex ? regexec(&m->regex, line, 0, NULL, 0) == 0
                               : strstr(line, m->value) != NULL;
        if (hit)
            return line;
        free(line);
        at += n + (at[n] == '\n');
    }
    return NULL;
}

void match_free(struct match *m)
{
    if (m->is_regex)
        regfree(&m->regex);
    free(m->value);
    memset(m, 0, sizeof *m);
}
