/*
 * Two descriptors of ours as a transport. They are moved to numbers of libuv's own, so that nothing
 * else in the process can write into the wire by writing to descriptor 1.
 */
#include "transport/transport_stream.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define STDIO_FD_MAX 2

struct stdio {
    struct shp_uv_stream stream;
    int fd[2];   /* in, out: ours, or -1 once libuv has them */
    int mode[2]; /* their file status flags as found */
};

/* libuv polls the descriptor: a file or /dev/null would abort the process. */
static bool is_pollable(int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return false;
    return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd));
}

static void give_up(int fd)
{
    int null;

    if (fd > STDIO_FD_MAX) {
        close(fd);
        return;
    }
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        close(fd);
        return;
    }
    if (null != fd) {
        dup2(null, fd);
        close(null);
    }
}

static int open_side(struct stdio *stdio, int side, uv_pipe_t **pipe)
{
    int err;

    *pipe = shp_malloc(sizeof(**pipe));
    if (*pipe == NULL)
        return UV_ENOMEM;
    uv_pipe_init(stdio->stream.base.loop, *pipe, 0);
    err = uv_pipe_open(*pipe, stdio->fd[side]);
    if (err == 0)
        stdio->fd[side] = -1;
    return err;
}

static void fail_open(struct shp_duplex *duplex)
{
    shp_uv_stream_fail((struct shp_uv_stream *)duplex->transport, "open descriptors", UV_EBADF);
}

static int stdio_open(struct shp_transport *transport)
{
    struct stdio *stdio = (struct stdio *)transport;

    if (open_side(stdio, 0, &stdio->stream.in) != 0 || open_side(stdio, 1, &stdio->stream.out) != 0)
        shp_duplex_wait(&stdio->stream.duplex, 0, fail_open);
    else
        shp_uv_stream_opened(&stdio->stream);
    return SHP_OK;
}

/* The mode belongs to the open file, which a shell or a parent may share with us. */
static void restore(struct shp_uv_stream *stream)
{
    struct stdio *stdio = (struct stdio *)stream;
    uv_pipe_t *pipes[2] = {stream->in, stream->out};

    for (int i = 0; i < 2; i++) {
        int fd = stdio->fd[i];

        if (fd < 0 && (pipes[i] == NULL || uv_fileno((uv_handle_t *)pipes[i], &fd) != 0))
            continue;
        fcntl(fd, F_SETFL, stdio->mode[i]);
        if (fd == stdio->fd[i])
            close(fd);
        stdio->fd[i] = -1;
    }
}

static const struct shp_transport_ops ops = {
    .name = "stdio",
    .open = stdio_open,
    .write = shp_uv_stream_write,
    .read_start = shp_uv_stream_read_start,
    .read_stop = shp_uv_stream_read_stop,
    .close = shp_uv_stream_close,
    .free = shp_uv_stream_free,
};

int shp_transport_stdio_new(struct shp_transport **out, uv_loop_t *loop, int fd_in, int fd_out)
{
    int fds[2] = {fd_in, fd_out};
    struct stdio *stdio;
    int err = SHP_ERR_IO;

    if (!is_pollable(fd_in) || !is_pollable(fd_out))
        return SHP_ERR_INVALID;
    stdio = shp_calloc(1, sizeof(*stdio));
    if (stdio == NULL)
        return SHP_ERR_NOMEM;
    stdio->fd[1] = -1;
    for (int i = 0; i < 2; i++) {
        stdio->mode[i] = fcntl(fds[i], F_GETFL);
        stdio->fd[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, STDIO_FD_MAX + 1);
        if (stdio->fd[i] < 0 || stdio->mode[i] < 0)
            goto fail;
    }
    give_up(fd_in);
    if (fd_out != fd_in)
        give_up(fd_out);
    shp_uv_stream_init(&stdio->stream, &ops, loop);
    stdio->stream.before_close = restore;
    *out = &stdio->stream.base;
    return SHP_OK;

fail:
    if (stdio->fd[0] > STDIO_FD_MAX)
        close(stdio->fd[0]);
    if (stdio->fd[1] > STDIO_FD_MAX)
        close(stdio->fd[1]);
    shp_free(stdio);
    return err;
}
