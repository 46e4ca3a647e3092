#include "framing/credit.h"

#include "base/error.h"

/* Far above message_bytes_max, far below an overflow. */
#define AVAILABLE_MAX (UINT32_C(1) << 30)

void shp_credit_out_init(struct shp_credit_out *credit, uint32_t window)
{
    credit->available = window;
}

int shp_credit_out_give(struct shp_credit_out *credit, uint32_t bytes)
{
    if (bytes > AVAILABLE_MAX - credit->available)
        return SHP_ERR_PROTOCOL;
    credit->available += bytes;
    return SHP_OK;
}

size_t shp_credit_out_take(struct shp_credit_out *credit, size_t wanted)
{
    size_t taken = wanted < credit->available ? wanted : credit->available;
    credit->available -= (uint32_t)taken;
    return taken;
}

void shp_credit_in_init(struct shp_credit_in *credit, uint32_t window)
{
    *credit = (struct shp_credit_in){.window = window, .left = window};
}

int shp_credit_in_receive(struct shp_credit_in *credit, size_t bytes)
{
    if (bytes > credit->left)
        return SHP_ERR_CREDIT;
    credit->left -= (uint32_t)bytes;
    credit->held += (uint32_t)bytes;
    return SHP_OK;
}

uint32_t shp_credit_in_consume(struct shp_credit_in *credit, size_t bytes)
{
    uint32_t used = bytes < credit->held ? (uint32_t)bytes : credit->held;
    credit->held -= used;
    credit->to_give += used;
    if (credit->to_give < credit->window / 2)
        return 0;
    uint32_t given = credit->to_give;
    credit->to_give = 0;
    credit->left += given;
    return given;
}
