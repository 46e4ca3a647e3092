/* The suite over descriptors of ours, with a child at the other end of two pipes. */
#include "transport_suite.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static struct shp_transport *make(void *context, uv_loop_t *loop, enum suite_peer peer)
{
    struct shp_transport *transport = NULL;
    int to_child[2];
    int to_us[2];

    (void)context;
    if (pipe(to_child) != 0 || pipe(to_us) != 0)
        return NULL;
    child = fork();
    if (child == 0) {
        dup2(to_child[0], 0);
        dup2(to_us[1], 1);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        execl("/bin/sh", "sh", "-c", suite_peer_script(peer), (char *)NULL);
        _exit(127);
    }
    close(to_child[0]);
    close(to_us[1]);
    if (shp_transport_stdio_new(&transport, loop, to_us[0], to_child[1]) != 0)
        return NULL;
    return transport;
}

static void unmake(void *context)
{
    (void)context;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void)
{
    const struct suite_kind kind = {.name = "stdio", .make = make, .unmake = unmake};

    return suite_run(&kind);
}
