/* Time as the system tells it; what waits uses the loop's clock. */
#ifndef SHP_CONTROLLER_CLOCK_H
#define SHP_CONTROLLER_CLOCK_H

#include <stdint.h>

/* For records. */
uint64_t clock_unix_ms(void);

/* The three clocks of one moment, in milliseconds. */
struct clock_times {
    uint64_t wall_ms;      /* Unix time; a person or a time server moves it */
    uint64_t boot_ms;      /* since the boot, sleep included */
    uint64_t monotonic_ms; /* since the boot, without sleep: the loop's clock */
};

void clock_read(struct clock_times *out);

/* Tests: another source of clock_read for this process; NULL: the system again. */
void clock_replace(void (*source)(struct clock_times *out));

#endif
