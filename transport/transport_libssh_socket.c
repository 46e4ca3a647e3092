/* A TCP connection to the first of several addresses that takes one. */
#include "transport/transport_libssh_worker.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A later address gets its turn beside an earlier one that is slow (RFC 8305). */
#define NEXT_ADDRESS_MS 250
#define NS_OF_MS 1000000u

struct race {
    struct shp_libssh_run *run;
    struct pollfd polls[SHP_LIBSSH_ADDRESSES_MAX + 1]; /* the first: wake */
    size_t address_of[SHP_LIBSSH_ADDRESSES_MAX + 1];
    size_t len;
    size_t next; /* address */
    int winner;
    size_t winner_address;
    int last_error;
};

static socklen_t length_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static void won(struct race *race, int fd, size_t address)
{
    race->winner = fd;
    race->winner_address = address;
}

static void start_next(struct race *race)
{
    const struct sockaddr_storage *address = &race->run->worker->addresses[race->next];
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;

    if (fd < 0) {
        race->last_error = errno;
        race->next++;
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    if (connect(fd, (const struct sockaddr *)address, length_of(address)) == 0) {
        won(race, fd, race->next++);
    } else if (errno == EINPROGRESS) {
        race->polls[race->len].fd = fd;
        race->polls[race->len].events = POLLOUT;
        race->polls[race->len].revents = 0;
        race->address_of[race->len++] = race->next++;
    } else {
        race->last_error = errno;
        close(fd);
        race->next++;
    }
}

static void drop(struct race *race, size_t i)
{
    race->len--;
    race->polls[i] = race->polls[race->len];
    race->address_of[i] = race->address_of[race->len];
}

static void look(struct race *race)
{
    for (size_t i = 1; i < race->len && race->winner < 0;) {
        int error = 0;
        socklen_t len = sizeof(error);
        int fd = race->polls[i].fd;

        if (race->polls[i].revents == 0) {
            i++;
            continue;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
            error = errno;
        if (error == 0) {
            won(race, fd, race->address_of[i]);
        } else {
            race->last_error = error;
            close(fd);
        }
        drop(race, i);
    }
}

static bool is_cancelled(struct race *race)
{
    struct shp_libssh_worker *worker = race->run->worker;

    if (race->polls[0].revents == 0)
        return false;
    uv_mutex_lock(&worker->lock);
    race->run->cancelled = worker->close_wanted;
    uv_mutex_unlock(&worker->lock);
    return race->run->cancelled;
}

/* One turn of waiting; false: the deadline is over, or nobody wants it any more. */
static bool turn(struct race *race, uint64_t *start_at_ns)
{
    uint64_t deadline_ns = race->run->deadline_ns;
    bool more = race->next < race->run->worker->addresses_len;
    uint64_t now = uv_hrtime();
    uint64_t until_ns = deadline_ns;

    if (more && (race->len == 1 || now >= *start_at_ns)) {
        start_next(race);
        *start_at_ns = now + (uint64_t)NEXT_ADDRESS_MS * NS_OF_MS;
        return true;
    }
    if (race->len == 1 || now >= deadline_ns)
        return false;
    if (more && *start_at_ns < until_ns)
        until_ns = *start_at_ns;
    if (poll(race->polls, race->len, (int)((until_ns - now) / NS_OF_MS) + 1) < 0 && errno != EINTR)
        return false;
    look(race);
    return !is_cancelled(race);
}

static void describe(struct shp_libssh_run *run, const struct sockaddr_storage *address)
{
    char host[64] = "";

    getnameinfo((const struct sockaddr *)address, length_of(address), host, sizeof(host), NULL, 0,
                NI_NUMERICHOST);
    snprintf(run->facts.address, sizeof(run->facts.address), "%s", host);
}

static void set_error(struct race *race)
{
    struct shp_libssh_run *run = race->run;
    size_t count = run->worker->addresses_len;
    int code = SHP_CODE_CONNECT_FAILED;

    if (race->len > 1 || race->last_error == ETIMEDOUT) {
        shp_error_set(&run->error, SHP_CODE_CONNECT_TIMEOUT, NULL, "connect",
                      "%s port %u does not answer", run->facts.address,
                      (unsigned)run->worker->config.port);
        return;
    }
    if (race->last_error == ECONNREFUSED)
        code = SHP_CODE_CONNECT_REFUSED;
    shp_error_set(&run->error, code, NULL, "connect", "%s port %u%s: %s", run->facts.address,
                  (unsigned)run->worker->config.port,
                  count > 1 ? " and the host's other addresses" : "", strerror(race->last_error));
}

int shp_libssh_connect(struct shp_libssh_run *run)
{
    struct race race = {.run = run, .winner = -1, .len = 1, .last_error = EADDRNOTAVAIL};
    uint64_t start_at_ns = 0;

    race.polls[0].fd = run->worker->wake[0];
    race.polls[0].events = POLLIN;
    describe(run, &run->worker->addresses[0]);
    while (race.winner < 0 && turn(&race, &start_at_ns))
        continue;
    if (race.winner >= 0)
        describe(run, &run->worker->addresses[race.winner_address]);
    else if (!run->cancelled)
        set_error(&race);
    for (size_t i = 1; i < race.len; i++)
        close(race.polls[i].fd);
    return race.winner;
}
