#include "paths.h"

#include "util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool session_name_valid(const char *name)
{
    size_t n = strlen(name);
    if (n < 1 || n > 64 || !strcmp(name, ".") || !strcmp(name, ".."))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static char *config_base(void)
{
    const char *xdg = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (xdg)
        return sim_format("%s/herdr", xdg);
    if (home && *home)
        return sim_format("%s/.config/herdr", home);
    const char *tmp = getenv("TMPDIR");
    return sim_format("%s/herdr", tmp && *tmp ? tmp : "/tmp");
}

static char *state_base(void)
{
    const char *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (xdg && *xdg)
        return sim_format("%s/herdr", xdg);
    return sim_format("%s/.local/state/herdr", home && *home ? home : "/tmp");
}

char *paths_session_socket(const struct paths *p, const char *name)
{
    if (!strcmp(name, "default"))
        return sim_format("%s/herdr.sock", p->config_base);
    return sim_format("%s/sessions/%s/herdr.sock", p->config_base, name);
}

static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return sim_strdup(".");
    if (slash == path)
        return sim_strdup("/");
    char *d = sim_strdup(path);
    d[slash - path] = '\0';
    return d;
}

void paths_resolve(struct paths *p, const char *cli_session)
{
    memset(p, 0, sizeof *p);
    p->config_base = config_base();
    p->state_base = state_base();
    const char *explicit_socket = getenv("HERDR_SOCKET_PATH");
    const char *env_session = getenv("HERDR_SESSION");
    const char *name = "default";
    if (cli_session)
        name = cli_session;
    else if (env_session && session_name_valid(env_session))
        name = env_session;
    snprintf(p->session, sizeof p->session, "%s", name);
    if (!cli_session && explicit_socket && *explicit_socket)
        p->socket = sim_strdup(explicit_socket);
    else
        p->socket = paths_session_socket(p, name);
    p->session_dir = dir_of(p->socket);

    size_t n = strlen(p->socket);
    if (n > 5 && !strcmp(p->socket + n - 5, ".sock"))
        p->client_socket = sim_format("%.*s-client.sock", (int)(n - 5), p->socket);
    else
        p->client_socket = sim_format("%s-client.sock", p->socket);
}

void paths_free(struct paths *p)
{
    free(p->socket);
    free(p->client_socket);
    free(p->session_dir);
    free(p->config_base);
    free(p->state_base);
    memset(p, 0, sizeof *p);
}
