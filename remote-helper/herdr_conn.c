#include "remote-helper/herdr_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol/messages.h"

#define READ_BYTES 65536

/* A full backlog is answered at once by the kernel; Herdr accepts within milliseconds. */
#define BACKLOG_RETRY_MS 20
#define BACKLOG_RETRIES_MAX 250

#define SESSION_NAME_MAX 64

struct herdr_conn {
    uv_pipe_t pipe;
    uv_timer_t timer; /* first turn, and retries while the backlog is full */
    uv_write_t write;
    uv_loop_t *loop;
    struct herdr_conn_callbacks callbacks;
    void *user;
    unsigned handles;
    unsigned retries;
    bool connected, ended, closing, reading, stopped;
    char path[HERDR_SOCKET_PATH_SIZE];
    char *line;
    size_t line_len;
};

/* Filled and used up within one turn of the loop, so one serves every call; as part of each it
 * would cost the allocator two system calls per call. */
static char read_buffer[READ_BYTES];

/* ---- paths -------------------------------------------------------------------------------- */

static bool session_name_valid(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > SESSION_NAME_MAX || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

static int bad_param(struct shp_error *error, const char *name, const char *why)
{
    shp_error_set(error, SHP_CODE_INVALID_PARAMS, NULL, "find herdr socket", "%s %s", name, why);
    return SHP_ERR_INVALID;
}

int herdr_socket_path(char out[HERDR_SOCKET_PATH_SIZE], const char *socket, const char *session,
                      const char *home, struct shp_error *error)
{
    const char *parts[6];
    size_t count = 0;
    if (socket != NULL) {
        if (socket[0] != '/')
            return bad_param(error, "socket", "is not an absolute path");
        parts[count++] = socket;
    } else {
        if (session != NULL && !session_name_valid(session))
            return bad_param(error, "session", "is not a session name");
        const char *config = getenv("XDG_CONFIG_HOME");
        bool from_home = config == NULL || config[0] == '\0';
        parts[count++] = from_home ? home : config;
        parts[count++] = from_home ? "/.config/herdr" : "/herdr";
        if (session != NULL && strcmp(session, "default") != 0) {
            parts[count++] = "/sessions/";
            parts[count++] = session;
        }
        parts[count++] = "/herdr.sock";
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(parts[i]);
        if (at + len >= HERDR_SOCKET_PATH_SIZE)
            return bad_param(error, "socket", "has a path that is too long for a unix socket");
        memcpy(out + at, parts[i], len);
        at += len;
    }
    out[at] = '\0';
    return 0;
}

/* ---- end ---------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct herdr_conn *conn = handle->data;
    if (--conn->handles != 0)
        return;
    free(conn->line);
    free(conn);
}

void herdr_conn_close(struct herdr_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    uv_close((uv_handle_t *)&conn->timer, on_closed);
    uv_close((uv_handle_t *)&conn->pipe, on_closed);
}

static void finish(struct herdr_conn *conn, enum herdr_end end, const char *cause)
{
    if (conn->ended || conn->closing)
        return;
    conn->ended = true;
    if (conn->reading)
        uv_read_stop((uv_stream_t *)&conn->pipe);
    conn->reading = false;
    conn->callbacks.on_end(conn, end, cause, conn->user);
}

/* ---- reading ------------------------------------------------------------------------------ */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(read_buffer, sizeof read_buffer);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct herdr_conn *conn = stream->data;
    if (got == 0)
        return;
    if (got < 0) {
        finish(conn, HERDR_END_NO_ANSWER,
               got == UV_EOF ? "connection closed" : uv_strerror((int)got));
        return;
    }
    const char *newline = memchr(buf->base, '\n', (size_t)got);
    size_t len = newline != NULL ? (size_t)(newline - buf->base) : (size_t)got;
    if (len > 0)
        conn->callbacks.on_data(conn, buf->base, len, conn->user);
    if (newline != NULL)
        finish(conn, HERDR_END_LINE, "");
}

static void apply_reading(struct herdr_conn *conn)
{
    bool wanted = conn->connected && !conn->stopped && !conn->ended && !conn->closing;
    if (wanted == conn->reading)
        return;
    conn->reading = wanted;
    if (wanted)
        uv_read_start((uv_stream_t *)&conn->pipe, on_alloc, on_read);
    else
        uv_read_stop((uv_stream_t *)&conn->pipe);
}

void herdr_conn_read_start(struct herdr_conn *conn)
{
    conn->stopped = false;
    apply_reading(conn);
}

void herdr_conn_read_stop(struct herdr_conn *conn)
{
    conn->stopped = true;
    apply_reading(conn);
}

/* ---- connecting --------------------------------------------------------------------------- */

/* A failed write shows as the end of the answer, which may still be there to be read. */
static void on_written(uv_write_t *request, int status)
{
    (void)request;
    (void)status;
}

/* 0 or errno. A unix socket connects at once or not at all. */
static int try_connect(struct herdr_conn *conn)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, conn->path, strlen(conn->path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int status;
    do
        status = connect(fd, (const struct sockaddr *)&address, sizeof address);
    while (status != 0 && errno == EINTR);
    int number = status != 0 ? errno : 0;
    if (number == 0)
        number = -uv_pipe_open(&conn->pipe, fd);
    if (number != 0)
        close(fd);
    return number;
}

static void on_turn(uv_timer_t *timer)
{
    struct herdr_conn *conn = timer->data;
    int number = try_connect(conn);
    if (number == EAGAIN && conn->retries++ < BACKLOG_RETRIES_MAX) {
        uv_timer_start(&conn->timer, on_turn, BACKLOG_RETRY_MS, 0);
        return;
    }
    if (number != 0) {
        finish(conn, HERDR_END_NOT_RUNNING, strerror(number));
        return;
    }
    conn->connected = true;
    uv_buf_t buf = uv_buf_init(conn->line, (unsigned)conn->line_len);
    int status = uv_write(&conn->write, (uv_stream_t *)&conn->pipe, &buf, 1, on_written);
    if (status != 0)
        finish(conn, HERDR_END_NO_ANSWER, uv_strerror(status));
    else
        apply_reading(conn);
}

int herdr_conn_open(struct herdr_conn **out, uv_loop_t *loop, const char *path, const char *line,
                    size_t len, const struct herdr_conn_callbacks *callbacks, void *user)
{
    struct herdr_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return SHP_ERR_NOMEM;
    conn->line = malloc(len + 1);
    if (conn->line == NULL) {
        free(conn);
        return SHP_ERR_NOMEM;
    }
    memcpy(conn->line, line, len);
    conn->line[len] = '\n';
    conn->line_len = len + 1;
    memcpy(conn->path, path, strlen(path) + 1);
    conn->loop = loop;
    conn->callbacks = *callbacks;
    conn->user = user;
    uv_pipe_init(loop, &conn->pipe, 0);
    uv_timer_init(loop, &conn->timer);
    conn->pipe.data = conn->timer.data = conn;
    conn->handles = 2;
    uv_timer_start(&conn->timer, on_turn, 0, 0);
    *out = conn;
    return 0;
}
