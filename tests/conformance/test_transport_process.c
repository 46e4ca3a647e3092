/* The suite over a child process, and what only a child can do. */
#include "transport_suite.h"

#include "protocol/messages.h"

static struct shp_transport *make(void *context, uv_loop_t *loop, enum suite_peer peer)
{
    const char *argv[] = {"/bin/sh", "-c", suite_peer_script(peer), NULL};
    struct shp_process_options options = {.argv = (char *const *)(uintptr_t)argv};
    struct shp_transport *transport = NULL;

    (void)context;
    return shp_transport_process_new(&transport, loop, &options) == 0 ? transport : NULL;
}

int main(void)
{
    const struct suite_kind kind = {
        .name = "process",
        .make = make,
        .vanish_code = SHP_CODE_LINK_LOST,
    };

    return suite_run(&kind);
}
