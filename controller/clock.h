/* Wall-clock time for records; everything that waits uses the loop's clock. */
#ifndef SHP_CONTROLLER_CLOCK_H
#define SHP_CONTROLLER_CLOCK_H

#include <stdint.h>

uint64_t clock_unix_ms(void);

#endif
