#include "creation.h"

#include "params.h"

#include <string.h>
#include <sys/stat.h>

bool creation_options(struct conn *c, const cJSON *params, const char *failed_code,
                      struct create_options *o)
{
    struct stat st;
    memset(o, 0, sizeof *o);
    o->cwd = param_text(params, "cwd");
    o->label = param_text(params, "label");
    o->env = param_item(params, "env");
    o->focus = param_bool(params, "focus", false);
    for (const cJSON *item = o->env ? o->env->child : NULL; item; item = item->next) {
        if (!*item->string || strchr(item->string, '=')) {
            conn_error(c, "invalid_env", "bad variable name");
            return false;
        }
    }
    if (o->cwd && (o->cwd[0] != '/' || stat(o->cwd, &st) < 0 || !S_ISDIR(st.st_mode))) {
        conn_error(c, failed_code, "cwd is not an absolute path of a directory");
        return false;
    }
    return true;
}
