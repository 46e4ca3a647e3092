#include "transport/transport_libssh_agent.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define ANSWER_BYTES_MAX (256 * 1024)
#define REQUEST_IDENTITIES 11
#define IDENTITIES_ANSWER 12
#define THREAD_STACK_BYTES (128 * 1024)

static const uint8_t list_request[] = {0, 0, 0, 1, REQUEST_IDENTITIES};

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint8_t *put_u32(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
    return at + 4;
}

/* ---- messages ----------------------------------------------------------------------------- */

/*
 * Until fd is ready, or other (-1: none) has hung up, or the deadline: 1, 0 for the latter two.
 */
static int wait_for(int fd, short events, int other, uint64_t deadline_ns, bool *timed_out)
{
    for (;;) {
        struct pollfd polls[2] = {{.fd = fd, .events = events}, {.fd = other, .events = 0}};
        uint64_t now = uv_hrtime();
        int ready;

        if (now >= deadline_ns) {
            *timed_out = true;
            return 0;
        }
        ready = poll(polls, 2, (int)((deadline_ns - now) / 1000000) + 1);
        if (ready < 0 && errno != EINTR)
            return 0;
        if (ready > 0 && polls[0].revents != 0)
            return 1;
        if (ready > 0 && polls[1].revents != 0)
            return 0;
    }
}

/* All of len bytes, or false. */
static bool transfer(int fd, void *data, size_t len, bool sending, int other, uint64_t deadline_ns,
                     bool *timed_out)
{
    size_t done = 0;

    while (done < len) {
        ssize_t count =
            sending ? send(fd, (uint8_t *)data + done, len - done, MSG_DONTWAIT | MSG_NOSIGNAL)
                    : recv(fd, (uint8_t *)data + done, len - done, MSG_DONTWAIT);

        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            return false;
        } else if (!wait_for(fd, sending ? POLLOUT : POLLIN, other, deadline_ns, timed_out)) {
            return false;
        }
    }
    return true;
}

/* A whole message with its length; NULL: none came. The caller frees. */
static uint8_t *receive(int fd, int other, uint64_t deadline_ns, bool *timed_out, size_t *len)
{
    uint8_t head[4];
    uint8_t *message;
    size_t body;

    if (!transfer(fd, head, sizeof(head), false, other, deadline_ns, timed_out))
        return NULL;
    body = get_u32(head);
    if (body == 0 || body > ANSWER_BYTES_MAX)
        return NULL;
    message = shp_malloc(sizeof(head) + body);
    if (message == NULL)
        return NULL;
    memcpy(message, head, sizeof(head));
    if (!transfer(fd, message + sizeof(head), body, false, other, deadline_ns, timed_out)) {
        shp_free(message);
        return NULL;
    }
    *len = sizeof(head) + body;
    return message;
}

/* ---- list --------------------------------------------------------------------------------- */

static bool take_string(const uint8_t **at, size_t *left, const uint8_t **string, size_t *len)
{
    if (*left < 4 || get_u32(*at) > *left - 4)
        return false;
    *len = get_u32(*at);
    *string = *at + 4;
    *at += 4 + *len;
    *left -= 4 + *len;
    return true;
}

static bool parse_keys(struct shp_agent *agent, size_t len)
{
    const uint8_t *at = agent->answer + 9;
    size_t left = len - 9;
    uint32_t count;

    if (len < 9 || agent->answer[4] != IDENTITIES_ANSWER)
        return false;
    count = get_u32(agent->answer + 5);
    for (uint32_t i = 0; i < count && agent->keys_len < SHP_AGENT_KEYS_MAX; i++) {
        struct shp_agent_key *key = &agent->keys[agent->keys_len];

        if (!take_string(&at, &left, &key->blob, &key->blob_len) ||
            !take_string(&at, &left, &key->comment, &key->comment_len))
            return false;
        agent->keys_len++;
    }
    return true;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd;

    if (len >= sizeof(address.sun_path))
        return -1;
    memcpy(address.sun_path, path, len + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        /* EAGAIN: a queue that nobody empties. It shall read as silence, not as absence. */
        bool full = errno == EAGAIN;

        close(fd);
        return full ? -2 : -1;
    }
    return fd;
}

enum shp_agent_state shp_agent_open(struct shp_agent *agent, const char *path, uint64_t deadline_ns)
{
    uint8_t request[sizeof(list_request)];
    bool timed_out = false;
    size_t len = 0;

    memset(agent, 0, sizeof(*agent));
    memcpy(request, list_request, sizeof(request));
    agent->fd = connect_to(path);
    if (agent->fd < 0) {
        bool full = agent->fd == -2;

        agent->fd = -1;
        return full ? SHP_AGENT_SILENT : SHP_AGENT_ABSENT;
    }
    if (transfer(agent->fd, request, sizeof(request), true, -1, deadline_ns, &timed_out))
        agent->answer = receive(agent->fd, -1, deadline_ns, &timed_out, &len);
    if (agent->answer != NULL && parse_keys(agent, len))
        return SHP_AGENT_ANSWERED;
    shp_agent_fini(agent);
    return timed_out ? SHP_AGENT_SILENT : SHP_AGENT_ODD;
}

void shp_agent_fini(struct shp_agent *agent)
{
    if (agent->fd >= 0)
        close(agent->fd);
    shp_free(agent->answer);
    memset(agent, 0, sizeof(*agent));
    agent->fd = -1;
}

/* ---- relay -------------------------------------------------------------------------------- */

struct shp_agent_relay {
    uv_thread_t thread;
    int agent_fd;
    int inner_fd; /* our end of libssh's connection */
    uint8_t *list;
    size_t list_len;
    uint64_t deadline_ns;
    bool timed_out; /* read after the join */
};

static bool relay_one(struct shp_agent_relay *relay)
{
    bool idle = false; /* libssh asking nothing until the deadline is no fault of the agent's */
    size_t len;
    uint8_t *message = receive(relay->inner_fd, -1, relay->deadline_ns, &idle, &len);
    uint8_t *answer = NULL;
    bool sent;

    if (message == NULL)
        return false;
    if (message[4] == REQUEST_IDENTITIES) {
        shp_free(message);
        return transfer(relay->inner_fd, relay->list, relay->list_len, true, -1, relay->deadline_ns,
                        &idle);
    }
    sent = transfer(relay->agent_fd, message, len, true, relay->inner_fd, relay->deadline_ns,
                    &relay->timed_out);
    shp_free(message);
    if (sent)
        answer =
            receive(relay->agent_fd, relay->inner_fd, relay->deadline_ns, &relay->timed_out, &len);
    if (answer == NULL)
        return false;
    sent = transfer(relay->inner_fd, answer, len, true, -1, relay->deadline_ns, &idle);
    shp_free(answer);
    return sent;
}

static void relay_main(void *arg)
{
    struct shp_agent_relay *relay = arg;

    while (relay_one(relay))
        continue;
    shutdown(relay->inner_fd, SHUT_RDWR);
}

static bool make_list(struct shp_agent_relay *relay, const struct shp_agent *agent,
                      const size_t *chosen, size_t chosen_len)
{
    size_t size = 9;
    uint8_t *at;

    for (size_t i = 0; i < chosen_len; i++)
        size += 8 + agent->keys[chosen[i]].blob_len + agent->keys[chosen[i]].comment_len;
    relay->list = shp_malloc(size);
    if (relay->list == NULL)
        return false;
    relay->list_len = size;
    at = put_u32(relay->list, size - 4);
    *at++ = IDENTITIES_ANSWER;
    at = put_u32(at, chosen_len);
    for (size_t i = 0; i < chosen_len; i++) {
        const struct shp_agent_key *key = &agent->keys[chosen[i]];

        at = put_u32(at, key->blob_len);
        memcpy(at, key->blob, key->blob_len);
        at = put_u32(at + key->blob_len, key->comment_len);
        memcpy(at, key->comment, key->comment_len);
        at += key->comment_len;
    }
    return true;
}

int shp_agent_relay_start(struct shp_agent_relay **out, struct shp_agent *agent,
                          const size_t *chosen, size_t chosen_len, uint64_t deadline_ns,
                          int *client_fd)
{
    uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE,
                                   .stack_size = THREAD_STACK_BYTES};
    struct shp_agent_relay *relay = shp_calloc(1, sizeof(*relay));
    int pair[2];

    if (relay == NULL || !make_list(relay, agent, chosen, chosen_len)) {
        shp_free(relay);
        return SHP_ERR_NOMEM;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        shp_free(relay->list);
        shp_free(relay);
        return SHP_ERR_IO;
    }
    relay->agent_fd = agent->fd;
    relay->inner_fd = pair[0];
    relay->deadline_ns = deadline_ns;
    if (uv_thread_create_ex(&relay->thread, &options, relay_main, relay) != 0) {
        close(pair[0]);
        close(pair[1]);
        shp_free(relay->list);
        shp_free(relay);
        return SHP_ERR_IO;
    }
    agent->fd = -1;
    *client_fd = pair[1];
    *out = relay;
    return SHP_OK;
}

bool shp_agent_relay_stop(struct shp_agent_relay *relay)
{
    bool timed_out;

    shutdown(relay->inner_fd, SHUT_RDWR);
    uv_thread_join(&relay->thread);
    timed_out = relay->timed_out;
    close(relay->inner_fd);
    close(relay->agent_fd);
    shp_free(relay->list);
    shp_free(relay);
    return timed_out;
}
