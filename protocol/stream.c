#include "protocol/stream.h"

#include "base/alloc.h"
#include "protocol/messages.h"

#include <assert.h>

void shp_streams_init(struct shp_streams *streams)
{
    *streams = (struct shp_streams){0};
    shp_map_init(&streams->map, 2 * SHP_LIMIT_STREAMS_OPEN_MAX);
}

void shp_stream_free(struct shp_stream *stream)
{
    shp_buf_fini(&stream->stage);
    shp_free(stream);
}

void shp_streams_fini(struct shp_streams *streams)
{
    struct shp_stream *stream;
    while (streams->open)
        shp_streams_drop(streams, streams->open);
    while ((stream = shp_streams_take_ended(streams)))
        shp_stream_free(stream);
    shp_map_fini(&streams->map);
}

int shp_streams_open(struct shp_streams *streams, uint32_t id, bool ours, struct shp_stream **out)
{
    size_t *count = ours ? &streams->open_ours : &streams->open_peers;
    if (*count >= SHP_LIMIT_STREAMS_OPEN_MAX)
        return SHP_ERR_LIMIT;
    struct shp_stream *stream = shp_calloc(1, sizeof(*stream));
    if (!stream)
        return SHP_ERR_NOMEM;
    int err = shp_map_put(&streams->map, id, stream);
    if (err) {
        shp_free(stream);
        return err;
    }
    stream->id = id;
    stream->ours = ours;
    stream->deadline_ms = UINT64_MAX;
    shp_credit_out_init(&stream->out_credit, SHP_LIMIT_STREAM_CREDIT_BYTES);
    shp_credit_in_init(&stream->in_credit, SHP_LIMIT_STREAM_CREDIT_BYTES);
    shp_buf_init(&stream->stage, SHP_LIMIT_OUTPUT_BYTES_MAX);
    stream->next = streams->open;
    if (stream->next)
        stream->next->prev = stream;
    streams->open = stream;
    (*count)++;
    *out = stream;
    return SHP_OK;
}

struct shp_stream *shp_streams_find(const struct shp_streams *streams, uint32_t id)
{
    return shp_map_get(&streams->map, id);
}

static void leave_round(struct shp_streams *streams, struct shp_stream *stream)
{
    if (!stream->in_turn)
        return;
    struct shp_stream *before = NULL;
    struct shp_stream *at = streams->turn_first;
    while (at != stream) {
        before = at;
        at = at->turn_next;
    }
    if (before)
        before->turn_next = stream->turn_next;
    else
        streams->turn_first = stream->turn_next;
    if (streams->turn_last == stream)
        streams->turn_last = before;
    stream->turn_next = NULL;
    stream->in_turn = false;
    streams->turn_count--;
}

void shp_streams_unstage(struct shp_streams *streams, struct shp_stream *stream)
{
    leave_round(streams, stream);
    streams->staged_bytes -= shp_buf_len(&stream->stage);
    shp_buf_fini(&stream->stage);
    stream->fin_staged = false;
}

static void leave_table(struct shp_streams *streams, struct shp_stream *stream)
{
    shp_streams_unstage(streams, stream);
    void *removed = shp_map_remove(&streams->map, stream->id);
    assert(removed == stream);
    (void)removed;
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        streams->open = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    stream->prev = NULL;
    stream->next = NULL;
    if (stream->ours)
        streams->open_ours--;
    else
        streams->open_peers--;
}

void shp_streams_drop(struct shp_streams *streams, struct shp_stream *stream)
{
    leave_table(streams, stream);
    shp_stream_free(stream);
}

void shp_streams_end(struct shp_streams *streams, struct shp_stream *stream, int code,
                     enum shp_outcome outcome)
{
    leave_table(streams, stream);
    stream->end_code = code;
    stream->end_outcome = outcome;
    if (streams->ended_last)
        streams->ended_last->next = stream;
    else
        streams->ended_first = stream;
    streams->ended_last = stream;
}

struct shp_stream *shp_streams_take_ended(struct shp_streams *streams)
{
    struct shp_stream *stream = streams->ended_first;
    if (!stream)
        return NULL;
    streams->ended_first = stream->next;
    if (!stream->next)
        streams->ended_last = NULL;
    stream->next = NULL;
    return stream;
}

void shp_streams_put_turn(struct shp_streams *streams, struct shp_stream *stream)
{
    if (stream->in_turn)
        return;
    stream->in_turn = true;
    streams->turn_count++;
    stream->turn_next = NULL;
    if (streams->turn_last)
        streams->turn_last->turn_next = stream;
    else
        streams->turn_first = stream;
    streams->turn_last = stream;
}

struct shp_stream *shp_streams_take_turn(struct shp_streams *streams)
{
    struct shp_stream *stream = streams->turn_first;
    if (stream)
        leave_round(streams, stream);
    return stream;
}

bool shp_stream_complete(const struct shp_stream *stream)
{
    return stream->out == SHP_HALF_ENDED && stream->in == SHP_HALF_ENDED;
}
