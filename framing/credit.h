/*
 * Arithmetic of windows: how much bulk one half of a stream may still carry. spec/protocol.md 5.
 */
#ifndef SHP_FRAMING_CREDIT_H
#define SHP_FRAMING_CREDIT_H

#include <stddef.h>
#include <stdint.h>

/* Sending side. */
struct shp_credit_out {
    uint32_t available;
};

void shp_credit_out_init(struct shp_credit_out *credit, uint32_t window);

/* The peer gives more. PROTOCOL: more than any half could use. */
int shp_credit_out_give(struct shp_credit_out *credit, uint32_t bytes);

/* Take up to wanted bytes; returns how many there were. */
size_t shp_credit_out_take(struct shp_credit_out *credit, size_t wanted);

/* Receiving side. */
struct shp_credit_in {
    uint32_t window;
    uint32_t left;    /* what the peer may still send */
    uint32_t held;    /* received, not used up by our consumer */
    uint32_t to_give; /* used up, not yet told to the peer */
};

void shp_credit_in_init(struct shp_credit_in *credit, uint32_t window);

/* Bulk arrived. CREDIT: more than was allowed. */
int shp_credit_in_receive(struct shp_credit_in *credit, size_t bytes);

/*
 * The consumer used bytes up (more than it holds counts as all). Returns what to give the peer now;
 * 0 until half a window has come together, so that credit frames stay few.
 */
uint32_t shp_credit_in_consume(struct shp_credit_in *credit, size_t bytes);

#endif
