#include "transport/transport_ssh_agent.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>
#include <sys/un.h>

/* SSH2_AGENTC_REQUEST_IDENTITIES of the agent protocol, with its length. */
static const char question[] = {0, 0, 0, 1, 11};

/* Length and kind of an answer; what kind does not matter: whoever answers is an agent for ssh. */
#define ANSWER_BYTES 5

enum state {
    ASKED,
    SILENT, /* connected, question taken */
    ANSWERED,
    GONE,
};

struct agent {
    struct shp_ssh_agents *all;
    uv_pipe_t pipe;
    uv_connect_t connect;
    uv_write_t write;
    char buffer[64];
    size_t heard;
    enum state state;
};

struct shp_ssh_agents {
    struct agent agents[SHP_SSH_AGENTS_MAX];
    size_t count;
    uv_timer_t timer;
    size_t handles; /* open */
    bool late;      /* order counts no more */
    bool ended;
    shp_ssh_agents_cb done;
    void *user;
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct shp_ssh_agents *all = handle->data;
    int chosen = -1;
    bool silent = false;

    if (--all->handles > 0)
        return;
    for (size_t i = all->count; i-- > 0;) {
        if (all->agents[i].state == ANSWERED)
            chosen = (int)i;
        silent = silent || all->agents[i].state == SILENT;
    }
    all->done(chosen, silent, all->user);
    shp_free(all);
}

static void end(struct shp_ssh_agents *all)
{
    if (all->ended)
        return;
    all->ended = true;
    uv_close((uv_handle_t *)&all->timer, on_handle_closed);
    for (size_t i = 0; i < all->count; i++)
        uv_close((uv_handle_t *)&all->agents[i].pipe, on_handle_closed);
}

/* Ends it when nothing that may still come changes the choice. */
static void judge(struct shp_ssh_agents *all)
{
    bool undecided = false;

    for (size_t i = 0; i < all->count; i++) {
        enum state state = all->agents[i].state;

        if (state == ANSWERED && (all->late || !undecided)) {
            end(all);
            return;
        }
        undecided = undecided || state == ASKED || state == SILENT;
    }
    if (!undecided)
        end(all);
}

static void on_timer(uv_timer_t *timer)
{
    struct shp_ssh_agents *all = timer->data;

    if (all->late) {
        end(all);
        return;
    }
    all->late = true;
    uv_timer_start(timer, on_timer, SHP_SSH_AGENT_LAST_MS - SHP_SSH_AGENT_MS, 0);
    judge(all);
}

static void become(struct agent *agent, enum state state)
{
    if (agent->all->ended)
        return;
    agent->state = state;
    judge(agent->all);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct agent *agent = (struct agent *)((char *)handle - offsetof(struct agent, pipe));

    (void)size;
    *buf = uv_buf_init(agent->buffer, sizeof(agent->buffer));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct agent *agent = (struct agent *)((char *)stream - offsetof(struct agent, pipe));

    (void)buf;
    if (len < 0) {
        become(agent, GONE);
        return;
    }
    agent->heard += (size_t)len;
    if (agent->heard >= ANSWER_BYTES)
        become(agent, ANSWERED);
}

static void on_written(uv_write_t *request, int status)
{
    (void)request;
    (void)status; /* the answer, or its absence, says it */
}

static void on_connected(uv_connect_t *request, int status)
{
    struct agent *agent = (struct agent *)((char *)request - offsetof(struct agent, connect));
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)question, sizeof(question)); /* only read */

    if (agent->all->ended)
        return;
    if (status == UV_EAGAIN) /* its queue is full of others that wait */
        become(agent, SILENT);
    else if (status != 0 || uv_read_start((uv_stream_t *)&agent->pipe, on_alloc, on_read) != 0 ||
             uv_write(&agent->write, (uv_stream_t *)&agent->pipe, &buf, 1, on_written) != 0)
        become(agent, GONE);
    else
        become(agent, SILENT);
}

int shp_ssh_agents_ask(struct shp_ssh_agents **out, uv_loop_t *loop, const char *const *paths,
                       size_t count, shp_ssh_agents_cb done, void *user)
{
    struct shp_ssh_agents *all = shp_calloc(1, sizeof(*all));

    if (all == NULL)
        return SHP_ERR_NOMEM;
    all->count = count < SHP_SSH_AGENTS_MAX ? count : SHP_SSH_AGENTS_MAX;
    all->done = done;
    all->user = user;
    uv_timer_init(loop, &all->timer);
    all->timer.data = all;
    all->handles = 1 + all->count;
    for (size_t i = 0; i < all->count; i++) {
        struct agent *agent = &all->agents[i];

        agent->all = all;
        uv_pipe_init(loop, &agent->pipe, 0);
        agent->pipe.data = all;
        /* uv_pipe_connect would cut a longer one short. */
        if (strlen(paths[i]) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
            agent->state = GONE;
        else
            uv_pipe_connect(&agent->connect, &agent->pipe, paths[i], on_connected);
    }
    uv_timer_start(&all->timer, on_timer, SHP_SSH_AGENT_MS, 0);
    *out = all;
    return SHP_OK;
}

void shp_ssh_agents_cancel(struct shp_ssh_agents *agents)
{
    end(agents);
}
