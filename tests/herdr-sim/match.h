/* Line matching of pane.wait_for_output and pane.output_matched. */
#ifndef HERDR_SIM_MATCH_H
#define HERDR_SIM_MATCH_H

#include <regex.h>
#include <stdbool.h>

struct match {
    bool is_regex;
    char *value;
    regex_t regex; /* POSIX extended: close enough to the real server's dialect for tests */
};

/* 0, or -1 when the regular expression does not compile. Free with match_free after 0. */
int match_init(struct match *m, bool is_regex, const char *value);
/* First matching line of the text (allocated, caller frees), or NULL. */
char *match_line(const struct match *m, const char *text);
void match_free(struct match *m);

#endif
