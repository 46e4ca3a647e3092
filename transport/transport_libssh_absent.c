/* In place of the libssh transport where the library was not there at build time. */
#include "transport/transport_libssh.h"

bool shp_libssh_available(void)
{
    return false;
}

const char *shp_libssh_version(void)
{
    return "";
}

bool shp_libssh_knows_kex(const char *name)
{
    (void)name;
    return false;
}

int shp_transport_libssh_new(struct shp_transport **out, uv_loop_t *loop,
                             const struct shp_libssh_options *options)
{
    (void)out;
    (void)loop;
    (void)options;
    return SHP_ERR_INVALID;
}

bool shp_transport_libssh_greeted(const struct shp_transport *transport)
{
    (void)transport;
    return false;
}

const struct shp_ssh_facts *shp_transport_libssh_facts(const struct shp_transport *transport)
{
    (void)transport;
    return NULL;
}
