#include "protocol/window.h"

#include <string.h>

#include "framing/frame.h"
#include "protocol/messages.h"

/* Part of the window that a frame may have, and that may be sent without a mark. */
#define PARTS 8
/* Parts of the window that go one after the other where the line has a delay. */
#define BURSTS 4
/* After it was too large once, a window grows by this part of what is acknowledged. */
#define SLOW_PART 4
/* A round trip within this part of the base has seen the base again. */
#define SAME_PART 8

void shp_window_init(struct shp_window *window)
{
    memset(window, 0, sizeof(*window));
    window->bytes = SHP_LIMIT_BULK_WINDOW_BYTES_START;
    window->opening = true;
    window->resume_ms = UINT64_MAX;
}

/* ---- sending ------------------------------------------------------------------------------- */

/* Bulk after a rest: the line may be another one by now. The base could not be seen meanwhile. */
static void start_again(struct shp_window *window, uint64_t now_ms)
{
    if (now_ms - window->last_sent_ms < SHP_LIMIT_BULK_BASE_AGE_MS)
        return;
    window->base_seen_ms = now_ms;
    if (window->bytes > SHP_LIMIT_BULK_WINDOW_BYTES_START)
        window->bytes = SHP_LIMIT_BULK_WINDOW_BYTES_START;
    window->opening = true;
}

/*
 * An old base may be too low, when the way got longer, and would hold the window down for ever. It
 * is given up once nothing of ours is on the line: a new one taken behind our own queue would let
 * the window grow with that queue.
 */
static bool base_settled(struct shp_window *window, uint64_t now_ms)
{
    if (!window->base_known || now_ms - window->base_seen_ms < SHP_LIMIT_BULK_BASE_AGE_MS)
        return true;
    if (window->mark_count > 0)
        return false;
    window->base_known = false;
    return true;
}

/*
 * A window that goes all at once becomes one packet of SSH, which arrives all at once; so do the
 * pongs, and the line rests for a round trip. On a line with a delay a part of the window goes in
 * the same part of the base.
 */
static bool in_pace(struct shp_window *window, size_t part, uint64_t now_ms)
{
    /* Quicker than the window, so that it is the window that decides. */
    uint64_t step_ms = window->base_ms / (window->opening ? 2 * BURSTS : BURSTS + 1);
    if (step_ms == 0)
        return true;
    if (now_ms - window->burst_ms >= step_ms) {
        window->burst_ms = now_ms;
        window->burst = 0;
    }
    if (window->burst + part > window->bytes / BURSTS) {
        window->resume_ms = window->burst_ms + step_ms;
        return false;
    }
    window->burst += part;
    return true;
}

size_t shp_window_frame(struct shp_window *window, size_t staged, uint64_t now_ms)
{
    start_again(window, now_ms);
    window->resume_ms = UINT64_MAX;
    size_t most = window->bytes / PARTS;
    if (most > SHP_FRAME_PAYLOAD_MAX)
        most = SHP_FRAME_PAYLOAD_MAX;
    size_t part = staged < most ? staged : most;
    if (!base_settled(window, now_ms))
        return 0;
    uint64_t under_way = window->sent - window->acknowledged + part;
    /* An SSH server packs together what it finds, and a ping in one packet with bulk measures that
     * bulk: until the base is known only a small answer goes. */
    if (!window->base_known)
        return staged <= most && under_way <= most ? part : 0;
    if (under_way > window->bytes) {
        window->held_at = window->sent;
        return 0;
    }
    return in_pace(window, part, now_ms) ? part : 0;
}

void shp_window_sent(struct shp_window *window, size_t bytes, uint64_t now_ms)
{
    window->sent += bytes;
    window->last_sent_ms = now_ms;
}

/* ---- marks --------------------------------------------------------------------------------- */

bool shp_window_wants_mark(const struct shp_window *window, bool blocked)
{
    uint64_t unmarked = window->sent - window->marked;
    if (window->mark_count == SHP_WINDOW_MARKS_MAX)
        return false;
    return unmarked >= window->bytes / PARTS ||
           (blocked && window->mark_count == 0 && window->resume_ms == UINT64_MAX);
}

void shp_window_mark(struct shp_window *window, uint64_t number, bool quiet, uint64_t now_ms)
{
    if (window->mark_count == SHP_WINDOW_MARKS_MAX)
        return;
    window->marks[window->mark_count++] = (struct shp_window_mark){
        .number = number, .sent_ms = now_ms, .position = window->sent, .quiet = quiet};
    window->marked = window->sent;
}

/* ---- judging ------------------------------------------------------------------------------- */

static void learn_base(struct shp_window *window, uint64_t rtt_ms, uint64_t now_ms)
{
    if (!window->base_known || rtt_ms < window->base_ms)
        window->base_ms = rtt_ms;
    /* One step of the clock is no difference. */
    if (!window->base_known || rtt_ms <= window->base_ms + window->base_ms / SAME_PART + 1)
        window->base_seen_ms = now_ms;
    window->base_known = true;
}

static void halve(struct shp_window *window)
{
    window->bytes /= 2;
    if (window->bytes < SHP_LIMIT_BULK_WINDOW_BYTES_MIN)
        window->bytes = SHP_LIMIT_BULK_WINDOW_BYTES_MIN;
    window->opening = false;
    window->judged_from = window->sent;
}

static void grow(struct shp_window *window, uint64_t acknowledged)
{
    uint64_t more = window->opening ? acknowledged : acknowledged / SLOW_PART;
    uint64_t room = SHP_LIMIT_BULK_WINDOW_BYTES_MAX - window->bytes;
    window->bytes += (uint32_t)(more < room ? more : room);
}

bool shp_window_pong(struct shp_window *window, uint64_t number, uint64_t now_ms,
                     struct shp_window_sample *sample)
{
    size_t at = 0;
    while (at < window->mark_count && window->marks[at].number != number)
        at++;
    if (at == window->mark_count)
        return false;
    struct shp_window_mark mark = window->marks[at];
    window->mark_count -= at + 1;
    memmove(window->marks, window->marks + at + 1, window->mark_count * sizeof(mark));

    /* A window that holds nothing back does not need to be larger. */
    bool used = mark.position <= window->held_at;
    uint64_t news = mark.position - window->acknowledged;
    window->acknowledged = mark.position;
    sample->rtt_ms = now_ms > mark.sent_ms ? now_ms - mark.sent_ms : 0;
    sample->quiet = mark.quiet;
    learn_base(window, sample->rtt_ms, now_ms);
    if (news == 0 || mark.position <= window->judged_from)
        return true;
    if (sample->rtt_ms > window->base_ms + window->base_ms / 2 + SHP_LIMIT_BULK_DELAY_MS)
        halve(window);
    else if (used)
        grow(window, news);
    return true;
}

void shp_window_distrust(struct shp_window *window)
{
    window->judged_from = window->sent;
}
