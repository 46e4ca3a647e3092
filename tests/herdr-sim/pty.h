/*
 * One terminal with one real shell in it. The object lives until the shell is reaped and every
 * process of its terminal session is gone; its owner lets go of it earlier with pty_close.
 */
#ifndef HERDR_SIM_PTY_H
#define HERDR_SIM_PTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

/* Input that a program does not read; more is refused. */
#define PTY_INPUT_BYTES_MAX (1024 * 1024)
/* From the hang-up of a closed pane to the kill of what ignored it. */
#define PTY_KILL_GRACE_MS 2000

struct pty;

struct pty_callbacks {
    void (*on_output)(const uint8_t *bytes, size_t len, void *user);
    /* The shell ended and its output is read to the end. Called once, never after pty_close. */
    void (*on_exit)(void *user);
};

struct pty_spec {
    const char *shell;
    const char *cwd;  /* NULL: the server's */
    char *const *env; /* whole environment of the shell */
    unsigned short rows, cols;
};

/* All terminals of one server; needed to reap children and to end cleanly. */
struct pty_set {
    uv_loop_t *loop;
    uv_signal_t sigchld;
    struct pty *first;
};

void pty_set_init(struct pty_set *set, uv_loop_t *loop);
/* Stops watching for children; only when pty_set_empty. */
void pty_set_fini(struct pty_set *set);
bool pty_set_empty(const struct pty_set *set);

/* 0 or -errno. */
int pty_open(struct pty_set *set, const struct pty_spec *spec, const struct pty_callbacks *cb,
             void *user, struct pty **out);
/* Copies. 0, or -1 when the terminal is gone or its input is full (nothing is taken). */
int pty_write(struct pty *p, const void *bytes, size_t len);
pid_t pty_pid(const struct pty *p);
pid_t pty_foreground(const struct pty *p); /* process group, or 0 */
const char *pty_name(const struct pty *p); /* /dev/pts/N, borrowed */
/* Hangs the whole terminal session up, kills what is left after the grace. No callbacks follow. */
void pty_close(struct pty *p);

#endif
