/*
 * One line of sh. The outer shell may be fish or tcsh, so that all of it stands in one pair of
 * single quotes with neither `'`, `!` nor a newline inside; sh itself is POSIX. Words that print
 * and leave: p LINE, x LINE. d is our directory, f the helper in it, t a temporary file.
 */
#include "installer/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    char *text;
    size_t len;
    size_t size;
};

static void add(struct line *line, const char *part)
{
    size_t len = strlen(part);
    if (!line->text)
        return;
    if (line->len + len + 1 > line->size) {
        size_t size = (line->len + len + 1) * 2;
        char *text = realloc(line->text, size);
        if (!text) {
            free(line->text);
            line->text = NULL;
            return;
        }
        line->text = text;
        line->size = size;
    }
    memcpy(line->text + line->len, part, len + 1);
    line->len += len;
}

/*
 * sh leaves at once when it cannot fork, open a pipe or exec; then q speaks. It forks nothing, and
 * so can remove only by exec. What sh has to say goes the way of our lines, where it is noise that
 * an error text may quote; the helper gets the standard error of the channel back.
 */
static const char start[] = "p() { printf \"\\n@@SHP1 %s %s\\n\" $k \"$1\"; };"
                            "x() { trap - 0;p \"$1\";exit 3; };"
                            "q() { r=$?;p \"FAIL ended $r\";[ -z \"$t\" ]||exec rm -f \"$t\"; };"
                            "t=;trap q 0;exec 3>&2 2>&1;";

/* HOME is where Herdr and Pi are, also when the helper is elsewhere. */
static const char home[] = "case $HOME in /*) ;;*) x \"FAIL home $HOME\";;esac;"
                           "[ -d \"$HOME\" ]||x \"FAIL home $HOME\";";

/* Per system: n name, z size, g digest. A machine without uname is taken for the first. */
static void add_systems(struct line *line, const struct shp_artifacts *artifacts)
{
    char number[32];
    add(line, "u=$(uname -sm 2>/dev/null);case $u in ");
    for (size_t i = 0; i < artifacts->len; i++) {
        const struct shp_artifact *artifact = &artifacts->items[i];
        snprintf(number, sizeof(number), "%zu", artifact->len);
        add(line, "\"");
        add(line, artifact->system);
        add(line, i == 0 ? "\"|\"\") n=" : "\") n=");
        add(line, artifact->name);
        add(line, ";z=");
        add(line, number);
        add(line, ";g=");
        add(line, artifact->digest);
        add(line, ";;");
    }
    add(line, "*) x \"FAIL arch $u\";;esac;");
}

/*
 * What stands at our place. The content-addressed name in our directory makes a regular file of
 * ours with other bytes or a set-id bit a damaged helper, which is replaced by a rename; anything
 * else is foreign. Where nothing computes a digest a program must answer for itself, and TRY says
 * which one does when it does not.
 */
static const char look[] =
    "f=$d/$n;"
    "if [ -L \"$d\" ]||[ -L \"$f\" ];then x \"FAIL foreign $f: a link\";fi;"
    "if [ -e \"$d\" ]&&{ [ -d \"$d\" ]&&[ -O \"$d\" ]||x \"FAIL foreign $d\"; };then :;fi;"
    "if [ -e \"$f\" ];then "
    "[ -f \"$f\" ]&&[ -O \"$f\" ]||x \"FAIL foreign $f\";"
    "if [ -u \"$f\" ]||[ -g \"$f\" ];then :;elif [ -x \"$f\" ];then "
    "if command -v sha256sum >/dev/null 2>&1;then h=$(sha256sum <\"$f\" 2>/dev/null);"
    "case $h in \"$g\"*) exec \"$f\" serve $k $o 2>&3 3>&-;;esac;"
    "else p \"TRY $f\";if \"$f\" self-check $g </dev/null >/dev/null 2>&1 3>&-;then "
    "exec \"$f\" serve $k $o 2>&3 3>&-;fi;fi;"
    "fi;fi;";

/*
 * After a cut in the upload nobody reads what sh says, also about a self-check that crashed:
 * without the trap SIGPIPE would end it before the temporary is removed. An empty file would run as
 * an empty script and pass its own check. Messages are read (bootstrap.c), hence the locale. v TEXT
 * removes the temporary, at least its bytes where there is no rm, and fails.
 */
static const char install[] =
    "umask 077;trap \"\" PIPE;l=${LC_ALL-};export LC_ALL=C;"
    "e=$(mkdir -p \"$d\" 2>&1)||x \"FAIL write $e\";"
    "t=$d/.tmp-$n-$k;"
    "v() { rm -f \"$t\" 2>/dev/null||printf \"\">\"$t\";x \"FAIL $1\"; };"
    "p \"NEED $u\";"
    "e=$( { set -C;head -c $z >\"$t\"; } 2>&1)||{ r=$?;v \"write ${e:-status $r}\"; };"
    "e=$(chmod 700 \"$t\" 2>&1)||v \"write $e\";"
    "if command -v sha256sum >/dev/null 2>&1;then h=$(sha256sum <\"$t\");"
    "case $h in \"$g\"*) ;;*) v \"check 1 another digest\";;esac;fi;"
    "e=$([ -s \"$t\" ]&&\"$t\" self-check $g 2>&1 3>&-)||{ r=$?;v \"check $r $e\"; };"
    "[ -d \"$f\" ]&&v \"foreign $f\";"
    "e=$(mv -f \"$t\" \"$f\" 2>&1)||v \"write $e\";t=;"
    "if [ -n \"$l\" ];then LC_ALL=$l;else unset LC_ALL;fi;"
    "exec \"$f\" serve $k 2>&3 3>&-";

/*
 * Without the helper: what can be known of the place where it would go, read with what is there.
 * LOOK <writable> <KiB free> <inodes free> <mount options>; what is unknown is -.
 */
static const char absent[] = "q=$d;until [ -d \"$q\" ];do q=${q%/*};[ -n \"$q\" ]||q=/;done;"
                             "w=0;[ -w \"$q\" ]&&w=1;"
                             "a=$(df -Pk \"$q\" 2>/dev/null|{ read h;read h b c e r;echo $e; });"
                             "i=$(df -Pi \"$q\" 2>/dev/null|{ read h;read h b c e r;echo $e; });"
                             "q=$(cd \"$q\" 2>/dev/null&&pwd -P);m=;l=0;"
                             "if [ -r /proc/mounts ];then while read -r h s t v r;do "
                             "[ \"$s\" = / ]||s=$s/;"
                             "case $q/ in \"$s\"*) if [ ${#s} -ge $l ];then l=${#s};m=$v;fi;;esac;"
                             "done </proc/mounts;fi;"
                             "p \"LOOK $w ${a:--} ${i:--} ${m:--}\";"
                             "x \"ABSENT $z $f\"";

char *shp_bootstrap_command(const struct shp_bootstrap_options *options)
{
    struct line line = {.text = malloc(4096), .size = 4096};
    if (line.text)
        line.text[0] = 0;
    add(&line, "exec sh -c '");
    add(&line, "k=");
    add(&line, options->marker);
    add(&line, ";");
    add(&line, start);
    add(&line, home);
    /* A helper that is only looked at sweeps nothing at its start. */
    add(&line, options->probe_only ? "o=keep;" : "o=;");
    if (options->helper_dir) {
        add(&line, "d=");
        add(&line, options->helper_dir);
        add(&line, ";");
    } else {
        add(&line, "d=$HOME/.pi/agent/shepherdr/bin;");
    }
    add_systems(&line, options->artifacts);
    add(&line, look);
    add(&line, options->probe_only ? absent : install);
    add(&line, "'");
    return line.text;
}
