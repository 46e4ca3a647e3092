/*
 * Where Herdr keeps its sockets and files. Resolution order: --session, HERDR_SOCKET_PATH,
 * HERDR_SESSION, default session.
 */
#ifndef HERDR_SIM_PATHS_H
#define HERDR_SIM_PATHS_H

#include <stdbool.h>

/* Strings are owned; free with paths_free. */
struct paths {
    char *socket;        /* JSON socket */
    char *client_socket; /* UI socket beside it; the stand-in only occupies the name */
    char *session_dir;   /* directory of session.json and logs */
    char *config_base;
    char *state_base; /* holds client/endpoints.json */
    char session[65]; /* "default" for the unnamed one */
};

/* 1-64 bytes of letters, digits, '.', '_', '-'; not "." or "..". */
bool session_name_valid(const char *name);
/* cli_session: value of --session, already checked, or NULL. */
void paths_resolve(struct paths *p, const char *cli_session);
/* The JSON socket of a named session below the config base. Caller frees. */
char *paths_session_socket(const struct paths *p, const char *name);
void paths_free(struct paths *p);

#endif
