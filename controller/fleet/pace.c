#include "controller/fleet/pace.h"

#include <string.h>
#include <sodium.h>

uint64_t pace_free_at_ms(const struct pace *pace, uint64_t now_ms, bool asked)
{
    size_t max = asked ? PACE_LOGINS_ASKED_MAX : PACE_LOGINS_MAX;
    if (pace->logins_len < max)
        return now_ms;
    uint64_t free_at_ms = pace->logins_ms[pace->logins_len - max] + PACE_SPAN_MS;
    return free_at_ms > now_ms ? free_at_ms : now_ms;
}

void pace_took(struct pace *pace, uint64_t now_ms)
{
    if (pace->logins_len == PACE_LOGINS_ASKED_MAX) {
        pace->logins_len--;
        memmove(pace->logins_ms, pace->logins_ms + 1, pace->logins_len * sizeof(*pace->logins_ms));
    }
    pace->logins_ms[pace->logins_len++] = now_ms;
}

void pace_give_back(struct pace *pace)
{
    if (pace->logins_len > 0)
        pace->logins_len--;
}

uint32_t pace_backoff(struct pace *pace)
{
    if (pace->backoff_ms < PACE_BACKOFF_MIN_MS / 2)
        pace->backoff_ms = PACE_BACKOFF_MIN_MS / 2;
    pace->backoff_ms =
        pace->backoff_ms * 2 > PACE_BACKOFF_MAX_MS ? PACE_BACKOFF_MAX_MS : pace->backoff_ms * 2;
    uint32_t half = pace->backoff_ms / 2;
    return half + randombytes_uniform(half + 1);
}

uint32_t pace_person_ms(void)
{
    return PACE_PERSON_MS - PACE_PERSON_MS / 4 + randombytes_uniform(PACE_PERSON_MS / 2 + 1);
}
