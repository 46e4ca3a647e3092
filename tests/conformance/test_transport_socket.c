/* The suite over a unix socket: connected by path, and handed over as an open pipe. */
#include "transport_suite.h"

#include "base/alloc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static char directory[] = "/tmp/shp-suite-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* The child accepts one connection and becomes the peer on it. */
static void serve(int fd, bool listening, enum suite_peer peer)
{
    child = fork();
    if (child != 0)
        return;
    if (listening)
        fd = accept(fd, NULL, NULL);
    dup2(fd, 0);
    dup2(fd, 1);
    for (int other = 3; other < 64; other++)
        close(other);
    execl("/bin/sh", "sh", "-c", suite_peer_script(peer), (char *)NULL);
    _exit(127);
}

static struct shp_transport *make_connected(void *context, uv_loop_t *loop, enum suite_peer peer)
{
    struct shp_transport *transport = NULL;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)context;
    unlink(address.sun_path);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, 1) != 0)
        return NULL;
    serve(fd, true, peer);
    close(fd);
    return shp_transport_unix_new(&transport, loop, address.sun_path) == 0 ? transport : NULL;
}

static struct shp_transport *make_accepted(void *context, uv_loop_t *loop, enum suite_peer peer)
{
    struct shp_transport *transport = NULL;
    uv_pipe_t *pipe = shp_malloc(sizeof(*pipe));
    int fds[2];

    (void)context;
    if (pipe == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        return NULL;
    serve(fds[1], false, peer);
    close(fds[1]);
    uv_pipe_init(loop, pipe, 0);
    if (uv_pipe_open(pipe, fds[0]) != 0)
        return NULL;
    return shp_transport_socket_new(&transport, loop, pipe) == 0 ? transport : NULL;
}

static void unmake(void *context)
{
    (void)context;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void)
{
    const struct suite_kind connected = {
        .name = "unix socket, connected", .make = make_connected, .unmake = unmake};
    const struct suite_kind accepted = {
        .name = "unix socket, taken over", .make = make_accepted, .unmake = unmake};
    int failed;

    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
    failed = suite_run(&connected) + suite_run(&accepted);
    unlink(address.sun_path);
    rmdir(directory);
    return failed;
}
